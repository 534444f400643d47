#include <gtest/gtest.h>

#include <limits>

#include "ferry/ops/kit_internal.h"

namespace ferry::ops {
namespace {

using namespace kit;

TEST(SourceKernels, InputsAreCheckedAgainstWhatIsDeclared) {
  graph::Graph graph;
  graph::Builder builder(graph);
  const auto x = builder.input("x", spec({-1, 3}));
  Tensors none;
  const auto run = [&](const Tensors& feeds) {
    return evaluate(graph, none, feeds, std::vector{x.output()});
  };
  EXPECT_TRUE(run({{"x", noise({2, 3}, 1)}}));
  EXPECT_EQ(code_of(run({})), Code::kNotFound);
  const auto refused = run({{"x", noise({2, 4}, 1)}});
  ASSERT_EQ(code_of(refused), Code::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("f32[?, 3]"), std::string::npos);
  EXPECT_NE(refused.error().message().find("f32[2, 4]"), std::string::npos);
  EXPECT_EQ(code_of(run({{"x", ints({1, 3}, {1, 2, 3})}})), Code::kInvalidArgument);
}

TEST(SourceKernels, VariablesAreTheirState) {
  graph::Graph graph;
  graph::Builder builder(graph);
  const auto w = builder.variable("w", spec({2}));
  Tensors variables = {{"w", floats({2}, {1, 2})}};
  const auto found = evaluate(graph, variables, {}, std::vector{w.output()});
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)[0].data(), variables["w"].data());
  variables["w"] = floats({3}, {1, 2, 3});
  EXPECT_EQ(code_of(evaluate(graph, variables, {}, std::vector{w.output()})),
            Code::kInvalidArgument);
}

TEST(SourceKernels, ForwardsAreTheSameMemory) {
  const auto x = ints({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(result_of("Identity", {x}).data(), x.data());
  EXPECT_EQ(result_of("StopGradient", {x}).data(), x.data());
  const auto y = result_of("Reshape", {x}, {{"shape", *Shape::of({3, -1})}});
  EXPECT_EQ(y.data(), x.data());
  EXPECT_EQ(y.shape(), *Shape::of({3, 2}));
  EXPECT_EQ(result_of("ReshapeLike", {x, noise({6}, 1)}).shape(), *Shape::of({6}));
}

TEST(SourceKernels, ZerosAndOnesOfEachType) {
  EXPECT_EQ(values(result_of("ZerosLike", {noise({2}, 1)})), (std::vector<float>{0, 0}));
  EXPECT_EQ(values(result_of("OnesLike", {noise({2}, 1)})), (std::vector<float>{1, 1}));
  EXPECT_EQ(int_values(result_of("OnesLike", {ints({2}, {5, 6})})),
            (std::vector<std::int32_t>{1, 1}));
  const auto half = tensor_of<std::uint16_t>({1}, {0}, ElementType::kF16);
  EXPECT_EQ(result_of("OnesLike", {half}).elements<std::uint16_t>()[0], 0x3C00);
  EXPECT_EQ(code_of(run_op("Group", {noise({2}, 1), ints({}, {1})})), Code::kOk);
}

TEST(SourceKernels, CastThereAndBackAmongAllTypes) {
  const auto x = floats({1025}, [] {
    std::vector<float> small(1025);
    for (std::size_t i = 0; i < small.size(); ++i) small[i] = static_cast<float>(i % 200);
    return small;
  }());
  for (const auto type :
       {ElementType::kF16, ElementType::kBf16, ElementType::kF32, ElementType::kF64,
        ElementType::kI32, ElementType::kI64, ElementType::kU8}) {
    const auto there = result_of("Cast", {x}, {{"type", type}});
    ASSERT_EQ(there.type(), type);
    for (const auto next : {ElementType::kF16, ElementType::kF64, ElementType::kI32,
                            ElementType::kI64, ElementType::kU8}) {
      const auto further = result_of("Cast", {there}, {{"type", next}});
      EXPECT_TRUE(same_bits(result_of("Cast", {further}, {{"type", ElementType::kF32}}), x))
          << tensor::name_of(type) << " " << tensor::name_of(next);
    }
  }
}

TEST(SourceKernels, CastsStayInsideTheType) {
  constexpr auto kInfinity = std::numeric_limits<float>::infinity();
  const auto x = floats({5}, {300, -1, std::nanf(""), kInfinity, -1.9F});
  const auto bytes = result_of("Cast", {x}, {{"type", ElementType::kU8}});
  EXPECT_TRUE(
      same_bits(bytes, tensor_of<std::uint8_t>({5}, {255, 0, 0, 255, 0}, ElementType::kU8)));
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(int_values(result_of("Cast", {x}, {{"type", ElementType::kI32}})),
            (std::vector<std::int32_t>{300, -1, 0, kMost, -1}));
  const auto wide = tensor_of<std::int64_t>({1}, {std::int64_t{1} << 40}, ElementType::kI64);
  EXPECT_EQ(int_values(result_of("Cast", {wide}, {{"type", ElementType::kI32}})),
            std::vector<std::int32_t>{kMost});
}

}  // namespace
}  // namespace ferry::ops
