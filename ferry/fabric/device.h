#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/fabric/channel.h"
#include "ferry/fabric/options.h"
#include "ferry/fabric/region.h"
#include "ferry/fabric/types.h"
#include "ferry/memory/pool.h"

namespace ferry::fabric {

class DeviceCore;

struct ConnectOptions {
  std::optional<std::uint32_t> lane{};  // which lane; none: the next one, round-robin
  bool stripe = false;                  // spread large copies over all lanes of the peer
  Deadline deadline{};                  // 0: ten seconds from now
};

// What one provider of a device can do, or why it is off.
struct ProviderReport {
  std::string name;
  bool on = false;
  std::string detail;  // what it uses; or why it is unusable and what to do about it
  Capabilities capabilities;
};

// Counts since the device was opened.
struct DeviceStats {
  memory::Pool::Stats memory;
  std::vector<RegistrationStats> registrations;  // one for each provider that is on
  std::uint64_t sessions = 0;
  std::uint64_t channels = 0;
  std::uint64_t grants = 0;
  std::uint64_t retired_bytes = 0;  // of regions with revoked grants that a peer may still use
  std::uint64_t peers_silent = 0;   // now: they live and say nothing
  std::uint64_t peers_lost = 0;
  std::uint64_t peers_refused = 0;  // wrong secret, wrong version, broken protocol, over limits
  std::uint64_t operations_in_flight = 0;
};

// One way out of this process: owns memory that peers may touch, completion queues and their poller
// threads, and the listening socket. Thread-safe. Regions and channels must not outlive it.
class Device {
 public:
  static Result<Device> open(Options options = {});
  Device(Device&&) noexcept = default;
  Device& operator=(Device&&) noexcept = default;
  // Closes: refuses newcomers, fails what is pending, joins threads, releases memory.
  ~Device();

  // Where peers connect to: "host:port".
  std::string endpoint() const;
  DeviceId id() const;

  // Zeroed, 64-aligned memory from the device's arenas: the fastest kind for every provider.
  Result<Region> allocate(std::size_t bytes, Rights rights = Rights::kAll);
  // The user's own memory; it must stay mapped until the region is gone (see Region).
  Result<Region> register_memory(std::span<std::byte> memory, Rights rights = Rights::kAll);

  // Whether all these bytes lie in memory that allocate() or register_memory() gave: a transfer of
  // them needs no registration.
  bool is_registered(std::span<const std::byte> bytes) const;

  // Lets peers at the region: every peer of the cluster, or only the one at the end of `only`.
  Result<RemoteRegion> grant(const Region& region, Rights rights);
  Result<RemoteRegion> grant(const Region& region, Rights rights, const Channel& only);
  // From now on requests with this grant fail. Returns when no access can still be running, or
  // kDeadlineExceeded if a peer that may still touch the memory does not answer: then the memory
  // may still change, or, as long as the program does not change it, be read.
  Status revoke(const RemoteRegion& grant, Deadline deadline);

  // The address book: peers find the grant under this name.
  Status publish(std::string_view name, const RemoteRegion& grant);
  Status withdraw(std::string_view name);

  // A lane that this device has already opened to the peer is shared: the peer's accept() gives a
  // channel for the first connect() of a lane only.
  Result<Channel> connect(std::string_view endpoint, ConnectOptions options = {});
  // The next channel that a peer has opened to this device.
  Result<Channel> accept(Deadline deadline);

  // Waits until the 64-bit word is at least `value` (see Channel::wait_flag), whoever writes it.
  Status wait_flag(const std::byte* word, std::uint64_t value, Deadline deadline,
                   WaitMode mode = WaitMode::kAdaptive);
  // Makes progress until ready(), a plain check without side effects of what peers write or of
  // operations that end, is true; false when the deadline passes first. `spin` is for this wait
  // what Options::spin is for all others.
  bool wait_until(InlineFunction<bool()> ready, Deadline deadline,
                  WaitMode mode = WaitMode::kAdaptive, std::optional<Nanos> spin = {});
  // Makes every thread that waits on this device look at its condition once more: for conditions
  // that a thread of this process, and no peer, has changed. Costs system calls.
  void wake_waiters();
  // For programs that sleep in a loop of their own: a descriptor that is readable when there is
  // something to do here. It stays the device's. kFailedPrecondition with several completion
  // queues. Before such a sleep, arm(), then look at the condition once more; false: something has
  // come, look now. After it, disarm(); and handle_ready() if the descriptor is readable, which
  // makes progress, and after which it is not until something more comes.
  Result<int> wait_descriptor() const;
  bool arm();
  void disarm();
  void handle_ready();
  // One bounded burst of progress on every completion queue, for programs with a loop of their own.
  int progress();

  Nanos spin() const;  // Options::spin
  // Takes the place of Options::spin in waits that begin from now on, where the program has left it
  // open and the paths of the channels are known (mail::WaitSpin). Lock-free.
  void set_spin(Nanos spin);
  std::vector<ProviderReport> providers() const;
  DeviceStats stats() const;
  void close();

 private:
  explicit Device(std::shared_ptr<DeviceCore> core) : core_(std::move(core)) {}
  std::shared_ptr<DeviceCore> core_;  // shared with the control thread until close()
};

}  // namespace ferry::fabric
