#include <algorithm>
#include <cstring>
#include <memory>

#include "ferry/memory/ring.h"

// A hostile producer. The input is first the content of the data area, then, after each look of the
// consumer, a new tail or a new header somewhere. Every byte handed out is read.
namespace {

constexpr std::size_t kData = 256;
constexpr std::size_t kBytes = ferry::memory::kRingDataOffset + kData;

struct alignas(64) Memory {
  std::byte bytes[kBytes];
  void store(std::size_t offset, std::uint64_t value) {
    std::memcpy(bytes + offset, &value, sizeof value);
  }
};

struct Input {
  const std::uint8_t* data;
  std::size_t size;
  std::uint8_t next() {
    if (size == 0) return 0;
    --size;
    return *data++;
  }
};

void meddle(Memory& memory, Input& input) {
  std::uint64_t value = input.next();
  switch (input.next() % 6) {
    case 0:
      return memory.store(ferry::memory::kRingTailOffset, value * 8);
    case 1:
      return memory.store(ferry::memory::kRingTailOffset, value << 56 | value);
    case 2:
      return memory.store(ferry::memory::kRingDataOffset + value % 32 * 8, input.next());
    case 3:
      return memory.store(ferry::memory::kRingDataOffset + value % 32 * 8,
                          ferry::memory::kRingWrap);
    case 4:
      return memory.store(ferry::memory::kRingDataOffset + value % 32 * 8,
                          ~std::uint64_t{0} - value);
    default:
      return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto memory = std::make_unique<Memory>();
  Input input{data, size};
  std::size_t content = std::min<std::size_t>(input.next(), std::min(input.size, kData));
  std::memcpy(memory->bytes + ferry::memory::kRingDataOffset, input.data, content);
  input.data += content;
  input.size -= content;
  auto reader = ferry::memory::RingReader::open(memory->bytes);
  if (!reader) __builtin_trap();
  volatile unsigned sum = 0;
  while (input.size > 0) {
    meddle(*memory, input);
    auto record = reader->front();
    if (!record || record->empty()) continue;
    for (std::byte b : *record) sum = sum + static_cast<unsigned>(b);
    if (input.next() % 4 != 0) reader->pop();
  }
  return 0;
}
