#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "ferry/graph/graph.h"

namespace ferry::ops {

// What one run of a kernel works with. Made by whoever runs it.
class KernelContext {
 public:
  virtual std::size_t inputs() const = 0;
  // Valid during the run. A kernel writes to an input only if its operator updates it.
  virtual const tensor::Tensor& input(std::size_t index) const = 0;
  // Memory for an output, of this type and shape, all dimensions known. It may be the memory of an
  // input that the operator declares reusable, or a place in another process: the kernel writes
  // each element once, in any order, and reads none that it has not written. Called once for each
  // output.
  virtual Result<tensor::Tensor> output(std::uint32_t index, const tensor::Spec& spec) = 0;
  // Hands a tensor on as an output, sharing its memory.
  virtual void pass(std::uint32_t index, tensor::Tensor value) = 0;
  // Memory for the time of the run, aligned to 64 bytes.
  virtual Result<std::span<std::byte>> scratch(std::uint64_t bytes) = 0;
  // The state of a variable, by the name of its node.
  virtual Result<tensor::Tensor> variable(std::string_view name) = 0;
  // What the step was fed with, by the name of the Input node.
  virtual Result<tensor::Tensor> fed(std::string_view name) = 0;
  // From 1; the same for all nodes of a step.
  virtual std::uint64_t step() const = 0;

 protected:
  ~KernelContext() = default;
};

// The code of one node. Made once, run once a step, by one thread at a time: that of its
// task's loop, or the one in evaluate(). It may keep what it prepared for the last shapes.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual Status run(KernelContext& context) = 0;

  // A kernel that polls is run once poll() has said yes; until then others run. Never blocks.
  virtual bool polls() const { return false; }
  virtual Result<bool> poll(KernelContext&) { return true; }
  // When, on the monotonic clock, poll() is worth another try after it has said no.
  virtual std::int64_t poll_again_ns() const { return 0; }
};

using KernelFactory = std::function<Result<std::unique_ptr<Kernel>>(const graph::Node&)>;

// A kernel without state, from a function.
KernelFactory stateless(Status (*run)(KernelContext&));

}  // namespace ferry::ops
