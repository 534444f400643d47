// Data path.
#include "ferry/memory/ring.h"

#include <cstring>

namespace ferry::memory {
namespace {

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

constexpr std::uint64_t round_up(std::uint64_t n) { return (n + 7) & ~std::uint64_t{7}; }

Word* word_at(std::span<std::byte> memory, std::size_t offset) {
  return reinterpret_cast<Word*>(memory.data() + offset);
}

std::uint64_t capacity_of(std::span<std::byte> memory) {
  return (memory.size() - kRingDataOffset) / 8 * 8;
}

Status check(std::span<std::byte> memory) {
  if (memory.size() < kRingMinBytes)
    return fail(Code::kInvalidArgument, "a ring needs {} bytes of memory, not {}", kRingMinBytes,
                memory.size());
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % 64 != 0)
    return fail(Code::kInvalidArgument, "the memory of a ring must be aligned to 64 bytes");
  return {};
}

// Is `behind` a place that a ring of this capacity can be at, when the other end is at `ahead`?
bool plausible(std::uint64_t behind, std::uint64_t ahead, std::uint64_t capacity) {
  return ahead - behind <= capacity && (ahead - behind) % 8 == 0;
}

}  // namespace

Status ring_format(std::span<std::byte> memory) {
  FERRY_TRY(check(memory));
  std::memset(memory.data(), 0, kRingDataOffset);
  word_at(memory, kRingTailOffset)->store(0, std::memory_order_release);
  return {};
}

RingWriter::RingWriter(std::span<std::byte> memory)
    : tail_word_(word_at(memory, kRingTailOffset)),
      head_word_(word_at(memory, kRingHeadOffset)),
      data_(memory.data() + kRingDataOffset),
      capacity_(capacity_of(memory)),
      max_record_(ring_max_record(memory.size())) {}

Result<RingWriter> RingWriter::open(std::span<std::byte> memory) {
  FERRY_TRY(check(memory));
  return RingWriter(memory);
}

// The head may only move forward, and not past the tail.
bool RingWriter::refresh_head() {
  std::uint64_t head = head_word_->load(std::memory_order_acquire);
  if (!plausible(head, tail_, tail_ - head_)) return false;
  head_ = head;
  return true;
}

Result<std::span<std::byte>> RingWriter::reserve(std::size_t n) {
  if (n == 0 || n > max_record_)
    return fail(Code::kInvalidArgument, "a record of {} bytes in a ring that takes 1 to {}", n,
                max_record_);
  reserved_ = 0;
  std::uint64_t need = kRingRecordHeader + round_up(n);
  std::uint64_t to_end = capacity_ - position_;
  std::uint64_t skip = need > to_end ? to_end : 0;
  if (skip + need > capacity_ - (tail_ - head_)) {
    if (!refresh_head())
      return fail(Code::kDataLoss,
                  "the consumer of a ring claims an impossible head (tail {}, last head {}); give "
                  "the ring up",
                  tail_, head_);
    if (skip + need > capacity_ - (tail_ - head_)) return std::span<std::byte>();
  }
  skip_ = skip;
  reserved_ = need;
  length_ = static_cast<std::uint32_t>(n);
  return std::span(data_ + (skip != 0 ? 0 : position_) + kRingRecordHeader, n);
}

void RingWriter::commit() {
  FERRY_ASSERT(reserved_ != 0, "a ring record was committed that was not reserved");
  if (skip_ != 0) {
    std::uint64_t wrap = kRingWrap;
    std::memcpy(data_ + position_, &wrap, sizeof wrap);
    position_ = 0;
  }
  std::uint64_t header = length_;
  std::memcpy(data_ + position_, &header, sizeof header);
  position_ += reserved_;
  if (position_ == capacity_) position_ = 0;
  tail_ += skip_ + reserved_;
  reserved_ = 0;
  tail_word_->store(tail_, std::memory_order_release);
}

RingReader::RingReader(std::span<std::byte> memory)
    : tail_word_(word_at(memory, kRingTailOffset)),
      head_word_(word_at(memory, kRingHeadOffset)),
      data_(memory.data() + kRingDataOffset),
      capacity_(capacity_of(memory)) {}

Result<RingReader> RingReader::open(std::span<std::byte> memory) {
  FERRY_TRY(check(memory));
  return RingReader(memory);
}

Result<std::span<const std::byte>> RingReader::front() {
  if (record_ == 0) {
    if (head_ == tail_) {
      std::uint64_t tail = tail_word_->load(std::memory_order_acquire);
      if (tail == head_) return std::span<const std::byte>();
      if (!plausible(head_, tail, capacity_))
        return fail(Code::kDataLoss,
                    "the producer of a ring claims an impossible tail {} (head {}, capacity {}); "
                    "give the ring up",
                    tail, head_, capacity_);
      tail_ = tail;
    }
    FERRY_TRY(parse());
  }
  std::uint64_t at = skip_ != 0 ? 0 : position_;
  return std::span(data_ + at + kRingRecordHeader, length_);
}

// Sets skip_, length_ and record_ from headers that are each read once.
Status RingReader::parse() {
  auto header_at = [this](std::uint64_t position) {
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(data_ + position),
                           __ATOMIC_RELAXED);
  };
  std::uint64_t available = tail_ - head_;
  std::uint64_t room = capacity_ - position_;
  std::uint64_t skip = 0;
  std::uint64_t header = header_at(position_);
  if (header == kRingWrap && room < available) {
    skip = room;
    available -= skip;
    room = capacity_;
    header = header_at(0);
  }
  std::uint64_t most = available < room ? available : room;
  if (header == 0 || header >= kRingWrap || round_up(header) + kRingRecordHeader > most)
    return fail(Code::kDataLoss,
                "the producer of a ring wrote a record header {:#x} where at most {} bytes remain; "
                "give the ring up",
                header, most);
  skip_ = skip;
  length_ = static_cast<std::uint32_t>(header);
  record_ = round_up(header) + kRingRecordHeader;
  return {};
}

void RingReader::pop() {
  FERRY_ASSERT(record_ != 0, "a ring record was popped that was not looked at");
  position_ = (skip_ != 0 ? 0 : position_) + record_;
  if (position_ == capacity_) position_ = 0;
  head_ += skip_ + record_;
  skip_ = 0;
  record_ = 0;
  head_word_->store(head_, std::memory_order_release);
}

}  // namespace ferry::memory
