#include "ferry/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "ferry/tensor/descriptor.h"

namespace ferry::tensor {
namespace {

Shape shape_of(std::initializer_list<std::int64_t> dims) { return *Shape::of(dims); }

template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::kOk : result.error().code();
}

TEST(ElementType, NamesAndSizes) {
  for (std::uint8_t value = 1; value <= 10; ++value) {
    auto type = element_type_of(value);
    ASSERT_TRUE(type);
    EXPECT_EQ(*element_type_named(name_of(*type)), *type);
    EXPECT_GT(size_of(*type), 0U);
  }
  EXPECT_EQ(size_of(ElementType::kBf16), 2U);
  EXPECT_EQ(size_of(ElementType::kF64), 8U);
  EXPECT_EQ(code_of(element_type_of(0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(element_type_of(11)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(element_type_named("float")), Code::kInvalidArgument);
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(shape_of({2, 3, 4}).elements(), 24);
  EXPECT_EQ(shape_of({2, 0, 4}).elements(), 0);
  EXPECT_EQ(shape_of({2, -1}).elements(), -1);
  EXPECT_FALSE(shape_of({-1}).known());
  EXPECT_EQ(shape_of({2, -1, 3}).to_string(), "[2, ?, 3]");
}

TEST(Shape, RefusesWhatIsNone) {
  EXPECT_EQ(code_of(Shape::of({1, 1, 1, 1, 1, 1, 1, 1, 1})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(Shape::of({-2})), Code::kInvalidArgument);
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(code_of(Shape::of({kMax, 2})), Code::kOutOfRange);
  EXPECT_EQ(shape_of({kMax, 0}).elements(), 0);
  EXPECT_EQ(code_of(Spec{ElementType::kF64, shape_of({kMax})}.bytes()), Code::kOutOfRange);
  EXPECT_EQ(code_of(Spec{ElementType::kF32, shape_of({-1})}.bytes()), Code::kFailedPrecondition);
}

TEST(Shape, AdmitsWhatItStandsFor) {
  EXPECT_TRUE(shape_of({-1, 3}).admits(shape_of({7, 3})));
  EXPECT_FALSE(shape_of({-1, 3}).admits(shape_of({7, 4})));
  EXPECT_FALSE(shape_of({-1, 3}).admits(shape_of({7, 3, 1})));
  EXPECT_FALSE(shape_of({-1}).admits(shape_of({-1})));
}

TEST(Tensor, ViewsShareTheBuffer) {
  auto buffer = std::make_shared<std::vector<float>>(24);
  auto bytes = std::as_writable_bytes(std::span(*buffer));
  auto whole = *Tensor::over({ElementType::kF32, shape_of({4, 6})}, bytes, buffer);
  auto rows = *whole.rows(1, 3);
  EXPECT_EQ(rows.shape(), shape_of({2, 6}));
  EXPECT_EQ(rows.data(), whole.data() + 6 * sizeof(float));
  rows.elements<float>()[0] = 5;
  EXPECT_EQ(whole.elements<float>()[6], 5);
  auto flat = *whole.reshape(shape_of({24}));
  EXPECT_EQ(flat.data(), whole.data());
  EXPECT_EQ(buffer.use_count(), 4);
  EXPECT_EQ(whole.rows(4, 4)->bytes().size(), 0U);
}

TEST(Tensor, RefusesWhatDoesNotFit) {
  std::vector<std::byte> bytes(64);
  Spec spec{ElementType::kF32, shape_of({4})};
  EXPECT_EQ(code_of(Tensor::over(spec, std::span(bytes).first(15))), Code::kInvalidArgument);
  EXPECT_EQ(code_of(Tensor::over(spec, std::span(bytes).subspan(1, 16))), Code::kInvalidArgument);
  auto tensor = *Tensor::over(spec, std::span(bytes).first(16));
  EXPECT_EQ(code_of(tensor.reshape(shape_of({5}))), Code::kInvalidArgument);
  EXPECT_EQ(code_of(tensor.reshape(shape_of({-1}))), Code::kInvalidArgument);
  EXPECT_EQ(code_of(tensor.rows(0, 5)), Code::kOutOfRange);
  EXPECT_EQ(code_of(tensor.rows(-1, 2)), Code::kOutOfRange);
  EXPECT_EQ(code_of(tensor.rows(3, 2)), Code::kOutOfRange);
  auto scalar = *Tensor::over({ElementType::kF32, {}}, std::span(bytes).first(4));
  EXPECT_EQ(code_of(scalar.rows(0, 0)), Code::kInvalidArgument);
}

TEST(Descriptor, IsTheseBytes) {
  auto wire = to_wire({ElementType::kI16, shape_of({3, -1})});
  DescriptorBytes expected{};
  expected[0] = std::byte{6};
  expected[1] = std::byte{2};
  expected[8] = std::byte{3};
  std::memset(expected.data() + 16, 0xFF, 8);
  EXPECT_EQ(wire, expected);
}

TEST(Descriptor, ComesBack) {
  for (const auto& spec : {Spec{ElementType::kF32, {}}, Spec{ElementType::kBool, shape_of({0})},
                           Spec{ElementType::kF64, shape_of({1, 2, 3, 4, 5, 6, 7, 8})},
                           Spec{ElementType::kBf16, shape_of({-1, 5})}}) {
    auto back = spec_from_wire(to_wire(spec));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, spec);
  }
}

TEST(Descriptor, RefusesEveryByteThatMeansNothing) {
  auto good = to_wire({ElementType::kF32, shape_of({2})});
  for (std::size_t i : {0UL, 1UL, 2UL, 7UL, 16UL, 71UL}) {
    auto bad = good;
    bad[i] = std::byte{0x7F};
    EXPECT_FALSE(spec_from_wire(bad)) << i;
  }
  EXPECT_FALSE(spec_from_wire(std::span(good).first(71)));
  auto negative = good;
  std::memset(negative.data() + 8, 0xFE, 8);
  EXPECT_FALSE(spec_from_wire(negative));
}

}  // namespace
}  // namespace ferry::tensor
