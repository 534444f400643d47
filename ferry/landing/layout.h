#pragma once

#include <cstddef>
#include <cstdint>

#include "ferry/base/align.h"
#include "ferry/base/error.h"

namespace ferry::landing {

// What errors call the things in slots, and what has the slots.
struct SlotNames {
  const char* item = "tensor";
  const char* owner = "edge";
};

// Where the slots of an edge are in the receiver's region:
//
//   0        the sender's hello: where its acknowledgement words are, 32 bytes; at 32 a byte that
//            is 1 if the sender never sleeps; its flag at 56
//   64       slots, each: body, padded to 8; then the flag, a u64; a multiple of 64 in all
//
// and the words of the sender that the receiver writes, one line each:
//
//   0        acknowledgement of slot 0: the sequence number of the tensor that was let go of last
//   64       of slot 1 ...
//   64 * k   an offer of another landing (dynamic only), 64 bytes, its flag at 56
struct Layout {
  std::uint32_t slots = 0;
  std::uint64_t body = 0;

  static constexpr std::uint64_t kLine = 64;
  static constexpr std::uint64_t kHelloSpins = 32;
  static constexpr std::uint64_t kHelloFlag = 56;
  static constexpr std::uint32_t kMostSlots = 1024;
  static constexpr std::uint64_t kMostBody = std::uint64_t{1} << 50;

  static Result<Layout> of(std::uint32_t slots, std::uint64_t body) {
    if (slots == 0 || slots > kMostSlots)
      return fail(Code::kInvalidArgument, "1 to {} slots are possible, not {}", kMostSlots, slots);
    if (body > kMostBody)
      return fail(Code::kOutOfRange, "a slot of {} bytes; {} is the most", body, kMostBody);
    return Layout{slots, body};
  }

  std::uint64_t flag() const { return align_up(body, 8); }
  std::uint64_t stride() const { return align_up(flag() + 8, kLine); }
  std::uint64_t slot_at(std::uint32_t slot) const { return kLine + slot * stride(); }
  std::uint64_t bytes() const { return slot_at(slots); }
  std::uint64_t words() const { return (slots + std::uint64_t{1}) * kLine; }

  std::uint32_t after(std::uint32_t slot) const { return slot + 1 == slots ? 0 : slot + 1; }
  // Tensor number `sequence`, from 1, goes into this slot. A division: not on the data path.
  std::uint32_t slot_of(std::uint64_t sequence) const {
    return static_cast<std::uint32_t>((sequence - 1) % slots);
  }
  // The tensor that had the slot before; 0: none.
  std::uint64_t before(std::uint64_t sequence) const {
    return sequence > slots ? sequence - slots : 0;
  }
};

}  // namespace ferry::landing
