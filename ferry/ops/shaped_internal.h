#pragma once

#include <string>
#include <vector>

#include "ferry/ops/kernel_def.h"

namespace ferry::ops {

// What a kernel's shapes are in a run, as its operator's shape function has found them right.
struct Shapes {
  std::span<const tensor::Spec> inputs;
  std::span<const tensor::Spec> outputs;
  const graph::Attributes& attributes;
};

// One run of such a kernel.
struct Call {
  KernelContext& context;
  const Shapes& shapes;

  const tensor::Tensor& in(std::size_t index) const { return context.input(index); }
  const float* floats(std::size_t index) const {
    return reinterpret_cast<const float*>(in(index).data());
  }
  const std::int32_t* ints(std::size_t index) const {
    return reinterpret_cast<const std::int32_t*>(in(index).data());
  }
  const tensor::Shape& shape(std::size_t input) const { return shapes.inputs[input].shape; }
  const tensor::Shape& out_shape(std::size_t output = 0) const {
    return shapes.outputs[output].shape;
  }
  // How many elements output 0 has.
  std::size_t size() const { return static_cast<std::size_t>(out_shape().elements()); }
  const graph::Attributes& attributes() const { return shapes.attributes; }

  Result<tensor::Tensor> out(std::uint32_t index = 0) const {
    return context.output(index, shapes.outputs[index]);
  }
  Result<float*> out_floats(std::uint32_t index = 0) const {
    auto made = FERRY_TRY(out(index));
    return reinterpret_cast<float*>(made.data());
  }
  template <class T>
  Result<T*> scratch(std::size_t count) const {
    const auto bytes = FERRY_TRY(context.scratch(count * sizeof(T)));
    return reinterpret_cast<T*>(bytes.data());
  }
};

// The dimension as an index or a count.
inline std::size_t dim(const tensor::Shape& shape, std::size_t axis) {
  return static_cast<std::size_t>(shape.dim(axis));
}
inline std::size_t count_of(const tensor::Shape& shape) {
  return static_cast<std::size_t>(shape.elements());
}
// The last dimension, and how many rows of it there are; a scalar is one row of one.
struct Rows {
  std::size_t count = 1;
  std::size_t width = 1;
};
Rows rows_of(const tensor::Shape& shape);

// A kernel that lets its operator's shape function check the inputs and say what the outputs are,
// once for each new set of input specs. Errors name the node.
class Shaped : public Kernel {
 public:
  explicit Shaped(const graph::Node& node)
      : op_(node.op), name_(node.name), attributes_(node.attributes) {}
  Status run(KernelContext& context) final;

 protected:
  // The shapes, or the number of threads, are not those of the last run.
  virtual Status prepare(const Shapes& /*shapes*/) { return {}; }
  virtual Status compute(const Call& call) = 0;

 private:
  bool same_as_before(KernelContext& context) const;
  Status look_at_shapes(KernelContext& context);
  Status run_checked(KernelContext& context);

  const graph::OpDef* op_;
  std::string name_;
  graph::Attributes attributes_;
  bool prepared_ = false;
  unsigned threads_ = 0;
  std::vector<tensor::Spec> inputs_;
  std::vector<tensor::Spec> outputs_;
};

using Compute = Status (*)(const Call&);
using NamedKernels = std::vector<std::pair<std::string, KernelFactory>>;

// A Shaped kernel from a function, and from a class.
KernelFactory shaped(Compute compute);
template <class T>
KernelFactory made_of() {
  return [](const graph::Node& node) -> Result<std::unique_ptr<Kernel>> {
    return std::make_unique<T>(node);
  };
}

}  // namespace ferry::ops
