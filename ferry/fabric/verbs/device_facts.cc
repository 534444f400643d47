#include "ferry/fabric/verbs/device_facts.h"

#include "ferry/fabric/verbs/adapter_internal.h"

namespace ferry::fabric::verbs {

namespace {

PortFact port_fact(ibv_context* context, int number) {
  PortFact fact;
  fact.number = number;
  auto port = static_cast<std::uint8_t>(number);
  ibv_port_attr attr{};
  if (int error = ibv_query_port(context, port, &attr)) {
    fact.state = text_of_errno(error);
    return fact;
  }
  fact.active = attr.state == IBV_PORT_ACTIVE;
  fact.state = name_of(attr.state);
  fact.link_layer = attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
  fact.active_mtu = bytes_of(attr.active_mtu);
  fact.max_mtu = bytes_of(attr.max_mtu);
  fact.max_message = attr.max_msg_sz;
  fact.lid = attr.lid;
  auto gids = read_gids(context, port);
  auto chosen = choose_gid(gids, -1);
  for (const auto& gid : gids)
    fact.gids.push_back({gid.index, to_string(gid.gid), std::string(name_of(gid.type)),
                         chosen && chosen->index == gid.index});
  return fact;
}

void read_limits(DeviceFact& fact, const ibv_device_attr& limits) {
  fact.firmware = limits.fw_ver;
  fact.vendor = limits.vendor_id;
  fact.max_queue_pairs = limits.max_qp;
  fact.max_queue_depth = limits.max_qp_wr;
  fact.max_completions = limits.max_cqe;
  fact.max_shared_receives = limits.max_srq_wr;
  fact.max_regions = limits.max_mr;
  fact.max_windows = limits.max_mw;
  fact.max_outstanding_reads = limits.max_qp_rd_atom;
  fact.max_region_bytes = limits.max_mr_size;
  fact.atomics = limits.atomic_cap != IBV_ATOMIC_NONE;
  fact.bound_windows = (limits.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0;
}

DeviceFact device_fact(ibv_device* device) {
  DeviceFact fact;
  fact.name = ibv_get_device_name(device);
  fact.numa_node = numa_node_of(fact.name);
  Handle<ibv_context> context(ibv_open_device(device));
  if (context == nullptr) {
    fact.problem = fmt::format(
        "cannot be opened ({}); its file below /dev/infiniband must be "
        "writable",
        text_of_errno(errno));
    return fact;
  }
  ibv_device_attr limits{};
  if (int error = ibv_query_device(context.get(), &limits)) {
    fact.problem = fmt::format("does not tell its limits: {}", text_of_errno(error));
    return fact;
  }
  read_limits(fact, limits);
  for (int port = 1; port <= limits.phys_port_cnt; ++port)
    fact.ports.push_back(port_fact(context.get(), port));
  return fact;
}

}  // namespace

DeviceFacts device_facts() {
  DeviceFacts facts;
  facts.problem = missing_devices();
  if (!facts.problem.empty()) return facts;
  int count = 0;
  auto* list = ibv_get_device_list(&count);
  if (list == nullptr || count == 0)
    facts.problem =
        "libibverbs finds no device that it has a driver for; install ibverbs-providers";
  for (int i = 0; i < count; ++i) facts.devices.push_back(device_fact(list[i]));
  if (list != nullptr) ibv_free_device_list(list);
  return facts;
}

}  // namespace ferry::fabric::verbs
