// Data path.
#include "ferry/landing/landing.h"

#include <sys/random.h>

#include <cstring>

namespace ferry::landing {

std::uint64_t random_nonce() {
  std::uint64_t nonce = 0;
  while (nonce == 0) {
    auto got = ::getrandom(&nonce, sizeof nonce, 0);
    FERRY_ASSERT(got == sizeof nonce, "the kernel has random numbers");
  }
  return nonce;
}

Result<Landing> Landing::open(fabric::Device& device, fabric::Channel& channel,
                              const Layout& layout, std::uint64_t nonce, SlotNames names) {
  Landing landing;
  landing.names_ = names;
  landing.channel_ = &channel;
  landing.layout_ = layout;
  landing.nonce_ = nonce;
  landing.slots_ = FERRY_TRY(device.allocate(layout.bytes(), fabric::Rights::kReadWrite));
  landing.base_ = landing.slots_.data();
  landing.remote_ = FERRY_TRY(device.grant(landing.slots_, fabric::Rights::kReadWrite, channel));
  return landing;
}

Address Landing::address(const fabric::Device& owner, bool spins) const {
  return {.spins = spins,
          .slots = layout_.slots,
          .body = layout_.body,
          .nonce = nonce_,
          .owner = owner.id(),
          .region = remote_};
}

tl::unexpected<Error> Landing::wrong_flag(std::uint64_t flag) const {
  return fail(Code::kDataLoss,
              "slot {} says that {} {} has arrived, where {} is expected; the sender at {} broke "
              "the protocol: open the {} anew",
              slot(), names_.item, flag, expected_, channel_->peer_endpoint(), names_.owner);
}

bool Landing::greeted() const {
  const auto* at = reinterpret_cast<const std::uint64_t*>(base_ + Layout::kHelloFlag);
  return __atomic_load_n(at, __ATOMIC_ACQUIRE) == nonce_;
}

Status Landing::await_sender(fabric::Device& device, Deadline deadline, fabric::WaitMode mode) {
  auto over = [this] { return greeted() || !channel_->alive(); };
  bool in_time = device.wait_until(over, deadline, mode);
  if (greeted()) return meet_sender();
  if (!in_time)
    return fail(Code::kDeadlineExceeded, "the peer at {} has not opened its end of the {} in time",
                channel_->peer_endpoint(), names_.owner);
  return fail(Code::kUnavailable, "the peer at {} is gone; connect again",
              channel_->peer_endpoint());
}

Status Landing::meet_sender() {
  if (!greeted())
    return fail(Code::kDataLoss, "the sender at {} has sent a {} before its hello",
                channel_->peer_endpoint(), names_.item);
  std::array<std::byte, Layout::kHelloSpins + 1> wire;
  std::memcpy(wire.data(), base_, wire.size());
  bool sleeps = wire[Layout::kHelloSpins] != std::byte{1};
  sender_words_ =
      FERRY_TRY(fabric::RemoteRegion::from_wire(std::span(wire).first(Layout::kHelloSpins)));
  if (sender_words_.length < layout_.words())
    return fail(Code::kDataLoss, "the sender at {} has {} bytes of words for {} slots",
                channel_->peer_endpoint(), sender_words_.length, layout_.slots);
  std::byte* mapped = nullptr;
  if (channel_->capabilities().maps_peer) {
    auto words = FERRY_TRY(channel_->map(sender_words_));
    if (words.size() < layout_.words())
      return fail(Code::kDataLoss, "the sender at {} granted too little",
                  channel_->peer_endpoint());
    mapped = words.data();
  }
  for (std::uint32_t slot = 0; slot < layout_.slots; ++slot) {
    auto at = slot * Layout::kLine;
    acknowledgements_.emplace_back(*channel_, fabric::RemoteAt{sender_words_, at},
                                   mapped == nullptr ? nullptr : mapped + at, sleeps);
  }
  return {};
}

}  // namespace ferry::landing
