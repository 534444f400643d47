#pragma once

#include <atomic>
#include <cstdint>

namespace ferry::steady {

// What the process counts of itself while `open`; in memory that its tracer sees, too.
struct Ledger {
  std::atomic<bool> open{false};
  std::atomic<std::uint64_t> allocations{0};
  std::atomic<std::uint64_t> blocked{0};
  std::atomic<std::int64_t> took_ns{0};
  std::atomic<bool> done{false};
  char problem[512] = {};
};

// Where this process counts; none: it does not.
void set_ledger(Ledger* ledger);

}  // namespace ferry::steady
