#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ferry/fabric/verbs/adapter_internal.h"

namespace ferry::fabric::verbs {

namespace {

constexpr std::uint32_t kSoftRoceVendor = 0xffffff;
constexpr std::uint64_t kMaxSegment = std::uint64_t{1} << 30;

struct FreeList {
  void operator()(ibv_device** list) const { ibv_free_device_list(list); }
};

bool may_lock_memory() {
  std::ifstream status("/proc/self/status");
  constexpr unsigned kCapIpcLock = 14;
  for (std::string word; status >> word;) {
    if (word != "CapEff:") continue;
    std::uint64_t bits = 0;
    status >> std::hex >> bits;
    return (bits >> kCapIpcLock & 1) != 0;
  }
  return false;
}

bool folder_has_entries(const char* path) {
  std::error_code error;
  std::filesystem::directory_iterator at(path, error);
  return !error && at != std::filesystem::directory_iterator();
}

// OK when the port can carry lanes; else why not.
Status use_port(Adapter& adapter, int number, int wanted_gid) {
  adapter.port = static_cast<std::uint8_t>(number);
  if (int error = ibv_query_port(adapter.context.get(), adapter.port, &adapter.port_attr))
    return fail_errno(error, "asking {} for its port {}", adapter.name, number);
  if (adapter.port_attr.state != IBV_PORT_ACTIVE)
    return fail(Code::kUnavailable,
                "port {} of {} is {}, not active; check the cable or the network interface "
                "(rdma link)",
                number, adapter.name, name_of(adapter.port_attr.state));
  auto gid = choose_gid(read_gids(adapter.context.get(), adapter.port), wanted_gid);
  if (!gid)
    return fail(Code::kNotFound,
                "port {} of {} has no GID{}; give its network interface an address", number,
                adapter.name, wanted_gid < 0 ? "" : fmt::format(" {}", wanted_gid));
  adapter.gid = *gid;
  return {};
}

void note_abilities(Adapter& adapter) {
  const auto& limits = adapter.limits;
  adapter.repeats_binds = limits.vendor_id == kSoftRoceVendor;
  if ((limits.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0)
    adapter.mode =
        limits.vendor_id == kSoftRoceVendor ? GrantMode::kTightWindow : GrantMode::kWindow;
  adapter.atomics = limits.atomic_cap != IBV_ATOMIC_NONE;
  adapter.max_segment =
      std::min<std::uint64_t>(adapter.port_attr.max_msg_sz, kMaxSegment) & ~std::uint64_t{4095};
  adapter.address.ethernet = adapter.port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
  adapter.address.gid_type = adapter.gid.type;
  adapter.address.mtu = static_cast<std::uint8_t>(adapter.port_attr.active_mtu);
  adapter.address.lid = adapter.port_attr.lid;
  adapter.address.gid = adapter.gid.gid;
}

Result<std::unique_ptr<Adapter>> open_device(ibv_device* device, const Options& options) {
  auto adapter = std::make_unique<Adapter>();
  adapter->name = ibv_get_device_name(device);
  adapter->context.reset(ibv_open_device(device));
  if (adapter->context == nullptr)
    return fail_errno(errno, "opening {}; its file below /dev/infiniband must be writable",
                      adapter->name);
  if (int error = ibv_query_device(adapter->context.get(), &adapter->limits))
    return fail_errno(error, "asking {} for its limits", adapter->name);
  int ports = adapter->limits.phys_port_cnt;
  if (options.verbs_port > ports)
    return fail(Code::kNotFound, "{} has {} ports, not {}", adapter->name, ports,
                options.verbs_port);
  int first = options.verbs_port > 0 ? options.verbs_port : 1;
  int last = options.verbs_port > 0 ? options.verbs_port : ports;
  Status usable = fail(Code::kNotFound, "{} has no ports", adapter->name);
  for (int port = first; port <= last && !usable; ++port)
    usable = use_port(*adapter, port, options.verbs_gid);
  if (!usable) return tl::unexpected(usable.error());
  note_abilities(*adapter);
  adapter->numa_node = numa_node_of(adapter->name);
  adapter->pd.reset(ibv_alloc_pd(adapter->context.get()));
  if (adapter->pd == nullptr) return fail_errno(errno, "a protection domain of {}", adapter->name);
  return adapter;
}

}  // namespace

std::string_view name_of(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_NOP:
      return "unknown";
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initialising (no subnet manager?)";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    case IBV_PORT_ACTIVE_DEFER:
      return "active, deferred";
  }
  return "unknown";
}

int numa_node_of(const std::string& device, const std::string& root) {
  int node = -1;
  std::ifstream file(fmt::format("{}/{}/device/numa_node", root, device));
  return file >> node && node >= 0 ? node : -1;
}

int bytes_of(ibv_mtu mtu) { return 128 << static_cast<int>(mtu); }

std::string missing_devices() {
  constexpr const char* kSoft =
      "for RDMA over an ordinary network: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev "
      "eth0";
  if (!folder_has_entries("/sys/class/infiniband"))
    return fmt::format(
        "the kernel shows no RDMA device (/sys/class/infiniband); load the driver of the network "
        "card, or, {}",
        kSoft);
  if (!folder_has_entries("/dev/infiniband"))
    return "there is no /dev/infiniband: modprobe ib_uverbs; in a container, pass the devices in "
           "(--device /dev/infiniband)";
  return {};
}

Status check_memlock(std::size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur >= bytes || may_lock_memory())
    return {};
  return fail(Code::kResourceExhausted,
              "RDMA needs {} KiB of locked memory and the limit is {} KiB; raise it (ulimit -l, "
              "LimitMEMLOCK=, /etc/security/limits.d) or make the arenas smaller",
              bytes >> 10, limit.rlim_cur >> 10);
}

std::vector<GidEntry> read_gids(ibv_context* context, std::uint8_t port) {
  std::vector<ibv_gid_entry> raw(1024);
  auto count = ibv_query_gid_table(context, raw.data(), raw.size(), 0);
  std::vector<GidEntry> gids;
  for (ssize_t i = 0; i < count; ++i) {
    const auto& from = raw[static_cast<std::size_t>(i)];
    if (from.port_num != port) continue;
    GidEntry entry;
    entry.index = static_cast<int>(from.gid_index);
    entry.type = from.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidType::kRoce2
                 : from.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidType::kRoce1
                                                         : GidType::kInfiniBand;
    std::memcpy(entry.gid.data(), from.gid.raw, entry.gid.size());
    gids.push_back(entry);
  }
  return gids;
}

Result<std::unique_ptr<Adapter>> open_adapter(const Options& options) {
  if (auto missing = missing_devices(); !missing.empty())
    return fail(Code::kUnavailable, "{}", missing);
  FERRY_TRY(check_memlock(options.arena_bytes));
  int count = 0;
  std::unique_ptr<ibv_device*, FreeList> list(ibv_get_device_list(&count));
  if (list == nullptr || count == 0)
    return fail(Code::kUnavailable,
                "libibverbs finds no device that it has a driver for; install ibverbs-providers");
  Status problem = fail(Code::kNotFound, "no RDMA device is called \"{}\"", options.verbs_device);
  for (int i = 0; i < count; ++i) {
    auto* device = list.get()[i];
    if (!options.verbs_device.empty() && options.verbs_device != ibv_get_device_name(device))
      continue;
    auto adapter = open_device(device, options);
    if (adapter) return adapter;
    problem = tl::unexpected(adapter.error());
  }
  return tl::unexpected(problem.error());
}

}  // namespace ferry::fabric::verbs
