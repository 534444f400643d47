#include "ferry/ops/kernel_def.h"

namespace ferry::ops {
namespace {

class Stateless final : public Kernel {
 public:
  explicit Stateless(Status (*run)(KernelContext&)) : run_(run) {}
  Status run(KernelContext& context) override { return run_(context); }

 private:
  Status (*run_)(KernelContext&);
};

}  // namespace

KernelFactory stateless(Status (*run)(KernelContext&)) {
  return [run](const graph::Node&) -> Result<std::unique_ptr<Kernel>> {
    return std::make_unique<Stateless>(run);
  };
}

}  // namespace ferry::ops
