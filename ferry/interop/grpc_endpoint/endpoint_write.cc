#include <algorithm>

#include "ferry/interop/grpc_endpoint/endpoint_internal.h"

// How the endpoint sends a write of gRPC's.

namespace ferry::interop {

namespace {

// After which a write that found the peer's memory full is tried again, if nothing has come before.
constexpr std::chrono::seconds kTryAgain{2};

constexpr std::size_t kMostParts = 1000;  // of one message
constexpr std::size_t kMostLarge = 30;    // of these, worth being named on their own
constexpr std::size_t kLarge = 32 << 10;
// A piece is eager whatever the tuning, and fits into a slot.
constexpr std::size_t kMostPieceParts = 16;
constexpr std::uint64_t kMostPiece = 8 << 10;
constexpr std::uint64_t kLeastPiece = 256;
constexpr std::uint64_t kLeastMessage = 256 << 10;

std::span<const std::byte> bytes_of(const grpc_slice& slice) {
  return {reinterpret_cast<const std::byte*>(GRPC_SLICE_START_PTR(slice)),
          GRPC_SLICE_LENGTH(slice)};
}

}  // namespace

// As with TCP, it is the reads that fail when the peer is gone: what it has said before is heard
// first.
void FerryEndpoint::push() {
  while (finish_send() && next_.slice < held_.count)
    if (!send_next()) return;
  if (!sending_ && next_.slice == held_.count) finish_write(absl::OkStatus());
}

// One message at a time is under way, so that one that is refused can still be sent in another way
// before what follows it.
bool FerryEndpoint::finish_send() {
  if (!sending_) return true;
  if (!sending_->poll()) return false;
  const auto status = std::exchange(sending_, {})->wait();
  if (status) {
    next_ = sent_to_;
  } else {
    // The outcome is ignored: nothing is under way in any case. If the peer's memory is full,
    // send_next() tries the same piece once more now, and a second refusal makes it wait.
    (void)reconsider(status.error());
  }
  return true;
}

// Messages are limited in size, since a message waits at the receiver until there is memory for all
// of it; a peer with less memory than this process says that one is too large.
bool FerryEndpoint::send_next() {
  const bool pieces = next_ < pieces_until_;
  const auto piece = std::clamp(link_->mailbox().tuning().eager_threshold, kLeastPiece, kMostPiece);
  sent_to_ = pieces ? gather(piece, kMostPieceParts)
                    : gather(most_in_a_message_, PluginOptions::get().coalescing ? kMostParts : 1);
  blocked_.store(false, std::memory_order_relaxed);
  if (parts_.empty()) {
    next_ = sent_to_;
    return true;
  }
  auto send = link_->mailbox().send(parts_, Deadline::after(Nanos::max()));
  if (!send.poll()) {
    sending_ = std::move(send);
    return true;
  }
  if (auto status = send.wait(); !status) return reconsider(status.error());
  next_ = sent_to_;
  return true;
}

FerryEndpoint::Place FerryEndpoint::gather(std::uint64_t most_bytes, std::size_t most_parts) {
  parts_.clear();
  auto at = next_;
  std::size_t large = 0;
  while (at.slice < held_.count && parts_.size() < most_parts && large < kMostLarge &&
         most_bytes != 0) {
    const auto rest = bytes_of(held_.slices[at.slice]).subspan(at.offset);
    const auto part = rest.first(std::min(rest.size(), most_bytes));
    if (!part.empty()) parts_.push_back(part);
    most_bytes -= part.size();
    large += part.size() >= kLarge ? 1 : 0;
    at = part.size() == rest.size() ? Place{at.slice + 1, 0}
                                    : Place{at.slice, at.offset + part.size()};
  }
  return at;
}

// If the peer is there, the bytes go as smaller messages, or through the peer's slots, for which no
// memory is needed: a program that holds what it has received does not keep others from being sent.
bool FerryEndpoint::reconsider(const Error& error) {
  const bool small = next_ < pieces_until_;
  if (error.code() == Code::kUnavailable || error.code() == Code::kDataLoss) {
    next_ = {held_.count, 0};
  } else if (error.code() == Code::kOutOfRange && most_in_a_message_ > kLeastMessage) {
    most_in_a_message_ /= 2;
  } else if (!small) {
    std::uint64_t bytes = 0;
    for (const auto& part : parts_) bytes += part.size();
    link_->note_pieces(bytes, error);
    pieces_until_ = sent_to_;
  } else if (error.code() == Code::kResourceExhausted) {
    blocked_.store(true, std::memory_order_relaxed);
    around_.background.wake_for(PluginOptions::get().scaled(kTryAgain));
    return false;
  } else {
    next_ = {held_.count, 0};
  }
  return true;
}

}  // namespace ferry::interop
