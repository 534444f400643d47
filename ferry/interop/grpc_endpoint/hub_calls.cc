#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/interop/grpc_endpoint/hub_internal.h"

// How a client's process and a server's come by a link: docs/design/grpc-endpoint.md.

namespace ferry::interop {

namespace {

constexpr std::uint32_t kCallVersion = 1;
constexpr std::size_t kMostEndpointText = 256;
constexpr auto kAcceptTurn = std::chrono::seconds(60);
// From the answer on: both sides have the plug-in, and may get little of a processor.
constexpr auto kLinkLimit = std::chrono::seconds(5);

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

struct CallAnswer {
  std::string endpoint;
  CallToken token{};
};

std::vector<std::byte> encode_answer(const CallAnswer& answer) {
  std::vector<std::byte> blob;
  bootstrap::Encoder(blob).u32(kCallVersion).string(answer.endpoint).raw(answer.token);
  return blob;
}

Result<CallAnswer> decode_answer(std::span<const std::byte> blob) {
  bootstrap::Decoder in(blob);
  const auto version = in.u32();
  CallAnswer answer;
  answer.endpoint = in.string(kMostEndpointText);
  const auto token = in.raw(answer.token.size());
  FERRY_TRY(in.finish("answer to a gRPC call"));
  if (version != kCallVersion)
    return fail(Code::kUnavailable, "the server's plug-in speaks version {}; {} is known here",
                version, kCallVersion);
  std::copy(token.begin(), token.end(), answer.token.begin());
  return answer;
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

Result<fabric::Channel> Hub::open_lane(const std::string& endpoint, std::uint32_t lane,
                                       const CallToken& token, Deadline deadline) {
  fabric::ConnectOptions how;
  how.lane = lane;
  how.deadline = deadline;
  auto channel = FERRY_TRY(device_->connect(endpoint, how));
  auto said = channel.send(token, {.deadline = deadline}).wait();
  FERRY_TRY(std::move(said));
  return channel;
}

Result<Dialled> Hub::dial(const SocketAddress& server, const LinkThresholds& set,
                          Deadline answered) {
  auto wire = FERRY_TRY(connect_to(server, answered));
  bootstrap::Hello mine;
  mine.purpose = bootstrap::Purpose::kGuest;
  mine.device = device_->id().bytes;
  bootstrap::Encoder(mine.blob).u32(kCallVersion);
  const auto joined = FERRY_TRY(bootstrap::join(wire.get(), bootstrap::Role::kConnector, *secret_,
                                                std::move(mine), answered));
  const auto answer = FERRY_TRY(decode_answer(joined.peer.blob));
  const auto deadline = Deadline::after(scaled(kLinkLimit));
  LockGuard<Mutex> guard(dial_lock_);
  auto channel =
      FERRY_TRY(open_lane(answer.endpoint, lanes_[answer.endpoint]++, answer.token, deadline));
  auto link = FERRY_TRY(Link::open(*room_, *device_, std::move(channel), set, deadline));
  measure_once(answer.endpoint, *link);
  return Dialled{std::move(wire), std::move(link)};
}

std::vector<std::byte> Hub::expect(const CallToken& token, const LinkThresholds& set,
                                   Arrived arrived) {
  LockGuard<Mutex> guard(lock_);
  if (!std::exchange(accepting_, true)) aside([this] { accept_links(); });
  expected_[token] = {set, std::move(arrived)};
  return encode_answer({device_->endpoint(), token});
}

void Hub::forget(const CallToken& token) {
  LockGuard<Mutex> guard(lock_);
  expected_.erase(token);
}

void Hub::accept_links() {
  for (;;) {
    auto channel = device_->accept(Deadline::after(kAcceptTurn));
    if (!channel) continue;
    aside([this, shared = std::make_shared<fabric::Channel>(*std::move(channel))] {
      serve_link(std::move(*shared));
    });
  }
}

void Hub::serve_link(fabric::Channel channel) {
  const auto deadline = Deadline::after(scaled(kLinkLimit));
  CallToken token{};
  const auto said = channel.receive(token, deadline);
  if (!said || *said != token.size()) return;
  if (token == kMeasureToken) return measure_with(std::move(channel));
  Expected call;
  {
    LockGuard<Mutex> guard(lock_);
    auto found = expected_.find(token);
    if (found == expected_.end()) return;
    call = std::move(found->second);
    expected_.erase(found);
  }
  auto link = Link::open(*room_, *device_, std::move(channel), call.set, deadline);
  if (!link) logger().info("a gRPC client's link was not opened: {}", link.error().to_string());
  call.arrived(link ? *std::move(link) : nullptr);
}

}  // namespace ferry::interop
