#pragma once

#include <atomic>
#include <cstdint>

namespace ferry {

// A statistic that many threads add to and anybody reads; relaxed, never a synchronisation point.
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  // For a counter with one writer at a time: no locked instruction.
  void add_owned(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace ferry
