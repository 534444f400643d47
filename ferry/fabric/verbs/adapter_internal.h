#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferry/base/error.h"
#include "ferry/fabric/options.h"
#include "ferry/fabric/verbs/gid_internal.h"
#include "ferry/fabric/verbs/handles_internal.h"
#include "ferry/fabric/verbs/wire_internal.h"

namespace ferry::fabric::verbs {

// How a peer's rights on a grant are held by the device.
enum class GrantMode {
  kWindow,       // a window of type 2B on the block's registration
  kTightWindow,  // the same on a registration of the granted bytes alone: Soft-RoCE checks the
                 // rights of a window but holds it only to the bounds of what lies below
  kRegistration  // no windows: a registration per grant
};

// Registrations that were made, of whatever kind, and the time they took. Thread-safe.
struct RegistrationCount {
  std::atomic<std::uint64_t> made{0};
  std::atomic<std::uint64_t> ns{0};
};

// One opened RDMA device, the port in use, and what they can do. Immutable once open, but for what
// it counts.
struct Adapter {
  std::string name;
  Handle<ibv_context> context;
  Handle<ibv_pd> pd;
  ibv_device_attr limits{};
  std::uint8_t port = 0;
  ibv_port_attr port_attr{};
  GidEntry gid;
  Address address;
  GrantMode mode = GrantMode::kRegistration;
  // After a lost packet Soft-RoCE runs again what it had sent since, binds too, which fail then: a
  // bind is posted when all before it is acknowledged.
  bool repeats_binds = false;
  bool atomics = false;
  std::uint64_t max_segment = 0;  // bytes of one work request
  int numa_node = -1;             // of the NIC; -1: not known
  mutable RegistrationCount registrations;
};

// The NUMA node that a device below `root` says it is at; -1 if it says none.
int numa_node_of(const std::string& device, const std::string& root = "/sys/class/infiniband");

// The device and port that the options name, or the first active one.
Result<std::unique_ptr<Adapter>> open_adapter(const Options& options);

// Why the host has no usable device file, and what to do; empty when it has.
std::string missing_devices();
// Whether so many bytes can be pinned: kResourceExhausted with the advice when not.
Status check_memlock(std::size_t bytes);

std::vector<GidEntry> read_gids(ibv_context* context, std::uint8_t port);
std::string_view name_of(ibv_port_state state);
int bytes_of(ibv_mtu mtu);

}  // namespace ferry::fabric::verbs
