// Data path.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ferry/base/error.h"

namespace ferry::memory {

// A ring of records with one producer and one consumer, over memory that both can see, possibly at
// different addresses and in different processes. No locks, no system calls. Byte-exact layout:
// docs/wire/ring.md. Neither side trusts the other: whatever the other writes yields a named error
// at worst.
inline constexpr std::size_t kRingTailOffset = 0;
inline constexpr std::size_t kRingHeadOffset = 128;
inline constexpr std::size_t kRingDataOffset = 256;
inline constexpr std::size_t kRingRecordHeader = 8;
inline constexpr std::uint32_t kRingWrap = 0xffffffff;
inline constexpr std::size_t kRingMinBytes = kRingDataOffset + 64;

// Makes the memory an empty ring. Once, before either side is opened; fresh zero pages need it not.
// kInvalidArgument when shorter than kRingMinBytes or not aligned to 64.
Status ring_format(std::span<std::byte> memory);

// The largest record that is sure to fit into an empty ring over `memory_bytes` of memory.
constexpr std::size_t ring_max_record(std::size_t memory_bytes) {
  if (memory_bytes < kRingMinBytes) return 0;
  std::size_t half = ((memory_bytes - kRingDataOffset) / 8 * 8) / 2 / 8 * 8 - kRingRecordHeader;
  return half < kRingWrap ? half : kRingWrap - 8;
}

// The producer's end. One thread at a time; borrows the memory.
class RingWriter {
 public:
  static Result<RingWriter> open(std::span<std::byte> memory);

  // Room for one record of n bytes, contiguous, aligned to 8; empty when there is none now.
  // kInvalidArgument when n is 0 or above max_record(), kDataLoss when the consumer's head is
  // nonsense. A second reserve forgets the first.
  Result<std::span<std::byte>> reserve(std::size_t n);
  // Publishes the reserved record.
  void commit();

  std::size_t max_record() const { return max_record_; }

 private:
  explicit RingWriter(std::span<std::byte> memory);
  bool refresh_head();

  std::atomic<std::uint64_t>* tail_word_;
  std::atomic<std::uint64_t>* head_word_;
  std::byte* data_;
  std::uint64_t capacity_;
  std::size_t max_record_;
  std::uint64_t tail_ = 0;
  std::uint64_t head_ = 0;      // the consumer's, as last seen
  std::uint64_t position_ = 0;  // tail modulo capacity
  std::uint64_t skip_ = 0;      // bytes to the end, when the reserved record wraps
  std::uint64_t reserved_ = 0;  // header and padding included; 0: nothing reserved
  std::uint32_t length_ = 0;
};

// The consumer's end. One thread at a time; borrows the memory.
class RingReader {
 public:
  static Result<RingReader> open(std::span<std::byte> memory);

  // The oldest record; empty when there is none. Stays until pop(). kDataLoss when the producer's
  // tail or lengths are nonsense: give the ring up then. The producer can still change the bytes:
  // read once, check, then use.
  Result<std::span<const std::byte>> front();
  // Gives the record of the last front() back to the producer.
  void pop();

 private:
  explicit RingReader(std::span<std::byte> memory);
  Status parse();

  std::atomic<std::uint64_t>* tail_word_;
  std::atomic<std::uint64_t>* head_word_;
  const std::byte* data_;
  std::uint64_t capacity_;
  std::uint64_t tail_ = 0;  // the producer's, as last seen
  std::uint64_t head_ = 0;
  std::uint64_t position_ = 0;  // head modulo capacity
  std::uint64_t skip_ = 0;      // bytes of a wrap before the front record
  std::uint64_t record_ = 0;    // of the front record, header and padding included; 0: none
  std::uint32_t length_ = 0;
};

}  // namespace ferry::memory
