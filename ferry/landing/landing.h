// Data path.
#pragma once

#include <vector>

#include "ferry/fabric/device.h"
#include "ferry/landing/address.h"
#include "ferry/landing/layout.h"
#include "ferry/landing/remote_word.h"

namespace ferry::landing {

// The receiver's ring of slots. One thread at a time, except for acknowledge().
class Landing {
 public:
  // Allocates the slots and lets the channel's peer at them.
  static Result<Landing> open(fabric::Device& device, fabric::Channel& channel,
                              const Layout& layout, std::uint64_t nonce, SlotNames names = {});

  // For the sender. `spins`: the receiver promises to wait with WaitMode::kSpin only.
  Address address(const fabric::Device& owner, bool spins) const;
  const fabric::RemoteRegion& remote() const { return remote_; }
  const Layout& layout() const { return layout_; }
  std::uint64_t nonce() const { return nonce_; }
  std::uint64_t expected() const { return expected_; }

  // Whether the next tensor is there. kDataLoss for a flag that cannot be.
  Result<bool> arrived() const {
    auto flag = __atomic_load_n(flag_word(), __ATOMIC_ACQUIRE);
    if (flag == expected_) return true;
    // The bytes of a flag may land one by one, low ones first: until then it is less.
    if (flag < expected_) return false;
    return wrong_flag(flag);
  }
  // Where the next tensor arrives.
  std::uint32_t slot() const { return slot_; }
  // The word that arrived() looks at; it changes when the next tensor comes.
  const std::uint64_t* flag_word() const {
    return reinterpret_cast<const std::uint64_t*>(base_ + layout_.slot_at(slot_) + layout_.flag());
  }
  // What the word holds until then.
  std::uint64_t before() const {
    return expected_ >= first_ + layout_.slots ? expected_ - layout_.slots : 0;
  }
  // Whether it is, or nothing will come any more: a plain look.
  bool may_be_ready() const {
    return __atomic_load_n(flag_word(), __ATOMIC_RELAXED) >= expected_ || !channel_->alive();
  }
  // Waits for it.
  Status wait(Deadline deadline, fabric::WaitMode mode) const {
    FERRY_TRY(channel_->wait_flag(reinterpret_cast<const std::byte*>(flag_word()), expected_,
                                  deadline, mode));
    return check_arrived();  // it is at least the expected number: is it that one?
  }
  std::span<std::byte> body() const { return body_of(slot()); }
  std::span<std::byte> body_of(std::uint32_t slot) const {
    return {base_ + layout_.slot_at(slot), layout_.body};
  }
  // Waits for the sender's hello, so that take() does not have to look for it.
  Status await_sender(fabric::Device& device, Deadline deadline, fabric::WaitMode mode);
  // The next tensor, which has arrived, is taken: its number. Its body stays as it is until
  // acknowledge().
  Result<std::uint64_t> take() {
    if (acknowledgements_.empty()) FERRY_TRY(meet_sender());
    slot_ = layout_.after(slot_);
    return expected_++;
  }
  // The sender may use the slot of that tensor again. Any thread; once for each tensor.
  Status acknowledge(std::uint32_t slot, std::uint64_t sequence,
                     fabric::Pace pace = fabric::Pace::kLateEnd) const {
    return acknowledgements_[slot].store(sequence, pace);
  }
  // The sender's words, once a tensor was taken.
  const fabric::RemoteRegion& sender_words() const { return sender_words_; }
  const std::vector<RemoteWord>& acknowledgements() const { return acknowledgements_; }
  // Takes over the sender of the landing before this one, from its tensor `first` on.
  void follow(const Landing& before, std::uint64_t first) {
    sender_words_ = before.sender_words_;
    acknowledgements_ = before.acknowledgements_;
    first_ = expected_ = first;
    slot_ = layout_.slot_of(first);
  }

 private:
  Status check_arrived() const {
    auto there = arrived();
    if (!there) return tl::unexpected<Error>(there.error());
    return {};
  }
  tl::unexpected<Error> wrong_flag(std::uint64_t flag) const;
  bool greeted() const;
  // Reads the sender's hello, which lies before its first tensor.
  Status meet_sender();

  fabric::Channel* channel_ = nullptr;
  Layout layout_;
  SlotNames names_;
  std::uint64_t nonce_ = 0;
  fabric::Region slots_;
  std::byte* base_ = nullptr;  // of slots_
  fabric::RemoteRegion remote_;
  fabric::RemoteRegion sender_words_;
  std::vector<RemoteWord> acknowledgements_;  // by slot; empty until the sender is known
  std::uint64_t first_ = 1;
  std::uint64_t expected_ = 1;
  std::uint32_t slot_ = 0;
};

// Never 0.
std::uint64_t random_nonce();

}  // namespace ferry::landing
