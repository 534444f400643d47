// Data path.
#include <algorithm>

#include "ferry/runtime/output_allocation_internal.h"

namespace ferry::runtime {

OutputAllocation::OutputAllocation(const Program& program)
    : program_(program),
      planned_(program.items.size()),
      allocations_(program.items.size()),
      plan_of_send_(program.items.size()) {
  for (std::size_t item = 0; item < program.items.size(); ++item)
    planned_[item].resize(program.items[item].node->outputs.size());
}

void OutputAllocation::begin_step() {
  std::fill(allocations_.begin(), allocations_.end(), 0);
  if (!tracing_) return;
  trace_.clear();
  sent_.clear();
  for (auto& item : planned_) std::fill(item.begin(), item.end(), Planned{});
  std::fill(plan_of_send_.begin(), plan_of_send_.end(), nullptr);
}

OutputAllocation::Choice OutputAllocation::next_of(std::uint32_t item) {
  const auto nth = allocations_[item]++;
  const auto& planned = planned_[item][nth];
  return {planned.memory, planned.end, {item, nth}};
}

void OutputAllocation::note(const tensor::Tensor& tensor, const Choice& choice) {
  if (tracing_) trace_.note(tensor.data(), tensor.bytes().size(), choice.site);
  planned_[choice.site.node][choice.site.allocation].given = tensor.data();
}

void OutputAllocation::see_send(std::uint32_t item, const tensor::Tensor& tensor) {
  if (tracing_) {
    if (const auto found = trace_.find(tensor.data()))
      sent_[found->site].push_back(
          {item, found->begin == tensor.data() && found->bytes == tensor.bytes().size()});
  } else if (const auto* plan = plan_of_send_[item]; plan != nullptr) {
    surprised_ = surprised_ || plan->given != tensor.data();
  }
}

void OutputAllocation::end_step() {
  if (tracing_) {
    for (const auto& [site, sends] : sent_) {
      auto& plan = planned_[site.node][site.allocation];
      plan.memory = Memory::kRegistered;
      if (sends.size() > 1 || !sends[0].whole) continue;
      plan.memory = Memory::kEnd;
      plan.end = program_.items[sends[0].item].send;
      plan.item = sends[0].item;
      plan_of_send_[plan.item] = &plan;
    }
  }
  tracing_ = std::exchange(surprised_, false);
}

std::uint64_t OutputAllocation::sites(Memory memory) const {
  std::uint64_t count = 0;
  for (const auto& item : planned_)
    for (const auto& plan : item) count += plan.memory == memory ? 1 : 0;
  return count;
}

}  // namespace ferry::runtime
