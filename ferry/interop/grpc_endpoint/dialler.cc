#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/interop/grpc_endpoint/dialler_internal.h"

namespace ferry::interop {

namespace {

Result<Fd> connect_to(const SocketAddress& address, Deadline deadline) {
  const auto* raw = reinterpret_cast<const sockaddr*>(address.bytes.data());
  Fd fd(::socket(raw->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno(errno, "making a socket to ask for the plug-in");
  if (::connect(fd.get(), raw, static_cast<socklen_t>(address.bytes.size())) != 0 &&
      errno != EINPROGRESS)
    return fail_errno(errno, "connecting to ask for the plug-in");
  pollfd waiting{fd.get(), POLLOUT, 0};
  if (::poll(&waiting, 1, deadline.left_ms()) <= 0)
    return fail(Code::kDeadlineExceeded, "the server did not take a second connection in time");
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail_errno(error, "connecting to ask for the plug-in");
  int on = 1;
  if (raw->sa_family != AF_UNIX) ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace

Result<SocketAddress> SocketAddress::of_peer(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0)
    return fail_errno(errno, "asking for the address of a connection");
  const auto* first = reinterpret_cast<const std::byte*>(&storage);
  return SocketAddress{{first, first + size}};
}

Result<fabric::Channel> Dialler::open_lane(const std::string& endpoint, std::uint32_t lane,
                                           const CallToken& token, Deadline deadline) {
  fabric::ConnectOptions how;
  how.lane = lane;
  how.deadline = deadline;
  auto channel = FERRY_TRY(device_.device().connect(endpoint, how));
  auto said = channel.send(token, {.deadline = deadline}).wait();
  FERRY_TRY(std::move(said));
  return channel;
}

Result<Dialled> Dialler::dial(const SocketAddress& server, const LinkThresholds& set,
                              Deadline answered) {
  auto wire = FERRY_TRY(connect_to(server, answered));
  bootstrap::Hello mine;
  mine.purpose = bootstrap::Purpose::kGuest;
  mine.device = device_.device().id().bytes;
  bootstrap::Encoder(mine.blob).u32(kCallVersion);
  const auto joined = FERRY_TRY(bootstrap::join(wire.get(), bootstrap::Role::kConnector,
                                                device_.secret(), std::move(mine), answered));
  const auto answer = FERRY_TRY(CallAnswer::decode(joined.peer.blob));
  const auto deadline = Deadline::after(PluginOptions::get().scaled(kLinkLimit));
  LockGuard<Mutex> guard(lock_);
  auto channel =
      FERRY_TRY(open_lane(answer.endpoint, lanes_[answer.endpoint]++, answer.token, deadline));
  auto link = FERRY_TRY(links_.open(std::move(channel), set, deadline));
  measure_once(answer.endpoint, *link);
  return Dialled{std::move(wire), std::move(link)};
}

void Dialler::measure_once(const std::string& endpoint, const Link& link) {
  if (!tuner_.is_wanted(link) || !measured_.insert(path_of(link.channel())).second) return;
  run_aside([this, endpoint, lane = lanes_[endpoint]++] {
    // Without the lock, so that no connection waits: the two devices know each other already.
    auto channel = open_lane(endpoint, lane, kMeasureToken,
                             Deadline::after(PluginOptions::get().scaled(kMeasureLimit)));
    if (channel) {
      tuner_.measure(*std::move(channel));
    } else {
      logger().info("the path to {} is not measured: {}", endpoint, channel.error().message());
    }
  });
}

}  // namespace ferry::interop
