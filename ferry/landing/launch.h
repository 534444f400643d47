// Data path.
#pragma once

#include <span>

#include "ferry/fabric/device.h"
#include "ferry/landing/address.h"
#include "ferry/landing/layout.h"
#include "ferry/landing/remote_word.h"

namespace ferry::landing {

// The sender's side of a landing: which slot is next, whether it is free, and how it is filled. One
// thread at a time.
class Launch {
 public:
  // Greets the owner of the landing. kFailedPrecondition for a landing of another device than the
  // channel's peer, or of an earlier run of it. `mode` is how this end waits for slots, from now
  // on.
  static Result<Launch> open(fabric::Device& device, fabric::Channel& channel, const Address& to,
                             fabric::WaitMode mode, SlotNames names = {});

  fabric::Channel& channel() const { return *channel_; }
  const Layout& layout() const { return layout_; }
  std::uint64_t next() const { return next_; }
  std::uint32_t slot() const { return slot_; }  // of the next tensor

  // Whether the slot of the next tensor is free. kDataLoss for an acknowledgement that cannot be.
  Result<bool> free() const {
    auto wanted = layout_.before(next_);
    auto seen = __atomic_load_n(word(slot_), __ATOMIC_ACQUIRE);
    if (seen == wanted) return true;
    if (seen < wanted) return false;  // see Landing::arrived()
    return wrong_word(seen);
  }
  // The word that free() looks at, and what it holds while the slot is not free.
  const std::uint64_t* free_word() const { return word(slot_); }
  std::uint64_t busy_value() const { return layout_.before(layout_.before(next_)); }
  // Whether it is, or the receiver is gone: a plain look.
  bool may_be_ready() const {
    return __atomic_load_n(word(slot_), __ATOMIC_RELAXED) >= layout_.before(next_) ||
           !channel_->alive();
  }
  // Waits for it. kDeadlineExceeded names the tensor that is not let go of.
  Status wait_free(Deadline deadline) const;
  // Waits until every tensor that was sent was let go of.
  Status wait_all(Deadline deadline) const;
  // The body of the next tensor's slot as memory of this process; empty where the path maps
  // nothing.
  std::span<std::byte> body() const { return maps() ? body_of(slot_) : std::span<std::byte>(); }
  bool maps() const { return mapped_ != nullptr; }
  std::span<std::byte> body_of(std::uint32_t slot) const {
    return {mapped_ + layout_.slot_at(slot), layout_.body};
  }

  // The slot is free. The bytes go to `offset` of its body, then the flag; they are the library's
  // until the transfer's end.
  fabric::Transfer write(std::span<const std::byte> bytes, std::uint64_t offset,
                         fabric::OpOptions options);
  // Bytes that go to the end of the body, with room for the flag after them: one plain write where
  // the path keeps order within it and the receiver spins, else as write().
  fabric::Transfer write_to_end(std::span<std::byte> bytes_and_flag, fabric::OpOptions options);
  // Bytes for the slot whose flag comes later.
  fabric::Transfer write_ahead(std::span<const std::byte> bytes, std::uint64_t offset,
                               fabric::OpOptions options) const;
  // What body() holds is sent: one store.
  Status publish();

  // Tensor `sequence` was let go of.
  bool acknowledged(std::uint64_t sequence) const {
    return fabric::flag_reached(reinterpret_cast<const std::byte*>(word(layout_.slot_of(sequence))),
                                sequence);
  }
  // What the receiver wrote beyond the acknowledgements.
  std::span<const std::byte> offer() const {
    return {words_base_ + layout_.slots * Layout::kLine, Layout::kLine};
  }
  // A landing as seen from here.
  struct Aim {
    Layout layout;
    fabric::RemoteRegion remote;
    std::byte* mapped = nullptr;
  };
  Result<Aim> aim_at(const Address& to) const;
  // The next tensor goes into another landing of the same receiver, with as many slots.
  void redirect_to(const Aim& aim) {
    layout_ = aim.layout;
    remote_ = aim.remote;
    mapped_ = aim.mapped;
  }

  // How a write of a tensor ended. One whose deadline came may have arrived or not, so it is not
  // kDeadlineExceeded, which says that nothing was sent.
  Status outcome(Status written) const;

 private:
  const std::uint64_t* word(std::uint32_t slot) const {
    return reinterpret_cast<const std::uint64_t*>(words_base_ + slot * Layout::kLine);
  }
  // The next tensor is on its way: its number.
  std::uint64_t advance() {
    slot_ = layout_.after(slot_);
    return next_++;
  }
  tl::unexpected<Error> wrong_word(std::uint64_t seen) const;
  Status greet(fabric::Device& device, std::uint64_t nonce);

  fabric::Channel* channel_ = nullptr;
  Layout layout_;
  SlotNames names_;
  fabric::RemoteRegion remote_;
  std::byte* mapped_ = nullptr;
  fabric::WaitMode mode_ = fabric::WaitMode::kAdaptive;
  bool notify_ = true;
  bool tail_flag_ = false;
  fabric::Region words_;
  const std::byte* words_base_ = nullptr;
  std::uint64_t next_ = 1;
  std::uint32_t slot_ = 0;
};

}  // namespace ferry::landing
