#include <sys/ioctl.h>
#include <sys/socket.h>

#include <utility>

#include "ferry/base/log.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/channel_core_internal.h"
#include "ferry/fabric/session_internal.h"

// How a session learns that its peer is gone or leaves, and how it ends.

namespace ferry::fabric {

void Session::heartbeat_on_loop(Nanos awake) {
  auto living = liveness_.look_on_loop(awake);
  if (!living) return peer_lost(living.error());
  if (liveness_.ping_is_due_on_loop(awake)) send(FrameType::kPing, 0, {});
}

tl::unexpected<Error> Session::bye_on_loop(const bootstrap::Frame& frame) {
  Error cause =
      ::ferry::fail(Code::kUnavailable, "peer {} closed the connection", identity().endpoint)
          .value();
  bootstrap::Decoder in(frame.payload);
  const auto silence = std::chrono::milliseconds(in.u32());
  if (in.ok()) cause = given_up_by(identity().endpoint, silence);
  goodbye_ = std::make_shared<const Error>(cause);
  return tl::unexpected<Error>(std::move(cause));
}

// A peer that gives us up closes its lanes, too: whichever end is seen first, its word counts.
Error Session::last_words_on_loop(const Error& cause) {
  constexpr int kMostReads = 64;
  const bool listens = cause.code() == Code::kUnavailable;
  for (int reads = 0; listens && reads < kMostReads && goodbye_ == nullptr; ++reads) {
    int unread = 0;
    if (::ioctl(fd(), FIONREAD, &unread) != 0 || unread == 0) break;
    bool heard = false;
    if (!socket_.receive_on_loop(handler(), heard)) break;
  }
  return goodbye_ == nullptr ? cause : *goodbye_;
}

void Session::peer_lost(Error cause) { context_.report({shared_from_this(), std::move(cause)}); }

void Session::end_on_loop(const Error& cause) {
  std::map<std::uint32_t, std::weak_ptr<ChannelCore>> cores;
  decltype(accepted_) accepted;
  {
    LockGuard<Mutex> guard(lock_);
    if (cause_ != nullptr) return;
    cause_ = std::make_shared<const Error>(cause);
    cores = cores_;
    accepted.swap(accepted_);
  }
  if (cause.code() != Code::kCancelled) {
    context_.peers->lost.add();
    logger().info("session with {} ended: {}", identity().endpoint, cause.to_string());
  }
  if (const auto silence = liveness_.given_up_after().count(); silence != 0) {
    std::vector<std::byte> payload;
    bootstrap::Encoder(payload).u32(static_cast<std::uint32_t>(silence));
    send(FrameType::kBye, 0, payload);
  }
  liveness_.end_on_loop();
  alive_.store(false, std::memory_order_release);
  ::shutdown(fd(), SHUT_RDWR);
  for (auto& [number, weak] : cores)
    if (auto core = weak.lock()) core->fail(cause);
  for (auto& [number, entry] : accepted) entry.second->close(cause);
  context_.book->forget(number_);
  for (const auto& provider : *context_.providers) provider->forget(*this);
  for (const auto& loop : *context_.loops) loop->notify();
}

}  // namespace ferry::fabric
