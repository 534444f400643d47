#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace ferry::interop {

// Which bytes of a file were written.
class Coverage {
 public:
  void add(std::uint64_t offset, std::uint64_t length) {
    if (length == 0) return;
    auto end = offset + length;
    auto at = ranges_.upper_bound(offset);
    if (at != ranges_.begin() && std::prev(at)->second >= offset) {
      --at;
      offset = at->first;
    }
    while (at != ranges_.end() && at->first <= end) {
      end = std::max(end, at->second);
      at = ranges_.erase(at);
    }
    ranges_.emplace(offset, end);
  }
  void add(const Coverage& other) {
    for (const auto& [begin, end] : other.ranges_) add(begin, end - begin);
  }
  bool empty() const { return ranges_.empty(); }
  void clear() { ranges_.clear(); }
  // What is missing of the first `bytes`, as offsets and lengths.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> gaps(std::uint64_t bytes) const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
    std::uint64_t at = 0;
    for (const auto& [begin, end] : ranges_) {
      if (begin > at) found.emplace_back(at, begin - at);
      at = end;
    }
    if (at < bytes) found.emplace_back(at, bytes - at);
    return found;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin to end, neither touching nor overlapping
};

}  // namespace ferry::interop
