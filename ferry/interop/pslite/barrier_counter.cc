#include <algorithm>
#include <iterator>

#include "ferry/interop/pslite/barrier_counter_internal.h"

namespace ps {

void BarrierCounter::arrive(int customer_id, int group, const Waiting& one) {
  barriers_[{customer_id, group}].push_back(one);
}

void BarrierCounter::forget(int process) {
  for (auto each = barriers_.begin(); each != barriers_.end();) {
    std::erase_if(each->second, [&](const Waiting& one) { return one.process == process; });
    each = each->second.empty() ? barriers_.erase(each) : std::next(each);
  }
}

std::vector<BarrierCounter::Waiting> BarrierCounter::take_complete(const Members& members) {
  std::vector<Waiting> complete;
  for (auto each = barriers_.begin(); each != barriers_.end();) {
    auto missing = members(each->first.first, each->first.second);
    std::vector<Waiting> come;
    std::vector<Waiting> early;  // for the next barrier: their process has sent enough for this one
    for (const auto& one : each->second) {
      const auto member = missing.find(one.process);
      const bool counts = member != missing.end() && member->second-- > 0;
      (counts ? come : early).push_back(one);
    }
    const bool all = std::all_of(missing.begin(), missing.end(),
                                 [](const auto& member) { return member.second <= 0; });
    if (!all) {
      ++each;
      continue;
    }
    complete.insert(complete.end(), come.begin(), come.end());
    each->second = std::move(early);
    each = each->second.empty() || come.empty() ? barriers_.erase(each) : each;
  }
  return complete;
}

}  // namespace ps
