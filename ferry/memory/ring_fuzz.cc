#include <cstring>
#include <memory>

#include "ferry/memory/ring.h"

// A hostile producer: the input is the whole memory of the ring, and is written anew after each
// record, shifted, so that lengths change between looks. Every byte handed out is read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kBytes = ferry::memory::kRingDataOffset + 1024;
  struct alignas(64) Memory {
    std::byte bytes[kBytes];
  };
  auto memory = std::make_unique<Memory>();
  if (size == 0) return 0;
  std::memcpy(memory->bytes, data, size < kBytes ? size : kBytes);
  auto reader = ferry::memory::RingReader::open(memory->bytes);
  if (!reader) __builtin_trap();
  volatile unsigned sum = 0;
  for (std::size_t looks = 0; looks < 64; ++looks) {
    auto record = reader->front();
    if (record && !record->empty()) {
      for (std::byte b : *record) sum = sum + static_cast<unsigned>(b);
      if (looks % 2 != 0) reader->pop();
    }
    memory->bytes[(looks * 31) % kBytes] = static_cast<std::byte>(data[looks % size]);
  }
  return 0;
}
