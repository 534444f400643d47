#include "ferry/ops/kernel.h"

#include <map>
#include <mutex>
#include <string>

#include "ferry/ops/standard_internal.h"

namespace ferry::ops {
namespace {

// Never destroyed: kernels may be made as long as the process lives.
class Kernels {
 public:
  static Kernels& one() {
    static auto* kernels = new Kernels;
    return *kernels;
  }

  Kernels() {
    for (auto& [op, factory] : standard_kernels()) {
      const auto added = factories_.emplace(op, std::move(factory)).second;
      FERRY_ASSERT(added, "no two of the library's kernels are for one operator");
    }
  }
  Status add(std::string_view op, KernelFactory factory) {
    const std::lock_guard hold(mutex_);
    if (!factories_.emplace(op, std::move(factory)).second)
      return fail(Code::kAlreadyExists, "there is a kernel for {} already", op);
    return {};
  }
  KernelFactory find(std::string_view op) {
    const std::lock_guard hold(mutex_);
    const auto found = factories_.find(op);
    return found == factories_.end() ? KernelFactory() : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, KernelFactory, std::less<>> factories_;
};

}  // namespace

Status register_kernel(std::string_view op, KernelFactory factory) {
  return Kernels::one().add(op, std::move(factory));
}

Result<std::unique_ptr<Kernel>> make_kernel(const graph::Node& node) {
  const auto factory = Kernels::one().find(node.op->name);
  if (!factory)
    return fail(Code::kUnimplemented,
                "node '{}': there is no kernel for {}; register_kernel() adds one", node.name,
                node.op->name);
  return factory(node);
}

}  // namespace ferry::ops
