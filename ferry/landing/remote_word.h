// Data path.
#pragma once

#include <cstdint>

#include "ferry/fabric/channel.h"

namespace ferry::landing {

// A 64-bit word of a peer's that this end stores: straight into the peer's memory where that is
// mapped, else by a flagged write of no bytes. Whoever sees the value sees what this thread wrote
// to mapped memory before, and what was posted on the channel before unless the word is mapped.
class RemoteWord {
 public:
  RemoteWord() = default;
  RemoteWord(fabric::Channel& channel, const fabric::RemoteAt& at, std::byte* mapped, bool notify)
      : channel_(&channel), at_(at), mapped_(mapped), notify_(notify) {}

  // kUnavailable if the peer is known to be gone. With Pace::kLate the peer may see it late.
  Status store(std::uint64_t value, fabric::Pace pace = fabric::Pace::kLateEnd) const {
    if (mapped_ == nullptr) return post(value, pace);
    return store_mapped(*channel_, mapped_, value, notify_);
  }
  // The same at once; the peer has it when the transfer has ended.
  fabric::Transfer start(std::uint64_t value, Deadline deadline) const;
  static Status store_mapped(const fabric::Channel& channel, std::byte* word, std::uint64_t value,
                             bool notify) {
    if (!channel.alive()) return gone(channel);
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(word), value, __ATOMIC_RELEASE);
    if (notify) channel.wake_peer();
    return {};
  }

 private:
  Status post(std::uint64_t value, fabric::Pace pace) const;
  static Status gone(const fabric::Channel& channel);

  fabric::Channel* channel_ = nullptr;
  fabric::RemoteAt at_{fabric::RemoteRegion{}};
  std::byte* mapped_ = nullptr;
  bool notify_ = true;
};

}  // namespace ferry::landing
