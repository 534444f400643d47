// Data path.
#pragma once

#include <atomic>
#include <cstdint>

#include "ferry/fabric/verbs/wire_internal.h"

namespace ferry::fabric::verbs {

// The credits of a lane, in both directions: how many messages and notifying flags this end may
// still send, and how many of the peer's it has taken without giving back the credit.
class Credits {
 public:
  // For the holder of the backlog's lock.

  void start(std::uint32_t credits) { left_ = credits; }
  bool has_left() const { return left_ != 0; }
  void spend() { --left_; }
  // Adds what the peer has returned.
  void collect() { left_ += returned_.exchange(0, std::memory_order_relaxed); }
  // What is owed to the peer, which goes out with the next request that carries an immediate.
  std::uint16_t take_owed() {
    return static_cast<std::uint16_t>(owed_.exchange(0, std::memory_order_relaxed));
  }

  // Thread-safe.

  // The peer has returned some. Before a look at who waits for credits.
  void add_returned(std::uint32_t credits) {
    returned_.fetch_add(credits, std::memory_order_seq_cst);
  }
  bool has_returned() const { return returned_.load(std::memory_order_seq_cst) != 0; }
  // One more of the peer's was taken. True when so many are owed that they are due.
  bool owe() { return owed_.fetch_add(1, std::memory_order_relaxed) + 1 >= kDue; }
  // Whether so many are owed that they are given back by a request of their own.
  bool due() const { return owed_.load(std::memory_order_relaxed) >= kDue; }

 private:
  static constexpr std::uint32_t kDue = kLaneCredits / 2;

  std::uint32_t left_ = 0;
  std::atomic<std::uint32_t> returned_{0};
  std::atomic<std::uint32_t> owed_{0};
};

}  // namespace ferry::fabric::verbs
