#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace ferry::runtime {

// An allocation in a graph: the n-th output that a node allocates.
struct Site {
  std::uint32_t node = 0;
  std::uint32_t allocation = 0;
  friend auto operator<=>(const Site&, const Site&) = default;
};

// Who allocated the memory at an address: the newest allocation wins. Addresses inside of a buffer
// count, for tensors may be views. One thread.
class Trace {
 public:
  struct Entry {
    Site site;
    const std::byte* begin = nullptr;
    std::uint64_t bytes = 0;
  };

  void note(const std::byte* begin, std::uint64_t bytes, Site site);
  // None for memory that no node has allocated: variables, feeds, what was received.
  std::optional<Entry> find(const std::byte* address) const;
  void clear() { entries_.clear(); }

 private:
  std::map<const std::byte*, Entry> entries_;  // by begin; they do not overlap
};

}  // namespace ferry::runtime
