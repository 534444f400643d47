// Data path.
#include "ferry/landing/remote_word.h"

namespace ferry::landing {

// Nothing of ours is read after the call, so the transfer need not be kept. A failure shows in what
// comes next on the channel.
Status RemoteWord::post(std::uint64_t value, fabric::Pace pace) const {
  auto stored = channel_->write_flagged({}, at_, at_, value, {.pace = pace}, notify_);
  if (stored.ended()) return stored.wait();
  return {};
}

fabric::Transfer RemoteWord::start(std::uint64_t value, Deadline deadline) const {
  if (mapped_ == nullptr)
    return channel_->write_flagged({}, at_, at_, value, {.deadline = deadline}, notify_);
  auto stored = store_mapped(*channel_, mapped_, value, notify_);
  return stored ? fabric::Transfer() : fabric::Transfer::failed(stored.error());
}

Status RemoteWord::gone(const fabric::Channel& channel) {
  return fail(Code::kUnavailable, "the peer at {} is gone; connect again", channel.peer_endpoint());
}

}  // namespace ferry::landing
