#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "ferry/bootstrap/hello.h"
#include "ferry/bootstrap/socket.h"

namespace ferry::bootstrap {
namespace {

constexpr auto kFarewell = std::chrono::milliseconds(200);
constexpr std::size_t kFarewellBytes = 1 << 20;

// Reads what is there. 0 bytes means that none waits; the peer's end and errors go to `ended`.
std::size_t read_some(int fd, std::span<std::byte> buffer, bool& ended) {
  auto got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got > 0) return static_cast<std::size_t>(got);
  ended = got == 0 || (errno != EAGAIN && errno != EINTR);
  return 0;
}

// Hands the reason to the peer. Closing a socket with unread bytes would make the kernel discard
// what the peer has not read yet, so its bytes are read away until it ends, for a bounded time.
void say_why(int fd, Handshake& handshake, Deadline deadline) {
  if (handshake.output().empty()) return;
  deadline = std::min(deadline, Deadline::after(kFarewell));
  if (!send_all(fd, handshake.output(), deadline)) return;
  ::shutdown(fd, SHUT_WR);
  std::array<std::byte, 4096> buffer;
  bool ended = false;
  for (std::size_t total = 0; !ended && total < kFarewellBytes && !deadline.expired();) {
    pollfd poll{fd, POLLIN, 0};
    if (::poll(&poll, 1, deadline.left_ms()) > 0) total += read_some(fd, buffer, ended);
  }
}

Status exchange(int fd, Handshake& handshake, Deadline deadline) {
  std::array<std::byte, 4096> buffer;
  while (true) {
    auto sent = send_all(fd, handshake.output(), deadline);
    handshake.consumed_output(handshake.output().size());
    if (sent && handshake.done()) return {};
    bool ended = false;
    auto got = read_some(fd, buffer, ended);
    if (ended) return handshake.peer_closed();
    // When the peer is gone, its last words tell more than our failure to send.
    if (!sent && got == 0) return sent;
    if (got > 0) {
      FERRY_TRY(handshake.consume(std::span(buffer).first(got)));
      continue;
    }
    pollfd poll{fd, POLLIN, 0};
    if (::poll(&poll, 1, deadline.left_ms()) < 0 && errno != EINTR)
      return fail_errno(errno, "cannot poll socket {}", fd);
    if (poll.revents == 0 && deadline.expired())
      return fail(
          Code::kDeadlineExceeded,
          "the peer did not finish the handshake in time; is it stopped, or another program?");
  }
}

}  // namespace

Result<Joined> join(int fd, Role role, const Secret& secret, Hello mine, Deadline deadline,
                    Admit admit) {
  auto handshake = FERRY_TRY(Handshake::open(role, secret, std::move(mine), std::move(admit)));
  auto exchanged = exchange(fd, handshake, deadline);
  if (!exchanged) {
    auto peer = remote_endpoint(fd);
    say_why(fd, handshake, deadline);
    const auto& error = exchanged.error();
    if (!peer) return tl::unexpected(error);
    return tl::unexpected(Error(error.code(), peer->to_string() + ": " + error.message(),
                                error.os_code(), error.file(), error.line()));
  }
  auto rest = handshake.rest();
  return Joined{
      handshake.peer(), handshake.session_key(), handshake.version(), {rest.begin(), rest.end()}};
}

}  // namespace ferry::bootstrap
