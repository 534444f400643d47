// Data path.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "ferry/base/error.h"
#include "ferry/landing/layout.h"

namespace ferry::transfer {

// The producer's region of a shared tensor. Producer and readers are processes of one host and
// meet in its words by the atomics of the processor.
//
//   0        the newest version: its sequence number * 256 + its index; 0: none yet
//   64       versions: for each a line, which begins with the sequence number it holds; 0: it is
//            being written
//   ...      seats: a line for each reader, see SeatWord:
//              0  the version that it uses
//              8  the version that it copies
//   ...      the payloads, each aligned to 64
//
// A reader names the version in its seat, then looks whether the version still holds the number
// that it read before; the producer clears the version's number, then looks at the seats. Both put
// a full fence in between: one of them sees the other.
struct SharedLayout {
  std::uint32_t versions = 0;
  std::uint32_t seats = 0;
  std::uint64_t body = 0;

  static constexpr std::uint64_t kLine = landing::Layout::kLine;
  static constexpr std::uint32_t kMostVersions = 255;
  static constexpr std::uint32_t kMostSeats = 4096;
  static constexpr std::uint64_t kCopying = 8;

  // Three at least: the newest, one in use, one to write.
  static Result<SharedLayout> of(std::uint32_t versions, std::uint32_t seats, std::uint64_t body) {
    if (versions < 3 || versions > kMostVersions)
      return fail(Code::kInvalidArgument, "a shared tensor has 3 to {} versions, not {}",
                  kMostVersions, versions);
    if (seats == 0 || seats > kMostSeats)
      return fail(Code::kInvalidArgument, "a shared tensor has 1 to {} readers, not {}", kMostSeats,
                  seats);
    if (body > landing::Layout::kMostBody)
      return fail(Code::kOutOfRange, "a tensor of {} bytes; {} is the most", body,
                  landing::Layout::kMostBody);
    return SharedLayout{versions, seats, body};
  }
  std::uint64_t version_at(std::uint32_t version) const { return kLine * (1 + version); }
  std::uint64_t seat_at(std::uint32_t seat) const { return kLine * (1 + versions + seat); }
  std::uint64_t payload_at(std::uint32_t version) const {
    return seat_at(seats) + version * align_up(body, kLine);
  }
  std::uint64_t bytes() const { return payload_at(versions); }
};

using Word = std::atomic_ref<std::uint64_t>;

// A word of a seat: the upper bits of the reader's nonce, and below them a state. The producer
// hands the seat out idle, and takes it back by storing 0; the reader changes it only from what it
// left there. So a reader that was given up and lives on can harm nobody who has its seat now, and
// learns from the next change that what it read may have been overwritten.
struct SeatWord {
  static constexpr std::uint64_t kState = 0xFFFF;
  static constexpr std::uint64_t kIdle = 1;
  static constexpr std::uint64_t kLeft = 2;
  static constexpr std::uint64_t kFirst = 3;  // version 0 is named, and so on

  static std::uint64_t of(std::uint64_t nonce, std::uint64_t state) {
    return (nonce & ~kState) | state;
  }
  static bool names(std::uint64_t word, std::uint32_t version) {
    return (word & kState) == kFirst + version;
  }
};

// The region as either side sees it.
class SharedWords {
 public:
  SharedWords() = default;
  SharedWords(const SharedLayout& layout, std::byte* base) : layout_(layout), base_(base) {}

  struct Newest {
    std::uint64_t sequence = 0;
    std::uint32_t version = 0;
  };
  Newest newest() const {
    auto word = at(0).load(std::memory_order_acquire);
    return {word >> 8, static_cast<std::uint32_t>(word & 0xFF)};
  }
  // The word of the newest version, and what it is at least once there is number `sequence`.
  const std::byte* newest_word() const { return base_; }
  static std::uint64_t newest_value(std::uint64_t sequence) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 54;
    return std::min(sequence, kMost) << 8;
  }
  void set_newest(Newest newest) const {
    at(0).store(newest.sequence << 8 | newest.version, std::memory_order_release);
  }
  Word sequence_of(std::uint32_t version) const { return at(layout_.version_at(version)); }
  Word in_use(std::uint32_t seat) const { return at(layout_.seat_at(seat)); }
  Word copying(std::uint32_t seat) const {
    return at(layout_.seat_at(seat) + SharedLayout::kCopying);
  }
  std::span<std::byte> payload(std::uint32_t version) const {
    return {base_ + layout_.payload_at(version), layout_.body};
  }
  const SharedLayout& layout() const { return layout_; }

 private:
  Word at(std::uint64_t offset) const {
    return Word(*reinterpret_cast<std::uint64_t*>(base_ + offset));
  }
  SharedLayout layout_;
  std::byte* base_ = nullptr;
};

}  // namespace ferry::transfer
