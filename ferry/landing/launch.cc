// Data path.
#include "ferry/landing/launch.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ferry::landing {

Result<Launch> Launch::open(fabric::Device& device, fabric::Channel& channel, const Address& to,
                            fabric::WaitMode mode, SlotNames names) {
  if (channel.peer() != to.owner)
    return fail(Code::kFailedPrecondition,
                "the ticket is not of the device at {}, or of an earlier run of it; ask for a new "
                "one",
                channel.peer_endpoint());
  Launch launch;
  launch.channel_ = &channel;
  launch.names_ = names;
  launch.mode_ = mode;
  launch.notify_ = !to.spins;
  launch.tail_flag_ = channel.capabilities().tail_flag && to.spins;
  launch.redirect_to(FERRY_TRY(launch.aim_at(to)));
  FERRY_TRY(launch.greet(device, to.nonce));
  return launch;
}

Result<Launch::Aim> Launch::aim_at(const Address& to) const {
  Aim aim{FERRY_TRY(Layout::of(to.slots, to.body)), to.region};
  if (!channel_->capabilities().maps_peer) return aim;
  auto memory = FERRY_TRY(channel_->map(aim.remote));
  if (memory.size() < aim.layout.bytes())
    return fail(Code::kOutOfRange, "the slots of the {} take {} bytes, {} are granted",
                names_.owner, aim.layout.bytes(), memory.size());
  aim.mapped = memory.data();
  return aim;
}

Status Launch::greet(fabric::Device& device, std::uint64_t nonce) {
  words_ = FERRY_TRY(device.allocate(layout_.words(), fabric::Rights::kReadWrite));
  words_base_ = words_.data();
  auto granted = FERRY_TRY(device.grant(words_, fabric::Rights::kReadWrite, *channel_));
  std::array<std::byte, Layout::kHelloSpins + 1> hello;
  auto wire = granted.to_wire();
  std::copy(wire.begin(), wire.end(), hello.begin());
  hello[Layout::kHelloSpins] = std::byte{mode_ == fabric::WaitMode::kSpin};
  return channel_->write_flagged(hello, remote_, {remote_, Layout::kHelloFlag}, nonce, {}, notify_)
      .wait();
}

Status Launch::outcome(Status written) const {
  if (written || written.error().code() != Code::kDeadlineExceeded) return written;
  return fail(
      Code::kAborted,
      "{} {} to {} was on its way when its deadline came, and may arrive or not; open the {} "
      "anew with a new ticket",
      names_.item, next_ - 1, channel_->peer_endpoint(), names_.owner);
}

Status Launch::wait_free(Deadline deadline) const {
  auto wanted = layout_.before(next_);
  const auto* at = reinterpret_cast<const std::byte*>(word(slot_));
  auto waited = channel_->wait_flag(at, wanted, deadline, mode_);
  if (!waited && waited.error().code() == Code::kDeadlineExceeded)
    return fail(Code::kDeadlineExceeded,
                "the receiver at {} has not let go of {} {}, and all {} slots are in use",
                channel_->peer_endpoint(), names_.item, wanted, layout_.slots);
  FERRY_TRY(std::move(waited));
  FERRY_TRY(free());
  return {};
}

Status Launch::wait_all(Deadline deadline) const {
  bool all_used = next_ > layout_.slots;
  auto slot = all_used ? slot_ : 0;
  for (auto sequence = all_used ? next_ - layout_.slots : 1; sequence < next_; ++sequence) {
    const auto* at = reinterpret_cast<const std::byte*>(word(slot));
    FERRY_TRY(channel_->wait_flag(at, sequence, deadline, mode_));
    slot = layout_.after(slot);
  }
  return {};
}

fabric::Transfer Launch::write(std::span<const std::byte> bytes, std::uint64_t offset,
                               fabric::OpOptions options) {
  auto at = layout_.slot_at(slot_);
  auto sequence = advance();
  return channel_->write_flagged(bytes, {remote_, at + offset}, {remote_, at + layout_.flag()},
                                 sequence, std::move(options), notify_);
}

fabric::Transfer Launch::write_to_end(std::span<std::byte> bytes_and_flag,
                                      fabric::OpOptions options) {
  auto bytes = bytes_and_flag.first(bytes_and_flag.size() - sizeof next_);
  auto offset = layout_.flag() - bytes.size();
  if (!tail_flag_) return write(bytes, offset, std::move(options));
  auto at = layout_.slot_at(slot_);
  auto sequence = advance();
  std::memcpy(bytes_and_flag.data() + bytes.size(), &sequence, sizeof sequence);
  return channel_->write(bytes_and_flag, {remote_, at + offset}, std::move(options));
}

fabric::Transfer Launch::write_ahead(std::span<const std::byte> bytes, std::uint64_t offset,
                                     fabric::OpOptions options) const {
  auto at = layout_.slot_at(slot_);
  return channel_->write(bytes, {remote_, at + offset}, std::move(options));
}

Status Launch::publish() {
  auto at = layout_.slot_at(slot_) + layout_.flag();
  FERRY_TRY(RemoteWord::store_mapped(*channel_, mapped_ + at, next_, notify_));
  advance();
  return {};
}

tl::unexpected<Error> Launch::wrong_word(std::uint64_t seen) const {
  return fail(Code::kDataLoss,
              "the receiver at {} acknowledges {} {}, where {} was in that slot; open the {} anew",
              channel_->peer_endpoint(), names_.item, seen, layout_.before(next_), names_.owner);
}

}  // namespace ferry::landing
