#include "ferry/fabric/device.h"

#include "ferry/fabric/channel_core_internal.h"
#include "ferry/fabric/device_core_internal.h"

namespace ferry::fabric {

Result<Device> Device::open(Options options) {
  return Device(FERRY_TRY(DeviceCore::open(std::move(options))));
}

Device::~Device() { close(); }

void Device::close() {
  if (core_ != nullptr) core_->close();
}

std::string Device::endpoint() const { return core_->endpoint; }
DeviceId Device::id() const { return core_->id; }

Result<Region> Device::allocate(std::size_t bytes, Rights rights) {
  return core_->allocate(bytes, rights);
}
Result<Region> Device::register_memory(std::span<std::byte> memory, Rights rights) {
  return core_->register_memory(memory, rights);
}
bool Device::is_registered(std::span<const std::byte> bytes) const {
  return bytes.empty() || core_->blocks.holding(bytes.data(), bytes.size()) != nullptr;
}
Result<RemoteRegion> Device::grant(const Region& region, Rights rights) {
  return core_->grant(region, rights, GrantTable::kAnyPeer);
}
Result<RemoteRegion> Device::grant(const Region& region, Rights rights, const Channel& only) {
  if (!only) return fail(Code::kInvalidArgument, "a grant to nobody: the channel is closed");
  return core_->grant(region, rights, only.session_number());
}
Status Device::revoke(const RemoteRegion& grant, Deadline deadline) {
  return core_->regions->revoke(grant, deadline);
}

Status Device::publish(std::string_view name, const RemoteRegion& grant) {
  if (core_->grants->find(grant.key).epoch != grant.epoch || grant.epoch == 0)
    return fail(Code::kFailedPrecondition,
                "'{}': the grant is not one of this device, or was "
                "revoked",
                name);
  FERRY_TRY(core_->book.publish(name, grant));
  return {};
}
Status Device::withdraw(std::string_view name) { return core_->book.withdraw(name); }

Result<Channel> Device::connect(std::string_view endpoint, ConnectOptions options) {
  return core_->connect(endpoint, options);
}
Result<Channel> Device::accept(Deadline deadline) { return core_->accept(deadline); }

namespace {

// Any loop may bring what is waited for: the others tell the first one of their work meanwhile.
template <class Wait>
auto wait_on_all(DeviceCore& core, Wait wait) {
  auto& loops = core.loops;
  for (std::size_t i = 1; i < loops.size(); ++i) loops[i]->tell_others(true);
  auto outcome = wait(*loops[0]);
  for (std::size_t i = 1; i < loops.size(); ++i) loops[i]->tell_others(false);
  return outcome;
}

}  // namespace

Status Device::wait_flag(const std::byte* word, std::uint64_t value, Deadline deadline,
                         WaitMode mode) {
  return wait_on_all(*core_, [&](Loop& first) {
    return fabric::wait_flag(first, word, value, deadline, mode, nullptr);
  });
}

bool Device::wait_until(InlineFunction<bool()> ready, Deadline deadline, WaitMode mode,
                        std::optional<Nanos> spin) {
  return wait_on_all(*core_, [&](Loop& first) {
    return first.wait_until(std::move(ready), deadline, mode, spin);
  });
}

Nanos Device::spin() const { return core_->options.spin; }

void Device::set_spin(Nanos spin) {
  for (auto& loop : core_->loops) loop->set_spin(spin);
}

void Device::wake_waiters() { core_->notify_loops(); }

Result<int> Device::wait_descriptor() const {
  if (core_->loops.size() != 1)
    return fail(Code::kFailedPrecondition,
                "a device with {} completion queues has no single descriptor to sleep on",
                core_->loops.size());
  return core_->loops[0]->descriptor();
}
bool Device::arm() { return core_->loops[0]->arm(); }
void Device::disarm() { core_->loops[0]->disarm(); }
void Device::handle_ready() { core_->loops[0]->handle_ready(); }

int Device::progress() {
  int work = 0;
  for (auto& loop : core_->loops) work += loop->try_progress();
  core_->control->loop().help_if_starved(now_ns());
  return work;
}

std::vector<ProviderReport> Device::providers() const { return core_->reports; }

DeviceStats Device::stats() const {
  DeviceStats stats;
  stats.memory = core_->pool->stats();
  stats.registrations = core_->registrations();
  stats.sessions = core_->control->sessions();
  stats.channels = core_->channels.open.load();
  stats.grants = core_->grants->count();
  stats.retired_bytes = core_->regions->retired_bytes();
  stats.peers_silent = core_->peers.silent.load();
  stats.peers_lost = core_->peers.lost.get();
  stats.peers_refused = core_->peers.refused.get();
  stats.operations_in_flight = core_->channels.operations.in_use();
  return stats;
}

}  // namespace ferry::fabric
