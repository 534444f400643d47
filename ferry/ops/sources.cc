#include <cstring>

#include "ferry/ops/standard_internal.h"
#include "ferry/ops/threads_internal.h"

// Where values come from, and operators that hand on what they were given.

namespace ferry::ops {
namespace {

class InputKernel final : public Kernel {
 public:
  explicit InputKernel(const graph::Node& node) : name_(node.name), spec_(node.outputs[0]) {}

  Status run(KernelContext& context) override {
    auto value = FERRY_TRY(context.fed(name_));
    if (!spec_.admits(value.spec()))
      return fail(Code::kInvalidArgument, "the input '{}' is {}, and was fed with {}", name_,
                  spec_.to_string(), value.spec().to_string());
    context.pass(0, std::move(value));
    return {};
  }

 private:
  std::string name_;
  tensor::Spec spec_;
};

class VariableKernel final : public Kernel {
 public:
  explicit VariableKernel(const graph::Node& node) : name_(node.name), spec_(node.outputs[0]) {}

  Status run(KernelContext& context) override {
    auto value = FERRY_TRY(context.variable(name_));
    if (value.spec() != spec_)
      return fail(Code::kInvalidArgument, "the variable '{}' is {}, and its state is {}", name_,
                  spec_.to_string(), value.spec().to_string());
    context.pass(0, std::move(value));
    return {};
  }

 private:
  std::string name_;
  tensor::Spec spec_;
};

Status run_const(const Call& call) {
  call.context.pass(0, FERRY_TRY(call.attributes().get<tensor::Tensor>("value")));
  return {};
}

// The memory of input 0 under the output's shape.
Status run_forward(const Call& call) {
  call.context.pass(0, FERRY_TRY(call.in(0).reshape(call.out_shape())));
  return {};
}

Status run_zeros_like(const Call& call) {
  const auto out = FERRY_TRY(call.out());
  if (!out.bytes().empty()) std::memset(out.data(), 0, out.bytes().size());
  return {};
}

Status run_group(const Call&) { return {}; }

}  // namespace

NamedKernels source_kernels() {
  return {{"Input", made_of<InputKernel>()},     {"Variable", made_of<VariableKernel>()},
          {"Const", shaped(run_const)},          {"Identity", shaped(run_forward)},
          {"StopGradient", shaped(run_forward)}, {"Reshape", shaped(run_forward)},
          {"ReshapeLike", shaped(run_forward)},  {"ZerosLike", shaped(run_zeros_like)},
          {"Group", shaped(run_group)}};
}

}  // namespace ferry::ops
