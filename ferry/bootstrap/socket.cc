#include "ferry/bootstrap/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "ferry/bootstrap/resolve_internal.h"

namespace ferry::bootstrap {
namespace {

constexpr auto kListenLookup = std::chrono::seconds(5);

Result<Address> end_of(int fd, int (*ask)(int, sockaddr*, socklen_t*), const char* which) {
  Address address;
  address.length = sizeof(address.storage);
  if (ask(fd, address.raw(), &address.length) != 0)
    return fail_errno(errno, "cannot tell the {} address of socket {}", which, fd);
  return address;
}

Result<Address> local_address(int fd) { return end_of(fd, ::getsockname, "local"); }
Result<Address> remote_address(int fd) { return end_of(fd, ::getpeername, "remote"); }

std::string peer_name(int fd) {
  auto peer = remote_endpoint(fd);
  return peer ? "the peer " + peer->to_string() : "the peer (gone)";
}

Status set_option(int fd, int level, int option, int value, const char* name) {
  if (::setsockopt(fd, level, option, &value, sizeof(value)) != 0)
    return fail_errno(errno, "cannot set {} to {} on socket {}", name, value, fd);
  return {};
}

Result<Fd> new_socket(const Address& address) {
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd)
    return fail_errno(errno, "cannot make a socket for {} (too many files open? see ulimit -n)",
                      address.endpoint().to_string());
  return fd;
}

// Waits until `events` are there. Errors of the socket count as there: the next call tells them.
Status wait_for(int fd, short events, Deadline deadline, const char* what) {
  pollfd poll{fd, events, 0};
  while (true) {
    int ready = ::poll(&poll, 1, deadline.left_ms());
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail_errno(errno, "cannot poll socket {}", fd);
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded, "{} did not {} in time; is it stopped or overloaded?",
                  peer_name(fd), what);
  }
}

Result<Fd> listen_on(const Address& address, const Endpoint& endpoint, int backlog) {
  auto fd = FERRY_TRY(new_socket(address));
  FERRY_TRY(set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
  if (address.family() == AF_INET6)
    FERRY_TRY(set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY"));
  int error = ::bind(fd.get(), address.raw(), address.length) != 0 ? errno : 0;
  if (error == 0 && ::listen(fd.get(), backlog) != 0) error = errno;
  if (error == EADDRINUSE)
    return fail_errno(error,
                      "cannot listen on {}: port {} is taken by another program (ss -ltnp shows "
                      "which); choose another, or 0 for any",
                      endpoint.to_string(), endpoint.port);
  if (error == EADDRNOTAVAIL)
    return fail_errno(error, "cannot listen on {}: this host has no such address (see ip addr)",
                      endpoint.to_string());
  if (error != 0) return fail_errno(error, "cannot listen on {}", endpoint.to_string());
  return fd;
}

// On loopback a connect to a free ephemeral port can meet itself.
bool connected_to_itself(int fd) {
  auto mine = local_address(fd);
  auto other = remote_address(fd);
  return mine && other && mine->length == other->length &&
         std::memcmp(&mine->storage, &other->storage, mine->length) == 0;
}

Result<Fd> connect_to(const Address& address, Deadline deadline) {
  auto name = address.endpoint().to_string();
  auto fd = FERRY_TRY(new_socket(address));
  FERRY_TRY(set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"));
  int error = ::connect(fd.get(), address.raw(), address.length) != 0 ? errno : 0;
  if (error == EINPROGRESS || error == EINTR) {
    pollfd poll{fd.get(), POLLOUT, 0};
    while (::poll(&poll, 1, deadline.left_ms()) <= 0)
      if (deadline.expired())
        return fail(Code::kDeadlineExceeded,
                    "{} did not answer in time; is the host up, and does a firewall drop the port?",
                    name);
    socklen_t size = sizeof(error);
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  }
  if (error == 0 && connected_to_itself(fd.get())) error = ECONNREFUSED;
  if (error == ECONNREFUSED)
    return fail_errno(error, "nobody listens on {}; is the peer started, and is the port right?",
                      name);
  if (error != 0) return fail_errno(error, "cannot connect to {}", name);
  return fd;
}

// The connection broke under us. Always kUnavailable: also ETIMEDOUT means that the peer is gone.
tl::unexpected<Error> broken(int fd, const char* doing, std::size_t done, std::size_t all,
                             int error) {
  auto text = fmt::format("{} is gone after {} of {} bytes {}: {}", peer_name(fd), done, all, doing,
                          error == 0 ? "it closed the connection" : text_of_errno(error));
  return tl::unexpected<Error>(
      Error(Code::kUnavailable, std::move(text), error, __FILE__, __LINE__));
}

}  // namespace

Result<Endpoint> local_endpoint(int fd) { return FERRY_TRY(local_address(fd)).endpoint(); }

Result<Endpoint> remote_endpoint(int fd) { return FERRY_TRY(remote_address(fd)).endpoint(); }

Result<Fd> listen_tcp(const Endpoint& endpoint, int backlog) {
  auto addresses = FERRY_TRY(resolve(endpoint, Deadline::after(kListenLookup)));
  auto fd = listen_on(addresses.front(), endpoint, backlog);
  // A name such as localhost may stand for an IPv6 address that this host lacks.
  for (std::size_t i = 1; !fd && i < addresses.size(); ++i) {
    if (fd.error().os_code() == EADDRINUSE) break;
    auto next = listen_on(addresses[i], endpoint, backlog);
    if (next) fd = std::move(next);
  }
  return fd;
}

Result<Fd> connect_tcp(const Endpoint& endpoint, Deadline deadline) {
  if (endpoint.port == 0)
    return fail(Code::kInvalidArgument, "cannot connect to port 0 of '{}'; name the peer's port",
                endpoint.host);
  auto addresses = FERRY_TRY(resolve(endpoint, deadline));
  // Each address gets its share of the time, so that a silent one cannot starve the next.
  Result<Fd> fd = connect_to(addresses[0], Deadline::after(deadline.left() / addresses.size()));
  for (std::size_t i = 1; !fd && i < addresses.size() && !deadline.expired(); ++i)
    fd = connect_to(addresses[i], Deadline::after(deadline.left() / (addresses.size() - i)));
  return fd;
}

Result<Fd> accept_tcp(int listener) {
  while (true) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      FERRY_TRY(set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"));
      return fd;
    }
    switch (errno) {
      case EAGAIN:
        return Fd();
      // Errors of one connection that ended while it waited: the next may be sound.
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case ENETDOWN:
      case ENOPROTOOPT:
      case EHOSTDOWN:
      case ENONET:
      case EHOSTUNREACH:
      case ENETUNREACH:
        continue;
      case EMFILE:
      case ENFILE:
        return fail_errno(errno, "cannot accept a connection: too many files open (see ulimit -n)");
      default:
        return fail_errno(errno, "cannot accept a connection on socket {}", listener);
    }
  }
}

Status send_all(int fd, std::span<const std::byte> bytes, Deadline deadline) {
  for (std::size_t done = 0; done < bytes.size();) {
    auto sent = ::send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
      done += static_cast<std::size_t>(sent);
    else if (errno == EAGAIN)
      FERRY_TRY(wait_for(fd, POLLOUT, deadline, "take our bytes"));
    else if (errno != EINTR)
      return broken(fd, "sent", done, bytes.size(), errno);
  }
  return {};
}

Status receive_all(int fd, std::span<std::byte> bytes, Deadline deadline) {
  for (std::size_t done = 0; done < bytes.size();) {
    auto got = ::recv(fd, bytes.data() + done, bytes.size() - done, MSG_DONTWAIT);
    if (got > 0)
      done += static_cast<std::size_t>(got);
    else if (got == 0)
      return broken(fd, "received", done, bytes.size(), 0);
    else if (errno == EAGAIN)
      FERRY_TRY(wait_for(fd, POLLIN, deadline, "send"));
    else if (errno != EINTR)
      return broken(fd, "received", done, bytes.size(), errno);
  }
  return {};
}

Status set_user_timeout(int fd, std::chrono::milliseconds silence) {
  // Keepalive counts in whole seconds: the first probe after one, then one a second. The user
  // timeout ends the connection when none was answered; the number of probes only caps it.
  int ms = static_cast<int>(std::clamp<std::int64_t>(silence.count(), 1000, 3'600'000));
  int probes = std::clamp(ms / 1000, 1, 127);
  FERRY_TRY(set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"));
  FERRY_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1, "TCP_KEEPIDLE"));
  FERRY_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1, "TCP_KEEPINTVL"));
  FERRY_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, probes, "TCP_KEEPCNT"));
  return set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, ms, "TCP_USER_TIMEOUT");
}

}  // namespace ferry::bootstrap
