#include <nlohmann/json.hpp>

#include "ferry/interop/c/boxes_internal.h"
#include "ferry/interop/c/device.h"

namespace ferry::interop {

namespace {

using Json = nlohmann::json;

Result<fabric::Options> device_options(const ferry_device_options* raw) {
  const auto given = FERRY_TRY(options_of(raw));
  fabric::Options options;
  options.provider = text_or(given.provider, options.provider.c_str());
  options.listen = text_or(given.listen, options.listen.c_str());
  options.secret = text_or(given.secret, "");
  options.secret_file = text_or(given.secret_file, "");
  options.verbs_device = text_or(given.verbs_device, "");
  if (given.arena_bytes != 0) options.arena_bytes = given.arena_bytes;
  options.budget_bytes = given.budget_bytes;
  if (given.spin_ns != 0) options.spin = Nanos(given.spin_ns);
  if (given.operation_ns != 0) options.operation_deadline = Nanos(given.operation_ns);
  if (given.give_up_ns != 0) options.give_up = Nanos(given.give_up_ns);
  if (given.patience != 0) options.patience = given.patience;
  if (given.completion_queues != 0) options.completion_queues = given.completion_queues;
  if (given.lanes_per_peer != 0) options.lanes_per_peer = given.lanes_per_peer;
  return options;
}

Json abilities(const fabric::Capabilities& all) {
  return {{"one_sided", all.one_sided},
          {"maps_peer", all.maps_peer},
          {"atomics", all.atomics},
          {"max_message", all.max_message}};
}

Json description(DeviceBox& box) {
  Json providers = Json::array();
  for (const auto& report : box.device.providers())
    providers.push_back({{"name", report.name},
                         {"on", report.on},
                         {"detail", report.detail},
                         {"capabilities", abilities(report.capabilities)}});
  const auto stats = box.device.stats();
  return {{"endpoint", box.endpoint},
          {"id", box.id},
          {"host", fabric::host_id()},
          {"providers", std::move(providers)},
          {"stats",
           {{"sessions", stats.sessions},
            {"channels", stats.channels},
            {"grants", stats.grants},
            {"retired_bytes", stats.retired_bytes},
            {"peers_silent", stats.peers_silent},
            {"peers_lost", stats.peers_lost},
            {"peers_refused", stats.peers_refused},
            {"operations_in_flight", stats.operations_in_flight}}}};
}

}  // namespace

}  // namespace ferry::interop

using namespace ferry;           // NOLINT(google-build-using-namespace): entries are outside
using namespace ferry::interop;  // NOLINT(google-build-using-namespace)

ferry_error* ferry_device_open(const ferry_device_options* options, ferry_device** device) {
  return guard([&]() -> Status {
    FERRY_TRY(check_pointers({device}));
    auto own = FERRY_TRY(device_options(options));
    auto opened = FERRY_TRY(fabric::Device::open(std::move(own)));
    *device = new ferry_device(std::make_shared<DeviceBox>(std::move(opened)));
    return {};
  });
}

void ferry_device_free(ferry_device* device) { free_handle(device); }

void ferry_device_close(ferry_device* device) {
  ferry_error_free(guard(device, {}, [&]() -> Status {
    device->box->device.close();
    return {};
  }));
}

const char* ferry_device_endpoint(const ferry_device* device) {
  return device == nullptr ? "" : device->box->endpoint.c_str();
}
const char* ferry_device_id(const ferry_device* device) {
  return device == nullptr ? "" : device->box->id.c_str();
}

ferry_error* ferry_device_describe(ferry_device* device, ferry_text** text) {
  return guard(device, {text}, [&]() -> Status {
    *text = new ferry_text{description(*device->box).dump()};
    return {};
  });
}

ferry_error* ferry_device_allocate(ferry_device* device, uint64_t bytes, uint32_t rights,
                                   ferry_region** region) {
  return guard(device, {region}, [&]() -> Status {
    const auto all = static_cast<fabric::Rights>(rights & FERRY_ALL);
    *region = new ferry_region(device->box, FERRY_TRY(device->box->device.allocate(bytes, all)));
    return {};
  });
}

ferry_error* ferry_device_register(ferry_device* device, void* data, uint64_t bytes,
                                   uint32_t rights, ferry_region** region) {
  return guard(device, {data, region}, [&]() -> Status {
    const auto all = static_cast<fabric::Rights>(rights & FERRY_ALL);
    auto made = FERRY_TRY(device->box->device.register_memory(bytes_of(data, bytes), all));
    *region = new ferry_region(device->box, std::move(made));
    return {};
  });
}

ferry_error* ferry_device_is_registered(ferry_device* device, const void* data, uint64_t bytes,
                                        int* registered) {
  return guard(device, {registered}, [&]() -> Status {
    *registered = device->box->device.is_registered(bytes_of(data, bytes)) ? 1 : 0;
    return {};
  });
}

void* ferry_region_data(const ferry_region* region) {
  return region == nullptr || !region->region ? nullptr : region->region.data();
}
uint64_t ferry_region_size(const ferry_region* region) {
  return region == nullptr || !region->region ? 0 : region->region.size();
}

ferry_error* ferry_region_close(ferry_region* region, int64_t timeout_ns) {
  return guard(region, {}, [&]() -> Status {
    if (!region->region) return {};
    return region->region.close(deadline_of(timeout_ns));
  });
}

void ferry_region_free(ferry_region* region) { free_handle(region); }

ferry_error* ferry_device_grant(ferry_device* device, const ferry_region* region, uint32_t rights,
                                const ferry_channel* only, ferry_remote* grant) {
  return guard(device, {region, grant}, [&]() -> Status {
    if (!region->region) return fail(Code::kFailedPrecondition, "the region is closed");
    const auto some = static_cast<fabric::Rights>(rights & FERRY_ALL);
    auto& own = device->box->device;
    *grant = remote_to_c(FERRY_TRY(only == nullptr
                                       ? own.grant(region->region, some)
                                       : own.grant(region->region, some, only->box->channel)));
    return {};
  });
}

ferry_error* ferry_device_revoke(ferry_device* device, const ferry_remote* grant,
                                 int64_t timeout_ns) {
  return guard(device, {grant}, [&] {
    return device->box->device.revoke(remote_of(*grant), deadline_of(timeout_ns));
  });
}

ferry_error* ferry_device_publish(ferry_device* device, const char* name,
                                  const ferry_remote* grant) {
  return guard(device, {name, grant},
               [&] { return device->box->device.publish(name, remote_of(*grant)); });
}

ferry_error* ferry_device_withdraw(ferry_device* device, const char* name) {
  return guard(device, {name}, [&] { return device->box->device.withdraw(name); });
}

ferry_error* ferry_device_wait_flag(ferry_device* device, const void* word, uint64_t value,
                                    int64_t timeout_ns, int mode) {
  return guard(device, {word}, [&] {
    return device->box->device.wait_flag(static_cast<const std::byte*>(word), value,
                                         deadline_of(timeout_ns), mode_of(mode));
  });
}

ferry_error* ferry_device_descriptor(ferry_device* device, int* descriptor) {
  return guard(device, {descriptor}, [&]() -> Status {
    *descriptor = FERRY_TRY(device->box->device.wait_descriptor());
    return {};
  });
}

ferry_error* ferry_device_arm(ferry_device* device, int* armed) {
  return guard(device, {armed}, [&]() -> Status {
    *armed = device->box->device.arm() ? 1 : 0;
    return {};
  });
}

ferry_error* ferry_device_disarm(ferry_device* device) {
  return guard(device, {}, [&]() -> Status {
    device->box->device.disarm();
    return {};
  });
}

ferry_error* ferry_device_handle_ready(ferry_device* device) {
  return guard(device, {}, [&]() -> Status {
    device->box->device.handle_ready();
    return {};
  });
}

ferry_error* ferry_device_progress(ferry_device* device) {
  return guard(device, {}, [&]() -> Status {
    (void)device->box->device.progress();
    return {};
  });
}

ferry_error* ferry_device_connect(ferry_device* device, const char* endpoint,
                                  const ferry_connect_options* options, int64_t timeout_ns,
                                  ferry_channel** channel) {
  return guard(device, {endpoint, channel}, [&]() -> Status {
    const auto given = FERRY_TRY(options_of(options));
    fabric::ConnectOptions how{.stripe = given.stripe != 0,
                               .deadline = deadline_or_none(timeout_ns)};
    if (given.lane > 0) how.lane = static_cast<std::uint32_t>(given.lane - 1);
    auto opened = FERRY_TRY(device->box->device.connect(endpoint, how));
    *channel = new ferry_channel(std::make_shared<ChannelBox>(device->box, std::move(opened)));
    return {};
  });
}

ferry_error* ferry_device_accept(ferry_device* device, int64_t timeout_ns,
                                 ferry_channel** channel) {
  return guard(device, {channel}, [&]() -> Status {
    auto opened = FERRY_TRY(device->box->device.accept(deadline_of(timeout_ns)));
    *channel = new ferry_channel(std::make_shared<ChannelBox>(device->box, std::move(opened)));
    return {};
  });
}
