#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/frame.h"

// Arbitrary fragments: what comes out must be what went in, and a broken stream stays broken.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ferry::bootstrap;
  if (size == 0) return 0;
  std::size_t step = data[0] == 0 ? size : data[0];
  auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  FrameReader reader;
  std::vector<std::byte> again;
  bool broken = false;
  for (std::size_t at = 0; at < bytes.size() && !broken; at += step) {
    reader.feed(bytes.subspan(at, std::min(step, bytes.size() - at)));
    while (true) {
      auto frame = reader.next();
      broken = !frame;
      if (!frame || !*frame) break;
      append_frame(again, (*frame)->type, (*frame)->id, (*frame)->payload);
      Decoder in((*frame)->payload);
      in.u16();
      in.string(64);
      in.bytes(1 << 16);
      in.u64();
      (void)in.finish("payload").has_value();
    }
  }
  if (again.size() > bytes.size() || !std::equal(again.begin(), again.end(), bytes.begin()))
    std::abort();
  if (broken == reader.next().has_value()) std::abort();
  return 0;
}
