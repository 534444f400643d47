#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "ferry/fabric/process_watch_internal.h"

namespace ferry::fabric {

ProcessWatch::~ProcessWatch() {
  for (auto& [pid, process] : processes_)
    if (process.pidfd) loop_.unwatch(process.pidfd.get());
}

bool ProcessWatch::is_near(const PeerIdentity& peer) const {
  return peer.host == self_.host && peer.pid_space == self_.pid_space && peer.pid > 0 &&
         peer.pid != self_.pid;
}

// The kernel gives no pidfd for a process that has ended; whoever has its number by now is watched
// in vain, and the end of the connection tells.
void ProcessWatch::add_on_loop(const PeerIdentity& peer) {
  if (!is_near(peer)) return;
  auto& process = processes_[peer.pid];
  ++process.sessions;
  if (process.pidfd) return;
  process.pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
  if (!process.pidfd) return;
  auto fd = process.pidfd.get();
  if (!loop_.watch(fd, EPOLLIN, &source_, static_cast<std::uint64_t>(fd))) process.pidfd.reset();
}

void ProcessWatch::remove_on_loop(const PeerIdentity& peer) {
  auto found = processes_.find(peer.pid);
  if (!is_near(peer) || found == processes_.end() || --found->second.sessions != 0) return;
  if (found->second.pidfd) loop_.unwatch(found->second.pidfd.get());
  processes_.erase(found);
}

std::optional<std::int32_t> ProcessWatch::ended_on_loop(int fd) {
  auto found = std::find_if(processes_.begin(), processes_.end(), [fd](const auto& each) {
    return each.second.pidfd && each.second.pidfd.get() == fd;
  });
  if (found == processes_.end()) return std::nullopt;
  pollfd ended{fd, POLLIN, 0};
  if (::poll(&ended, 1, 0) != 1) return 0;
  loop_.unwatch(fd);
  found->second.pidfd.reset();
  return found->first;
}

}  // namespace ferry::fabric
