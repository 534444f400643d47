#include "ferry/runtime/trace.h"

#include <algorithm>

namespace ferry::runtime {

void Trace::note(const std::byte* begin, std::uint64_t bytes, Site site) {
  const auto* end = begin + std::max<std::uint64_t>(bytes, 1);
  auto next = entries_.lower_bound(begin);
  if (next != entries_.begin()) {
    const auto before = std::prev(next);
    if (before->second.begin + before->second.bytes > begin) entries_.erase(before);
  }
  while (next != entries_.end() && next->first < end) next = entries_.erase(next);
  entries_[begin] = {site, begin, static_cast<std::uint64_t>(end - begin)};
}

std::optional<Trace::Entry> Trace::find(const std::byte* address) const {
  auto next = entries_.upper_bound(address);
  if (next == entries_.begin()) return std::nullopt;
  const auto& entry = std::prev(next)->second;
  if (address >= entry.begin + entry.bytes) return std::nullopt;
  return entry;
}

}  // namespace ferry::runtime
