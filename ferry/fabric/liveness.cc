#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ferry/base/log.h"
#include "ferry/fabric/liveness_internal.h"

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

Liveness::Liveness(const Options& options, int socket, const PeerIdentity& peer,
                   std::atomic<std::uint64_t>& silent_peers)
    : socket_(socket),
      peer_(peer),
      give_up_(options.give_up),
      silent_peers_(silent_peers),
      watch_(PeerWatch::Limits::of(options)) {}

void Liveness::hear_on_loop() {
  watch_.hear();
  unread_ = 0;
}

bool Liveness::has_unread_bytes() {
  int unread = 0;
  if (::ioctl(socket_, FIONREAD, &unread) != 0) return false;
  return std::exchange(unread_, unread) != unread && unread > 0;
}

// A host at work acknowledges even if the process that the bytes are for is stopped. Only growth of
// what it has acknowledged counts: when packets are lost on the way to it alone, its kernel repeats
// its own, and each of these has an acknowledgement in it that says nothing new. Where nothing is
// on its way and bytes wait, the window is full or this host cannot send: then the kernel probes,
// and counts the probes that nobody answers.
bool Liveness::host_acknowledges() {
  int waiting = 0;
  if (::ioctl(socket_, SIOCOUTQ, &waiting) != 0 || waiting == 0) return true;
  const auto known = acknowledged_on(socket_);
  if (!known) return true;
  const bool more = std::exchange(acknowledged_bytes_, known->bytes) != known->bytes;
  if (known->segments_on_their_way == 0) return known->unanswered_probes < kUnansweredProbes;
  return more;
}

Status Liveness::look_on_loop(Nanos awake) {
  if (process_ended_)
    return fail(Code::kUnavailable, "process {} of peer {} has ended", peer_.pid, peer_.endpoint);
  const bool doubts = watch_.doubts(awake);
  if (doubts && has_unread_bytes()) watch_.hear();  // it speaks, and we are slow to listen
  return judge(watch_.look(awake, !doubts || host_acknowledges()));
}

Status Liveness::judge(PeerWatch::Verdict verdict) {
  const auto& name = peer_.endpoint;
  const auto silence = in_seconds(watch_.silence());
  // Counted first: whoever sees the state of the peer sees it counted, too.
  if (verdict == PeerWatch::Verdict::kSilent) silent_peers_.fetch_add(1, std::memory_order_relaxed);
  if (verdict == PeerWatch::Verdict::kSpeaks) silent_peers_.fetch_sub(1, std::memory_order_relaxed);
  silent_ns_.store(watch_.silent() ? watch_.silence().count() : 0, std::memory_order_release);
  switch (verdict) {
    case PeerWatch::Verdict::kNothingNew:
      return {};
    case PeerWatch::Verdict::kSilent:
      logger().warn(
          "peer {} has been silent for {:.1f} s: {}; it is given up after {:.1f} s", name, silence,
          watch_.host_answers() ? "its host answers, so its process is stopped or gets no processor"
                                : "its host does not answer either",
          in_seconds(give_up_));
      return {};
    case PeerWatch::Verdict::kSpeaks:
      logger().warn("peer {} speaks again after {:.1f} s of silence", name,
                    in_seconds(watch_.ended_silence()));
      return {};
    case PeerWatch::Verdict::kHostGone:
      return fail(Code::kUnavailable,
                  "the host of peer {} acknowledged nothing for {:.1f} s, in a silence "
                  "of {:.1f} s: it is down, or the network to it is cut",
                  name, in_seconds(watch_.unacknowledged()), silence);
    case PeerWatch::Verdict::kGiveUp:
      given_up_ms_.store(
          static_cast<std::uint32_t>(watch_.silence() / std::chrono::milliseconds(1)),
          std::memory_order_relaxed);
      return fail(Code::kUnavailable,
                  "peer {} was given up after {:.1f} s of silence: its process is "
                  "stopped or gets no processor, or it is cut off",
                  name, silence);
  }
  return {};
}

void Liveness::end_on_loop() {
  if (silent_ns_.exchange(0, std::memory_order_relaxed) != 0)
    silent_peers_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace ferry::fabric
