#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ferry::fabric::verbs {

// What `ferry doctor` says about the RDMA devices of this host. Plain data, copied out; no handle
// stays open.
struct GidFact {
  int index = 0;
  std::string gid;   // "::ffff:10.0.0.1"
  std::string type;  // "InfiniBand", "RoCE v1", "RoCE v2"
  bool chosen = false;
};

struct PortFact {
  int number = 0;
  bool active = false;
  std::string state;       // "active", "down", ...
  std::string link_layer;  // "Ethernet", "InfiniBand"
  int active_mtu = 0;      // bytes
  int max_mtu = 0;
  std::uint32_t max_message = 0;
  std::uint16_t lid = 0;
  std::vector<GidFact> gids;
};

struct DeviceFact {
  std::string name;
  std::string problem;  // why it could not be opened, and what to do; empty: fine
  std::string firmware;
  std::uint32_t vendor = 0;
  int numa_node = -1;
  int max_queue_pairs = 0;
  int max_queue_depth = 0;
  int max_completions = 0;
  int max_shared_receives = 0;
  int max_regions = 0;
  int max_windows = 0;
  int max_outstanding_reads = 0;
  std::uint64_t max_region_bytes = 0;
  bool atomics = false;
  bool bound_windows = false;  // memory windows of type 2B
  std::vector<PortFact> ports;
};

struct DeviceFacts {
  std::string problem;  // why there are no devices, and what to do; empty: there are some
  std::vector<DeviceFact> devices;
};

DeviceFacts device_facts();

}  // namespace ferry::fabric::verbs
