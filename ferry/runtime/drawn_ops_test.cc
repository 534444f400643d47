#include <gtest/gtest.h>

#include <cstring>

#include "ferry/base/clock.h"
#include "ferry/runtime/drawn_ops_internal.h"

namespace ferry::runtime::drawn {
namespace {

using graph::OpDef;
using ops::KernelContext;

Result<std::vector<tensor::Spec>> like_first(const graph::Inference& node) {
  return std::vector{node.inputs[0]};
}

Status run_twice(KernelContext& context) {
  const auto out = FERRY_TRY(context.output(0, context.input(0).spec()));
  const auto in = context.input(0).elements<float>();
  for (std::size_t i = 0; i < in.size(); ++i) out.elements<float>()[i] = 2 * in[i];
  return {};
}

Status run_pair(KernelContext& context) {
  const auto out = FERRY_TRY(context.output(0, context.input(0).spec()));
  for (std::size_t i = 0; i < out.elements<float>().size(); ++i)
    out.elements<float>()[i] =
        context.input(0).elements<float>()[i] + context.input(1).elements<float>()[i];
  return {};
}

Status run_view(KernelContext& context) {
  context.pass(0, context.input(0));
  return {};
}

Status run_moody(KernelContext& context) {
  if (context.step() % 2 == 1) return run_view(context);
  const auto out = FERRY_TRY(context.output(0, context.input(0).spec()));
  std::memcpy(out.data(), context.input(0).data(), out.bytes().size());
  return {};
}

Status run_descend(KernelContext& context) {
  const auto before = context.input(0).elements<float>();
  const auto out = FERRY_TRY(context.output(0, context.input(0).spec()));
  for (std::size_t i = 0; i < before.size(); ++i) {
    float sum = 0;
    for (std::size_t from = 1; from < context.inputs(); ++from)
      sum += context.input(from).elements<float>()[i];
    out.elements<float>()[i] = before[i] - sum / 8;
  }
  return {};
}

class LateKernel final : public ops::Kernel {
 public:
  explicit LateKernel(std::int64_t ms) : ns_(ms * 1'000'000) {}
  Status run(KernelContext& context) override {
    due_ = 0;
    return run_view(context);
  }
  bool polls() const override { return true; }
  Result<bool> poll(KernelContext&) override {
    if (due_ == 0) due_ = now_ns() + ns_;
    return now_ns() >= due_;
  }
  std::int64_t poll_again_ns() const override { return due_; }

 private:
  const std::int64_t ns_;
  std::int64_t due_ = 0;
};

void add(OpDef def, ops::KernelFactory factory) {
  const auto name = def.name;
  ASSERT_TRUE(graph::register_op(std::move(def)));
  ASSERT_TRUE(ops::register_kernel(name, std::move(factory)));
}

}  // namespace

void register_all() {
  static bool done = false;
  if (std::exchange(done, true)) return;
  add({.name = "Twice",
       .least_inputs = 1,
       .most_inputs = 1,
       .infer = like_first,
       .reuses = {{0, 0}}},
      ops::stateless(run_twice));
  add({.name = "Pair", .least_inputs = 2, .most_inputs = 2, .infer = like_first},
      ops::stateless(run_pair));
  add({.name = "View", .least_inputs = 1, .most_inputs = 1, .infer = like_first, .forwards = true},
      ops::stateless(run_view));
  add({.name = "Moody", .least_inputs = 1, .most_inputs = 1, .infer = like_first},
      ops::stateless(run_moody));
  add({.name = "Descend",
       .least_inputs = 2,
       .most_inputs = 9,
       .infer = like_first,
       .updates = 1,
       .stateful = true},
      ops::stateless(run_descend));
  add({.name = "Late", .least_inputs = 1, .most_inputs = 1, .infer = like_first},
      [](const graph::Node& node) -> Result<std::unique_ptr<ops::Kernel>> {
        return std::make_unique<LateKernel>(FERRY_TRY(node.attributes.get<std::int64_t>("ms")));
      });
}

tensor::Tensor floats(std::vector<float> values) {
  auto kept = std::make_shared<std::vector<float>>(std::move(values));
  const auto shape = *tensor::Shape::of({static_cast<std::int64_t>(kept->size())});
  return *tensor::Tensor::over({tensor::ElementType::kF32, shape},
                               std::as_writable_bytes(std::span(*kept)), kept);
}

std::vector<float> values_of(const tensor::Tensor& tensor) {
  const auto all = tensor.elements<float>();
  return {all.begin(), all.end()};
}

graph::Output Drawing::source(const std::string& op, const std::string& name, std::int64_t elements,
                              const std::string& task) {
  const graph::Attributes attributes{{"type", tensor::ElementType::kF32},
                                     {"shape", *tensor::Shape::of({elements})}};
  return {*graph.add({.op = op, .name = name, .attributes = attributes, .task = task}), 0};
}

graph::Output Drawing::node(const std::string& op, const std::string& name,
                            std::vector<graph::Output> inputs, const std::string& task,
                            graph::Attributes attributes) {
  return {*graph.add({.op = op,
                      .name = name,
                      .inputs = std::move(inputs),
                      .attributes = std::move(attributes),
                      .task = task}),
          0};
}

}  // namespace ferry::runtime::drawn
