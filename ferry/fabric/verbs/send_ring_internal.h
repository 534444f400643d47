// Data path.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "ferry/base/error.h"
#include "ferry/fabric/operation_internal.h"

namespace ferry::fabric::verbs {

// What one posted work request was for.
struct SendSlot {
  enum class Kind : std::uint8_t { kOperation, kBind, kHello, kCredits };
  Kind kind = Kind::kOperation;
  bool last = false;        // of its operation
  Operation* op = nullptr;  // kOperation
  std::uint64_t key = 0;    // kBind
  std::uint32_t epoch = 0;  // kBind
};

// The work requests of one send queue, oldest first. A queue pair completes them in order, so one
// completion retires all that were posted before it, signalled or not.
//
// push() by whoever holds the backlog's lock; retire() and walk() by the loop only.
class SendRing {
 public:
  // `depth` is a power of two.
  explicit SendRing(std::uint32_t depth) : slots_(depth) {
    FERRY_ASSERT((depth & (depth - 1)) == 0 && depth >= 8, "the depth is a power of two");
  }

  std::uint32_t depth() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::uint64_t posted() const { return posted_.load(std::memory_order_relaxed); }
  std::uint32_t room() const {
    return depth() -
           static_cast<std::uint32_t>(posted() - retired_.load(std::memory_order_seq_cst));
  }
  bool empty() const {
    return retired_.load(std::memory_order_relaxed) == posted_.load(std::memory_order_acquire);
  }
  // Whether the next request asks for a completion although nobody waits for it: the device frees
  // queue space only up to a completed request.
  bool must_signal() const { return (posted() + 1) % (depth() / 4) == 0; }

  // Notes the next request, before it is posted; its number goes into wr_id. There is room.
  std::uint64_t push(const SendSlot& slot) {
    auto number = posted();
    slots_[number & (depth() - 1)] = slot;
    posted_.store(number + 1, std::memory_order_release);
    return number;
  }

  // Hands every request up to and including `number` to `each(slot, number)`, then forgets it.
  // False when that number is not outstanding.
  template <class F>
  bool retire(std::uint64_t number, F&& each) {
    auto first = retired_.load(std::memory_order_relaxed);
    if (number - first >= posted_.load(std::memory_order_acquire) - first) return false;
    for (; first <= number; ++first) {
      each(slots_[first & (depth() - 1)], first);
      retired_.store(first + 1, std::memory_order_seq_cst);  // before a look at who waits for room
    }
    return true;
  }

  // What is outstanding under that number, or nullptr.
  const SendSlot* find(std::uint64_t number) const {
    auto first = retired_.load(std::memory_order_relaxed);
    bool there = number - first < posted_.load(std::memory_order_acquire) - first;
    return there ? &slots_[number & (depth() - 1)] : nullptr;
  }

  // Calls each(slot) for what is outstanding.
  template <class F>
  void walk(F&& each) {
    auto last = posted_.load(std::memory_order_acquire);
    for (auto i = retired_.load(std::memory_order_relaxed); i != last; ++i)
      each(slots_[i & (depth() - 1)]);
  }

 private:
  std::vector<SendSlot> slots_;
  std::atomic<std::uint64_t> posted_{0};
  std::atomic<std::uint64_t> retired_{0};
};

// A piece of a transfer that fits into one work request. A transfer of no bytes is one piece.
struct Segment {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  bool last = false;
};
constexpr Segment segment_at(std::uint64_t offset, std::uint64_t total, std::uint64_t limit) {
  std::uint64_t rest = total - offset;
  return rest <= limit ? Segment{offset, static_cast<std::uint32_t>(rest), true}
                       : Segment{offset, static_cast<std::uint32_t>(limit), false};
}

}  // namespace ferry::fabric::verbs
