#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ferry/base/clock.h"
#include "ferry/base/waiting.h"

namespace ferry::fabric {

// How a device is set up. The defaults suit one process on one machine.
struct Options {
  // "auto" (the best per peer), "shm", "tcp", "verbs", "fake", or a list such as "shm,tcp".
  std::string provider = "auto";
  // Where peers find this device. Port 0 picks a free one. Never all addresses unless named.
  std::string listen = "127.0.0.1:0";
  // The cluster's secret: who has it may join. Empty takes only what `secret_file` holds; both
  // empty makes a random one, which admits only devices of this process (and its forks). It has 16
  // to 4096 bytes, not counting white space around it.
  std::string secret;
  std::string secret_file;

  int completion_queues = 1;  // loops, one poller thread each
  int lanes_per_peer = 1;     // lanes that channels of one peer are spread over

  std::size_t arena_bytes = std::size_t{64} << 20;
  std::size_t budget_bytes = 0;  // most bytes of registered memory; 0: half of the machine's
  // Of the arenas. -1: that of the NIC that verbs uses; without one, wherever the kernel likes.
  int numa_node = -1;

  Nanos spin = waiting::kSpin;                          // before a waiter sleeps
  Nanos operation_deadline = std::chrono::seconds(60);  // of operations that name none
  // A peer whose process has ended is lost at once, and one whose host acknowledges nothing for
  // 10 s. One that lives and says nothing, because it is stopped or gets no processor, is named as
  // silent after 3 s and given up after this long. At least 1 s.
  Nanos give_up = std::chrono::seconds(60);
  // Slow hosts (emulated ones) scale every other wait by it: the 3 s and the 10 s above,
  // handshakes, and the time a peer gets to let go of a grant.
  double patience = 1.0;

  // Limits on what one peer may take from us.
  std::uint32_t max_sessions = 1024;
  std::uint32_t max_lanes_per_peer = 64;
  std::uint32_t max_look_ups = 256;  // that wait, of one peer
  std::uint32_t max_names = 65536;

  bool shm_help = true;          // shm: a receiver that waits copies its part of large writes
  std::size_t copy_threads = 0;  // shm: extra threads that help with large copies
  std::size_t stripe_bytes = std::size_t{1} << 20;  // tcp, verbs: larger copies use all lanes

  // verbs
  std::string verbs_device;  // empty: the first with an active port
  int verbs_port = 0;        // 0: the first active one
  int verbs_gid = -1;        // -1: chosen (RoCE v2, routable first)
  int traffic_class = 0;
  int service_level = 0;
};

}  // namespace ferry::fabric
