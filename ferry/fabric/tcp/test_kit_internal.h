#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "ferry/fabric/tcp/frame_handler_internal.h"
#include "ferry/fabric/tcp/receiver_internal.h"

namespace ferry::fabric::tcp {

// One end of a lane without a socket: bytes are fed by hand. For tests and fuzzing.
struct End {
  explicit End(GrantTable& grants, std::uint32_t peer = 1)
      : sender(grants, window, inbox),
        protocol(grants, peer, sender, window, inbox, pending),
        receiver(protocol, dump) {}

  Status feed(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      std::array<iovec, 2> gaps;
      int count = receiver.gaps(gaps);
      std::size_t filled = 0;
      for (int i = 0; i < count && !bytes.empty(); ++i) {
        auto part = std::min(bytes.size(), gaps[static_cast<std::size_t>(i)].iov_len);
        std::memcpy(gaps[static_cast<std::size_t>(i)].iov_base, bytes.data(), part);
        bytes = bytes.subspan(part);
        filled += part;
      }
      FERRY_TRY(receiver.filled(filled));
    }
    return {};
  }

  std::array<std::byte, 1024> dump{};
  std::atomic<std::int64_t> pending{0};
  Window window;
  Inbox inbox;
  Sender sender;
  FrameHandler protocol;
  Receiver receiver;
};

inline std::vector<std::byte> frame_bytes(const Header& header,
                                          std::span<const std::byte> payload = {}) {
  std::vector<std::byte> bytes(kHeaderBytes + payload.size());
  std::memcpy(bytes.data(), &header, kHeaderBytes);
  if (!payload.empty()) std::memcpy(bytes.data() + kHeaderBytes, payload.data(), payload.size());
  return bytes;
}

}  // namespace ferry::fabric::tcp
