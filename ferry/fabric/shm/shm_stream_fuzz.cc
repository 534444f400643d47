#include <cstring>
#include <vector>

#include "ferry/fabric/shm/stream_internal.h"

// A peer that puts whatever it likes into the stream ring, and one that answers so: nothing outside
// of what was granted is touched, and nothing crashes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ferry;
  using namespace ferry::fabric;
  static auto grants = *GrantTable::create();
  alignas(64) static std::byte granted[4096];
  static const auto grant = [] {
    GrantTable::Grant wanted;
    wanted.address = reinterpret_cast<std::uintptr_t>(granted);
    wanted.length = sizeof granted;
    wanted.rights = Rights::kAll;
    return *grants->add(wanted);
  }();
  constexpr std::size_t kRing = 8192;
  alignas(64) static std::byte stream[kRing];
  alignas(64) static std::byte replies[kRing];
  if (!memory::ring_format(stream) || !memory::ring_format(replies)) return 0;
  std::atomic<std::uint64_t> done{0};
  auto out = *memory::RingWriter::open(stream);
  shm::StreamServer server(*memory::RingReader::open(stream), *memory::RingWriter::open(replies),
                           done, *grants, 1);
  std::uint64_t number = 0;
  while (size > 2) {
    std::size_t length = 24 + data[0] + data[1] % 2 * 48;
    bool patch = data[1] & 2;
    data += 2, size -= 2;
    auto room = out.reserve(length);
    if (!room || room->empty()) break;
    std::memset(room->data(), 0, length);
    std::memcpy(room->data(), data, std::min(size, length));
    if (patch && length >= sizeof(shm::RequestRecord)) {
      ++number;
      std::memcpy(room->data() + 8, &number, sizeof number);
      shm::RequestRecord request;
      std::memcpy(&request, room->data(), sizeof request);
      request.key = request.flag_key = grant.key;
      request.epoch = request.flag_epoch = grant.epoch;
      std::memcpy(room->data(), &request, sizeof request);
    }
    out.commit();
    auto used = std::min(size, length);
    data += used, size -= used;
    if (!server.progress()) break;
  }
  return 0;
}
