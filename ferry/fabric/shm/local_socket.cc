#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ferry/fabric/shm/layout_internal.h"
#include "ferry/fabric/shm/local_socket_internal.h"
#include "ferry/fabric/shm/wire_internal.h"

namespace ferry::fabric::shm {

namespace {

constexpr std::size_t kMaxFds = kMaxLoops + 4;
constexpr int kBacklogOfStrangers = 4096;  // the kernel caps it at net.core.somaxconn

struct Address {
  sockaddr_un raw{};
  socklen_t length = 0;

  explicit Address(const std::string& name) {
    raw.sun_family = AF_UNIX;
    auto count = std::min(name.size(), sizeof raw.sun_path - 1);
    std::memcpy(raw.sun_path + 1, name.data(), count);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&raw); }
};

Result<Fd> new_socket() {
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno(errno, "creating a local socket (raise the open-files limit?)");
  return fd;
}

Status set_blocking(int fd, bool on) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, on ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) != 0)
    return fail_errno(errno, "setting the mode of a local socket");
  return {};
}

struct Ancillary {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * kMaxFds)];
};

void take_fds(msghdr& header, std::vector<Fd>& out) {
  for (auto* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    auto count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      out.emplace_back(fd);
    }
  }
}

}  // namespace

Result<Fd> listen_local(const std::string& name) {
  auto fd = FERRY_TRY(new_socket());
  Address address(name);
  if (::bind(fd.get(), address.get(), address.length) != 0)
    return fail_errno(errno, "binding the local socket '@{}'", name);
  if (::listen(fd.get(), kBacklogOfStrangers) != 0)
    return fail_errno(errno, "listening on the local socket '@{}'", name);
  return fd;
}

// The kernel lets those who block take places of a full queue in turn; those who ask again and
// again would have to be lucky.
Result<Fd> connect_local(const std::string& name, Deadline deadline) {
  auto fd = FERRY_TRY(new_socket());
  Address address(name);
  FERRY_TRY(set_blocking(fd.get(), true));
  for (;;) {
    const auto left = std::max<Nanos>(deadline.left(), std::chrono::milliseconds(1)).count();
    const timeval span{left / 1'000'000'000, left % 1'000'000'000 / 1000};
    if (::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &span, sizeof span) != 0)
      return fail_errno(errno, "giving a local socket a deadline");
    if (::connect(fd.get(), address.get(), address.length) == 0) break;
    if (errno != EAGAIN && errno != EINTR)
      return fail_errno(errno, "connecting to the peer's local socket '@{}'", name);
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded,
                  "the queue of the peer's local socket '@{}' stayed full: does another program of "
                  "this machine flood it?",
                  name);
  }
  FERRY_TRY(set_blocking(fd.get(), false));
  return fd;
}

Result<Fd> accept_local(int listener) {
  Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
    return fail_errno(errno, "accepting on the local socket");
  return fd;
}

std::optional<ProcessAtEnd> process_at_end(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return {};
  return ProcessAtEnd{who.uid, who.pid};
}

Status check_peer(int socket, std::uint32_t uid, std::int32_t pid) {
  auto who = process_at_end(socket);
  if (!who) return fail_errno(errno, "asking who is at the other end of a local socket");
  if (who->uid != uid)
    return fail(Code::kPermissionDenied,
                "the other end of a local socket belongs to user {}, not {}; use tcp between users",
                who->uid, uid);
  if (pid != 0 && who->pid != pid)
    return fail(Code::kPermissionDenied,
                "the other end of a local socket is process {}, but the peer said it is {}",
                who->pid, pid);
  return {};
}

Result<bool> send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  Ancillary ancillary{};
  if (!fds.empty()) {
    FERRY_ASSERT(fds.size() <= kMaxFds, "more descriptors than one packet carries");
    header.msg_control = ancillary.bytes;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    auto* control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(control), fds.data(), fds.size_bytes());
  }
  for (;;) {
    auto sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return true;
    if (errno == EINTR) continue;
    // Too many descriptors on their way pass, as a full buffer does.
    if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS) return false;
    return fail_errno(errno, "sending to a peer's local socket");
  }
}

Result<Received> receive_packet(int socket) {
  Received got;
  got.bytes.resize(kMaxPacket);
  iovec part{got.bytes.data(), got.bytes.size()};
  Ancillary ancillary{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = ancillary.bytes;
  header.msg_controllen = sizeof ancillary.bytes;
  ssize_t count = -1;
  do {
    count = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    if (errno == EAGAIN) return got;
    if (errno != ECONNRESET) return fail_errno(errno, "receiving from a peer's local socket");
    count = 0;
  }
  take_fds(header, got.fds);
  if ((header.msg_flags & MSG_CTRUNC) != 0)
    return fail(Code::kResourceExhausted,
                "descriptors of a peer were lost; raise the limit of open files (ulimit -n)");
  if ((header.msg_flags & MSG_TRUNC) != 0)
    return fail(Code::kInvalidArgument, "a packet of a peer is longer than {} bytes", kMaxPacket);
  got.what = count == 0 ? Received::What::kEnd : Received::What::kPacket;
  got.bytes.resize(static_cast<std::size_t>(count));
  return got;
}

Result<Received> await_packet(int socket, Deadline deadline) {
  for (;;) {
    auto got = FERRY_TRY(receive_packet(socket));
    if (got.what == Received::What::kPacket) return got;
    if (got.what == Received::What::kEnd)
      return fail(Code::kUnavailable, "the peer closed its local socket during the handshake");
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded, "the peer did not answer on its local socket in time");
    pollfd waiting{socket, POLLIN, 0};
    ::poll(&waiting, 1, deadline.left_ms());
  }
}

Result<Fd> read_only(int fd) {
  auto path = fmt::format("/proc/self/fd/{}", fd);
  Fd same(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!same) return fail_errno(errno, "opening {} for reading (is /proc mounted?)", path);
  return same;
}

Status check_segment(int fd, std::size_t length) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return fail_errno(errno, "looking at a descriptor of a peer");
  if (info.st_size < 0 || static_cast<std::size_t>(info.st_size) < length)
    return fail(Code::kInvalidArgument, "a peer's segment holds {} bytes, not {}", info.st_size,
                length);
  int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return fail(Code::kInvalidArgument, "a peer's segment is not sealed against shrinking");
  return {};
}

}  // namespace ferry::fabric::shm
