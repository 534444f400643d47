#pragma once

#include <array>
#include <new>
#include <span>

#include "bench/limits/round.h"

// What the pairs on shared memory have in common: a page of flags, then room for tensors.
namespace limits {

inline constexpr std::size_t kRoom = std::size_t{8} << 30;

class ShmPair : public Pair {
 public:
  // `rooms` tensors' room follows the flags; see shared_for.
  explicit ShmPair(Link& link) : link_(link), flags_(*static_cast<Flags*>(here(link))) {}
  static constexpr std::size_t shared_for(int rooms) {
    return kPage + kRoom * static_cast<std::size_t>(rooms);
  }

  void answer(std::uint32_t round) override { link_.raise(flags_.answered, round, sleep_); }

 protected:
  struct Flags {
    Flag given;
    Flag half_given;
    Flag answered;
  };

  // Zero pages are valid flags: nothing raised, nobody asleep.
  static void* here(Link& link) { return link.shared().data(); }

  std::span<std::byte> room(int index, std::uint64_t bytes) const {
    return link_.shared().subspan(kPage + kRoom * static_cast<std::size_t>(index), bytes);
  }
  // Both sides must be done with it.
  void drop_room(int index, std::uint64_t bytes) const { link_.drop(room(index, bytes)); }

  // The rounds start anew with each size, and a flag of the last size must not be taken for them.
  void reset_flags() {
    for (Flag* flag : {&flags_.given, &flags_.half_given, &flags_.answered}) flag->value = 0;
  }

  Pieces taken(std::span<std::byte> tensor) {
    piece_[0] = tensor;
    return piece_;
  }

  Link& link_;
  Flags& flags_;

 private:
  std::array<std::span<const std::byte>, 1> piece_;
};

}  // namespace limits
