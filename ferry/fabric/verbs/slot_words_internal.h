// Data path.
#pragma once

#include <cstdint>
#include <cstring>

#include "ferry/fabric/verbs/memory_internal.h"

namespace ferry::fabric::verbs {

// A registered word for each slot of a send ring: where the device puts what an atomic found, and
// where it finds a flag that it cannot take inline. A word belongs to whoever has its slot: the
// thread that posts, then the device, then the loop.
class SlotWords {
 public:
  // `buffer` goes back to `buffers` in the end; `count` words fit into it.
  SlotWords(Buffers& buffers, Buffer* buffer, std::uint32_t count)
      : buffers_(buffers), buffer_(buffer), count_(count) {
    FERRY_ASSERT(count * sizeof(std::uint64_t) <= kMaxMessage, "the words fit into their buffer");
  }
  ~SlotWords() { buffers_.give(buffer_); }
  SlotWords(const SlotWords&) = delete;
  SlotWords& operator=(const SlotWords&) = delete;

  // The word of the request with this number, as the device is told of it.
  ibv_sge piece(std::uint64_t number) const {
    return {reinterpret_cast<std::uint64_t>(at(number)), sizeof(std::uint64_t), buffer_->lkey};
  }
  void store(std::uint64_t number, std::uint64_t value) {
    std::memcpy(at(number), &value, sizeof value);
  }
  std::uint64_t load(std::uint64_t number) const {
    std::uint64_t value = 0;
    std::memcpy(&value, at(number), sizeof value);
    return value;
  }

 private:
  std::byte* at(std::uint64_t number) const {
    return buffer_->data + number % count_ * sizeof(std::uint64_t);
  }

  Buffers& buffers_;
  Buffer* const buffer_;
  const std::uint32_t count_;
};

}  // namespace ferry::fabric::verbs
