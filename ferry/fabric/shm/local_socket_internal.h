#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/fd.h"

// Sockets between processes of one machine: packets with descriptors beside them, names in the
// abstract namespace. Not on the data path. All sockets are non-blocking.

namespace ferry::fabric::shm {

struct Received {
  enum class What : std::uint8_t { kNothing, kPacket, kEnd };
  What what = What::kNothing;
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
};

Result<Fd> listen_local(const std::string& name);
// Waits for a place in the queue of whoever listens, until the deadline.
Result<Fd> connect_local(const std::string& name, Deadline deadline);
// Nothing waiting is an outcome: an empty Fd.
Result<Fd> accept_local(int listener);

struct ProcessAtEnd {
  std::uint32_t uid = 0;
  std::int32_t pid = 0;
};
// Who is at the other end, by the kernel's word; nothing if errno says why not.
std::optional<ProcessAtEnd> process_at_end(int socket);
// kPermissionDenied unless the process at the other end belongs to `uid` and, where pid is not 0,
// is `pid`.
Status check_peer(int socket, std::uint32_t uid, std::int32_t pid);

// False: the socket is full, try again later.
Result<bool> send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds);
// Never blocks. kResourceExhausted when descriptors were lost for want of room for them.
Result<Received> receive_packet(int socket);
// The next packet, waiting for it; an end is kUnavailable.
Result<Received> await_packet(int socket, Deadline deadline);

// The same file, for reading only.
Result<Fd> read_only(int fd);
// OK if `fd` holds at least `length` bytes and can never shrink, so that touching a mapping of it
// is safe whatever its sender does.
Status check_segment(int fd, std::size_t length);

}  // namespace ferry::fabric::shm
