#include <algorithm>
#include <mutex>
#include <span>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "ferry/base/clock.h"
#include "ferry/graph/gradient.h"
#include "ferry/models/emulate_internal.h"
#include "ferry/ops/kernel.h"

// The two operators of an emulated model. A token, one number, goes from layer to layer and back.

namespace ferry::models {
namespace {

using graph::Inference;
using tensor::Spec;

const Spec kToken = {tensor::ElementType::kF32, {}};

Result<std::vector<Spec>> infer_layer(const Inference& node) {
  FERRY_TRY(node.attributes.get<std::int64_t>("ns"));
  FERRY_TRY(node.attributes.get<std::int64_t>("back_ns"));
  return std::vector<Spec>{kToken};
}

// The token, and a gradient for each variable.
Result<std::vector<Spec>> infer_layer_grad(const Inference& node) {
  FERRY_TRY(node.attributes.get<std::int64_t>("ns"));
  std::vector<Spec> outputs = {kToken};
  for (const auto& variable : node.inputs.subspan(1)) outputs.push_back(variable);
  return outputs;
}

Status layer_back(graph::Gradient& g) {
  std::vector<graph::Expr> inputs = {g.incoming()};
  for (std::size_t index = 1; index < g.inputs(); ++index) inputs.push_back(g.input(index));
  const auto back =
      g.builder().add("EmulatedLayerGrad", std::move(inputs),
                      {{"ns", FERRY_TRY(g.attributes().get<std::int64_t>("back_ns"))}});
  for (std::uint32_t index = 0; index < g.inputs(); ++index) g.set(index, back.at(index));
  return {};
}

// Says yes when a layer that began with the first poll would be done. What the kernel itself is
// going to take, as it was last time, is a part of that.
class LayerClock {
 public:
  explicit LayerClock(std::int64_t ns) : ns_(ns) {}
  bool over() {
    if (due_ == 0) due_ = now_ns() + std::max<std::int64_t>(ns_ - own_, 0);
    return now_ns() >= due_;
  }
  std::int64_t due() const { return due_; }
  void begin_own() { began_ = now_ns(); }
  void end_own() {
    own_ = now_ns() - began_;
    due_ = 0;
  }

 private:
  const std::int64_t ns_;
  std::int64_t due_ = 0;
  std::int64_t began_ = 0;
  std::int64_t own_ = 0;
};

class EmulatedKernel : public ops::Kernel {
 public:
  explicit EmulatedKernel(std::int64_t ns) : clock_(ns) {}
  bool polls() const final { return true; }
  Result<bool> poll(ops::KernelContext&) final { return clock_.over(); }
  std::int64_t poll_again_ns() const final { return clock_.due(); }
  Status run(ops::KernelContext& context) final {
    clock_.begin_own();
    FERRY_TRY(make(context));
    clock_.end_own();
    return {};
  }

 protected:
  virtual Status make(ops::KernelContext& context) = 0;
  static Status put_token(ops::KernelContext& context, float value) {
    FERRY_TRY(context.output(0, kToken)).elements<float>()[0] = value;
    return {};
  }

 private:
  LayerClock clock_;
};

class LayerKernel final : public EmulatedKernel {
 public:
  using EmulatedKernel::EmulatedKernel;

 private:
  Status make(ops::KernelContext& context) override {
    return put_token(context, context.input(0).elements<float>()[0]);
  }
};

// As a device would write it: without reading the lines first.
void fill(std::span<float> values, float value) {
#ifdef __SSE2__
  constexpr std::size_t kLine = 4;  // floats
  constexpr std::uintptr_t kAligned = 16;
  auto at = values.begin();
  while (at != values.end() && reinterpret_cast<std::uintptr_t>(&*at) % kAligned != 0)
    *at++ = value;
  const auto line = _mm_set1_ps(value);
  for (; values.end() - at >= static_cast<std::ptrdiff_t>(kLine); at += kLine)
    _mm_stream_ps(&*at, line);
  _mm_sfence();
  std::fill(at, values.end(), value);
#else
  std::fill(values.begin(), values.end(), value);
#endif
}

class LayerGradKernel final : public EmulatedKernel {
 public:
  using EmulatedKernel::EmulatedKernel;

 private:
  Status make(ops::KernelContext& context) override {
    for (std::uint32_t index = 1; index < context.inputs(); ++index) {
      const auto& variable = context.input(index);
      auto gradient = FERRY_TRY(context.output(index, variable.spec()));
      auto values = gradient.elements<float>();
      if (values.empty()) continue;
      const auto turn = static_cast<float>((context.step() + index) % 5);
      fill(values, (turn - 2) * 1e-3F + variable.elements<float>()[0] * 1e-2F);
    }
    return put_token(context, context.input(0).elements<float>()[0]);
  }
};

template <class K>
Result<std::unique_ptr<ops::Kernel>> make_emulated(const graph::Node& node) {
  return std::make_unique<K>(FERRY_TRY(node.attributes.get<std::int64_t>("ns")));
}

}  // namespace

void register_emulation() {
  static std::once_flag once;
  std::call_once(once, [] {
    using graph::OpDef;
    (void)graph::register_op({.name = "EmulatedLayer",
                              .least_inputs = 1,
                              .most_inputs = OpDef::kAnyNumber,
                              .infer = infer_layer,
                              .gradient = layer_back,
                              .stateful = true});
    (void)graph::register_op({.name = "EmulatedLayerGrad",
                              .least_inputs = 1,
                              .most_inputs = OpDef::kAnyNumber,
                              .infer = infer_layer_grad,
                              .stateful = true});
    (void)ops::register_kernel("EmulatedLayer", make_emulated<LayerKernel>);
    (void)ops::register_kernel("EmulatedLayerGrad", make_emulated<LayerGradKernel>);
  });
}

}  // namespace ferry::models
