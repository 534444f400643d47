#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/base/fd.h"
#include "ferry/bootstrap/endpoint.h"

namespace ferry::bootstrap {

// TCP sockets as this project uses them: non-blocking, closed on exec, without Nagle's delay, and
// never raising SIGPIPE. All functions may be called from any thread; one socket's bytes belong to
// one sender and one receiver at a time.

// Listens on exactly the address named: an IPv6 address does not also listen on IPv4. Port 0 takes
// any free port, which local_endpoint() then tells. The listener is non-blocking.
Result<Fd> listen_tcp(const Endpoint& endpoint, int backlog);

// The two ends of a socket, in numbers.
Result<Endpoint> local_endpoint(int fd);
Result<Endpoint> remote_endpoint(int fd);

// Connects to the first of the endpoint's addresses that answers. Resolving the name and all
// attempts together end by the deadline.
Result<Fd> connect_tcp(const Endpoint& endpoint, Deadline deadline);

// Takes a waiting connection. None waiting is an outcome: an empty Fd.
Result<Fd> accept_tcp(int listener);

// Wait, by poll, until all bytes have crossed. A peer that closes first gives kUnavailable, one
// that stalls kDeadlineExceeded; how many bytes crossed is then only in the message.
Status send_all(int fd, std::span<const std::byte> bytes, Deadline deadline);
Status receive_all(int fd, std::span<std::byte> bytes, Deadline deadline);

// Makes the kernel end the connection when the peer's host has been silent for about `silence`
// (at least one second): keepalive probes when idle, TCP_USER_TIMEOUT when bytes are in flight. A
// peer that lives but reads nothing for that long while its window is full is ended as well.
Status set_user_timeout(int fd, std::chrono::milliseconds silence);

}  // namespace ferry::bootstrap
