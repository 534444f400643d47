#pragma once

#include <vector>

#include "ferry/bootstrap/codec.h"
#include "ferry/mail/tuning.h"

namespace ferry::mail {

// A tuning among other things on the wire: 40 bytes.
inline void encode_tuning(std::vector<std::byte>& out, const Tuning& tuning) {
  bootstrap::Encoder(out)
      .u64(tuning.eager_threshold)
      .u64(tuning.copy_up_to)
      .u64(tuning.chunk_bytes)
      .u64(tuning.chunks_in_flight)
      .u64(static_cast<std::uint64_t>(tuning.spin.count()));
}

// To be checked with check_tuning().
inline Tuning decode_tuning(bootstrap::Decoder& in) {
  Tuning tuning;
  tuning.eager_threshold = in.u64();
  tuning.copy_up_to = in.u64();
  tuning.chunk_bytes = in.u64();
  auto chunks = in.u64();
  // What is too large stays too large.
  tuning.chunks_in_flight = chunks > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(chunks);
  tuning.spin = Nanos(static_cast<std::int64_t>(in.u64()));
  return tuning;
}

}  // namespace ferry::mail
