#include "ferry/ops/onednn_internal.h"

namespace ferry::ops {

// Never destroyed: kernels may run as long as the process lives.
const dnnl::engine& engine() {
  static const auto* one = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *one;
}

dnnl::stream& stream() {
  static thread_local dnnl::stream one(engine());
  return one;
}

dnnl::primitive_attr with_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Status Prepared::run(KernelContext& context) {
  if (scratchpad_ > 0) set(DNNL_ARG_SCRATCHPAD, FERRY_TRY(context.scratch(scratchpad_)).data());
  primitive_.execute(stream(), arguments_);
  stream().wait();
  return {};
}

Relayout::Relayout(const dnnl::memory::desc& from, const dnnl::memory::desc& to)
    : needed_(from != to), from_(from, engine(), nullptr), to_(to, engine(), nullptr) {
  if (needed_) reorder_ = dnnl::reorder(from_, to_);
}

void Relayout::run(const void* from, void* to) {
  from_.set_data_handle(const_cast<void*>(from));
  to_.set_data_handle(to);
  reorder_.execute(stream(), from_, to_);
  stream().wait();
  count_reorder(bytes());
}

}  // namespace ferry::ops
