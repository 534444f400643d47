#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "ferry/base/fd.h"
#include "ferry/fabric/loop_internal.h"
#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric {

// Descriptors of processes of this host (pidfds), so that the kernel tells when one of them ends,
// also if a child that it has forked keeps its connections open. For the loop's token holder only.
class ProcessWatch {
 public:
  // `self`: who and where this process is.
  ProcessWatch(Loop& loop, Loop::Source& source, PeerIdentity self)
      : loop_(loop), source_(source), self_(std::move(self)) {}
  ~ProcessWatch();

  // Begins to watch the peer's process, or does nothing: the process is on another host, in another
  // pid namespace, or this one; or the kernel or the limit of open files has no pidfd for us. The
  // end of the connection is then all there is.
  void add_on_loop(const PeerIdentity& peer);
  void remove_on_loop(const PeerIdentity& peer);
  // Whether the peer's process is one of this host that has a number here.
  bool is_near(const PeerIdentity& peer) const;
  // Nothing if the descriptor is none of a process. The number of the process if it has ended: it
  // is no longer watched. 0 if it lives: the event was meant for an older descriptor.
  std::optional<std::int32_t> ended_on_loop(int fd);

 private:
  struct Process {
    Fd pidfd;
    std::size_t sessions = 0;
  };

  Loop& loop_;
  Loop::Source& source_;
  const PeerIdentity self_;
  std::map<std::int32_t, Process> processes_;
};

}  // namespace ferry::fabric
