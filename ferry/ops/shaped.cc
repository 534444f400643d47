#include "ferry/ops/shaped_internal.h"
#include "ferry/ops/threads_internal.h"

namespace ferry::ops {
namespace {

class ShapedFunction final : public Shaped {
 public:
  ShapedFunction(const graph::Node& node, Compute compute) : Shaped(node), compute_(compute) {}

 private:
  Status compute(const Call& call) override { return compute_(call); }
  Compute compute_;
};

}  // namespace

Rows rows_of(const tensor::Shape& shape) {
  if (shape.rank() == 0) return {};
  Rows rows{1, dim(shape, shape.rank() - 1)};
  for (std::size_t axis = 0; axis + 1 < shape.rank(); ++axis) rows.count *= dim(shape, axis);
  return rows;
}

bool Shaped::same_as_before(KernelContext& context) const {
  if (!prepared_ || threads_ != threads() || inputs_.size() != context.inputs()) return false;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i] != context.input(i).spec()) return false;
  return true;
}

Status Shaped::look_at_shapes(KernelContext& context) {
  prepared_ = false;
  threads_ = threads();
  inputs_.clear();
  for (std::size_t i = 0; i < context.inputs(); ++i) inputs_.push_back(context.input(i).spec());
  outputs_ = FERRY_TRY(op_->infer({inputs_, attributes_}));
  FERRY_TRY(prepare({inputs_, outputs_, attributes_}));
  prepared_ = true;
  return {};
}

Status Shaped::run_checked(KernelContext& context) {
  use_threads();
  if (!same_as_before(context)) FERRY_TRY(look_at_shapes(context));
  const Shapes shapes{inputs_, outputs_, attributes_};
  return compute({context, shapes});
}

Status Shaped::run(KernelContext& context) {
  auto done = run_checked(context);
  if (done) return done;
  const auto& error = done.error();
  return tl::unexpected(Error(error.code(),
                              fmt::format("node '{}' ({}): {}", name_, op_->name, error.message()),
                              error.os_code(), error.file(), error.line()));
}

KernelFactory shaped(Compute compute) {
  return [compute](const graph::Node& node) -> Result<std::unique_ptr<Kernel>> {
    return std::make_unique<ShapedFunction>(node, compute);
  };
}

}  // namespace ferry::ops
