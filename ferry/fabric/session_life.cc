#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "ferry/base/log.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/channel_core_internal.h"
#include "ferry/fabric/device_core_internal.h"
#include "ferry/fabric/session_internal.h"

// How a session learns that its peer is silent, gone, or leaves, and how it ends.

namespace ferry::fabric {

namespace {

constexpr std::uint8_t kUnansweredProbes = 2;  // one may have left just now

// What the kernel knows of a connection.
struct Acknowledged {
  std::uint32_t segments_on_their_way = 0;
  std::uint8_t unanswered_probes = 0;
  std::uint64_t bytes = 0;  // of ours, since the connection began
};

std::optional<Acknowledged> acknowledged_on(int socket) {
  // tcpi_bytes_acked: the C library's struct ends before it, and <linux/tcp.h>, which has it,
  // cannot be included beside <netinet/tcp.h>.
  constexpr std::size_t kBytesAckedAt = 120;
  std::array<std::byte, kBytesAckedAt + sizeof(std::uint64_t)> raw{};
  socklen_t size = raw.size();
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, raw.data(), &size) != 0 || size < raw.size())
    return {};
  tcp_info info{};
  std::memcpy(&info, raw.data(), std::min(sizeof info, raw.size()));
  Acknowledged known{.segments_on_their_way = info.tcpi_unacked,
                     .unanswered_probes = info.tcpi_probes};
  std::memcpy(&known.bytes, raw.data() + kBytesAckedAt, sizeof known.bytes);
  return known;
}

double in_seconds(Nanos span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

tl::unexpected<Error> Session::broken(int error, const char* doing) const {
  return tl::unexpected<Error>(Error(Code::kUnavailable,
                                     fmt::format("the connection to peer {} broke while {}: {}",
                                                 identity().endpoint, doing, text_of_errno(error)),
                                     error, __FILE__, __LINE__));
}

// A session that is paused is not read: what lies there for long says nothing.
bool Session::has_unread_news() {
  int unread = 0;
  if (::ioctl(socket_.get(), FIONREAD, &unread) != 0) return false;
  return std::exchange(unread_, unread) != unread && unread > 0;
}

// A host at work acknowledges even if the process that the bytes are for is stopped. Only growth of
// what it has acknowledged counts: when packets are lost on the way to it alone, its kernel repeats
// its own, and each of these has an acknowledgement in it that says nothing new. Where nothing is
// on its way and bytes wait, the window is full or this host cannot send: then the kernel probes,
// and counts the probes that nobody answers.
bool Session::host_acknowledges() {
  int waiting = 0;
  if (::ioctl(socket_.get(), SIOCOUTQ, &waiting) != 0 || waiting == 0) return true;
  const auto known = acknowledged_on(socket_.get());
  if (!known) return true;
  const bool more = std::exchange(acknowledged_bytes_, known->bytes) != known->bytes;
  if (known->segments_on_their_way == 0) return known->unanswered_probes < kUnansweredProbes;
  return more;
}

void Session::heartbeat_on_loop(Nanos awake) {
  if (process_ended_) {
    peer_lost(::ferry::fail(Code::kUnavailable, "process {} of peer {} has ended", identity().pid,
                            identity().endpoint)
                  .value());
    return;
  }
  const bool doubts = watch_.doubts(awake);
  if (doubts && has_unread_news()) watch_.hear();  // it speaks, and we are slow to listen
  judge_on_loop(watch_.look(awake, !doubts || host_acknowledges()));
  if (watch_.ping_is_due(awake)) send(FrameType::kPing, 0, {});
}

void Session::judge_on_loop(PeerWatch::Verdict verdict) {
  const auto& name = identity().endpoint;
  const auto silence = in_seconds(watch_.silence());
  // Counted first: whoever sees the state of the peer sees it counted, too.
  if (verdict == PeerWatch::Verdict::kSilent)
    device_.peers_silent.fetch_add(1, std::memory_order_relaxed);
  if (verdict == PeerWatch::Verdict::kSpeaks)
    device_.peers_silent.fetch_sub(1, std::memory_order_relaxed);
  silent_ns_.store(watch_.silent() ? watch_.silence().count() : 0, std::memory_order_release);
  switch (verdict) {
    case PeerWatch::Verdict::kNothingNew:
      return;
    case PeerWatch::Verdict::kSilent:
      logger().warn(
          "peer {} has been silent for {:.1f} s: {}; it is given up after {:.1f} s", name, silence,
          watch_.host_answers() ? "its host answers, so its process is stopped or gets no processor"
                                : "its host does not answer either",
          in_seconds(device_.options.give_up));
      return;
    case PeerWatch::Verdict::kSpeaks:
      logger().warn("peer {} speaks again after {:.1f} s of silence", name,
                    in_seconds(watch_.ended_silence()));
      return;
    case PeerWatch::Verdict::kHostGone:
      peer_lost(::ferry::fail(Code::kUnavailable,
                              "the host of peer {} acknowledged nothing for {:.1f} s, in a silence "
                              "of {:.1f} s: it is down, or the network to it is cut",
                              name, in_seconds(watch_.unacknowledged()), silence)
                    .value());
      return;
    case PeerWatch::Verdict::kGiveUp:
      given_up_ms_.store(
          static_cast<std::uint32_t>(watch_.silence() / std::chrono::milliseconds(1)),
          std::memory_order_relaxed);
      peer_lost(::ferry::fail(Code::kUnavailable,
                              "peer {} was given up after {:.1f} s of silence: its process is "
                              "stopped or gets no processor, or it is cut off",
                              name, silence)
                    .value());
      return;
  }
}

// The end of the connection follows at once, unless a child that the process has forked keeps it
// open. What the peer still said is read first.
void Session::process_ended_on_loop() { process_ended_ = true; }

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
  constexpr int kMostTurns = 64;
  const bool listens = cause.code() == Code::kUnavailable;
  for (int turn = 0; listens && turn < kMostTurns && goodbye_ == nullptr; ++turn) {
    int unread = 0;
    if (::ioctl(socket_.get(), FIONREAD, &unread) != 0 || unread == 0) break;
    if (!receive_on_loop()) break;
  }
  return goodbye_ == nullptr ? cause : *goodbye_;
}

void Session::peer_lost(Error cause) {
  device_.control->report({shared_from_this(), std::move(cause)});
}

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
    device_.peers_lost.add();
    logger().info("session with {} ended: {}", identity().endpoint, cause.to_string());
  }
  if (const auto silence = given_up_ms_.load(std::memory_order_relaxed); silence != 0) {
    std::vector<std::byte> payload;
    bootstrap::Encoder(payload).u32(silence);
    send(FrameType::kBye, 0, payload);
  }
  if (silent_ns_.exchange(0, std::memory_order_relaxed) != 0)
    device_.peers_silent.fetch_sub(1, std::memory_order_relaxed);
  alive_.store(false, std::memory_order_release);
  ::shutdown(socket_.get(), SHUT_RDWR);
  for (auto& [number, weak] : cores)
    if (auto core = weak.lock()) core->fail(cause);
  for (auto& [number, entry] : accepted) entry.second->close(cause);
  device_.book.forget(number_);
  for (auto& provider : device_.providers) provider->forget(*this);
  device_.notify_loops();
}

}  // namespace ferry::fabric
