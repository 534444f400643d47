#include "ferry/fabric/region.h"

#include <condition_variable>
#include <cstring>

#include "ferry/base/log.h"
#include "ferry/fabric/device_core_internal.h"

namespace ferry::fabric {

namespace {
// How often the destruction of a region says that it still waits.
constexpr auto kSayEvery = std::chrono::seconds(3);

// Lets one thread wait for the end of one revocation.
struct Ended {
  Mutex lock;
  std::condition_variable_any wake;
  bool yes FERRY_GUARDED_BY(lock) = false;

  void tell() {
    LockGuard<Mutex> guard(lock);
    yes = true;
    wake.notify_all();
  }
  bool wait(Deadline deadline) {
    LockGuard<Mutex> guard(lock);
    while (!yes && !deadline.expired()) wake.wait_for(lock, deadline.left());
    return yes;
  }
};
}  // namespace

std::span<std::byte> Region::bytes() const {
  return record_ == nullptr ? std::span<std::byte>() : record_->bytes;
}
Rights Region::rights() const { return record_ == nullptr ? Rights::kNone : record_->rights; }
memory::KindId Region::kind() const {
  return record_ == nullptr ? memory::KindId::kHost : record_->block.kind;
}

Status Region::close(Deadline deadline) {
  if (record_ == nullptr) return {};
  auto device = record_->device;
  FERRY_TRY(device->close_region(record_, deadline));
  record_.reset();
  return {};
}

void Region::reset() {
  if (record_ == nullptr) return;
  auto device = record_->device;  // outlives the record
  device->release_region(record_);
  record_.reset();
}

bool RegionRecord::wait_until_quiet(Deadline deadline) {
  LockGuard<Mutex> guard(lock);
  while (revoking != 0 && !deadline.expired()) quiet.wait_for(lock, deadline.left());
  return revoking == 0;
}

RegionRecord::~RegionRecord() {
  if (device != nullptr) device->release(*this);
}

Result<Region> DeviceCore::allocate(std::size_t bytes, Rights rights) {
  auto allocation = FERRY_TRY(pool->allocate(bytes));
  std::memset(allocation.bytes.data(), 0, allocation.bytes.size());  // a former user's bytes
  auto record = std::make_shared<RegionRecord>();
  record->device = shared_from_this();
  record->bytes = allocation.bytes;
  record->allocation = allocation;
  record->block = *blocks.of(allocation.block);
  record->block_offset = allocation.offset;
  record->rights = rights;
  return Region(std::move(record));
}

Result<Region> DeviceCore::register_memory(std::span<std::byte> memory, Rights rights) {
  if (memory.empty()) return fail(Code::kInvalidArgument, "an empty piece of memory to register");
  auto record = std::make_shared<RegionRecord>();
  record->bytes = memory;
  record->rights = rights;
  record->block = {pool->ids().next(), memory, -1, memory::KindId::kHost};
  FERRY_TRY(blocks.attach(record->block));
  for (std::size_t i = 0; i < registrars.size(); ++i) {
    auto status = registrars[i]->attach(record->block);
    if (status) continue;
    while (i-- > 0) registrars[i]->detach(record->block);
    blocks.detach(record->block);
    return tl::unexpected<Error>(status.error());
  }
  record->device = shared_from_this();
  return Region(std::move(record));
}

std::vector<RegistrationStats> DeviceCore::registrations() const {
  std::vector<RegistrationStats> all;
  for (std::size_t i = 0; i < providers.size(); ++i) {
    auto& stats = all.emplace_back();
    stats.provider = providers[i]->name();
    stats.count = registrars[i]->count();
    stats.ns = registrars[i]->ns();
    providers[i]->count_registrations(stats);
  }
  return all;
}

// Gives the memory back; nobody can touch it any more.
void DeviceCore::release(RegionRecord& record) {
  if (std::exchange(record.released, true)) return;
  if (record.allocation) {
    pool->free(*record.allocation);
    return;
  }
  for (auto& registrar : registrars) registrar->detach(record.block);
  blocks.detach(record.block);
}

void DeviceCore::revoke_all(const std::shared_ptr<RegionRecord>& record) {
  std::vector<std::uint64_t> keys;
  {
    LockGuard<Mutex> guard(record->lock);
    keys.swap(record->grants);
    count_revoking(*record, keys.size());
  }
  for (auto key : keys) revoke_grant(key, record, nullptr);
}

Status DeviceCore::close_region(const std::shared_ptr<RegionRecord>& record, Deadline deadline) {
  revoke_all(record);
  if (!record->wait_until_quiet(deadline))
    return fail(Code::kDeadlineExceeded,
                "a peer may still touch {} bytes at {} and does not answer: they stay retired",
                record->bytes.size(), static_cast<void*>(record->bytes.data()));
  release(*record);
  return {};
}

void DeviceCore::release_region(const std::shared_ptr<RegionRecord>& record) {
  revoke_all(record);
  // The record lives, and so memory of the pool is not reused, until the last revocation is
  // through.
  if (record->allocation) return;
  // The program may use or unmap memory of its own once this returns.
  while (!record->wait_until_quiet(Deadline::after(kSayEvery)))
    logger().error("the end of a region waits: {} bytes at {} can still be touched",
                   record->bytes.size(), static_cast<void*>(record->bytes.data()));
  release(*record);
}

Result<RemoteRegion> DeviceCore::grant(const Region& region, Rights rights, std::uint32_t peer) {
  if (!region) return fail(Code::kInvalidArgument, "an empty region cannot be granted");
  auto& record = *region.record_;
  if (!allows(record.rights, rights))
    return fail(Code::kPermissionDenied, "the region allows {:#x}; {:#x} cannot be granted",
                static_cast<unsigned>(record.rights), static_cast<unsigned>(rights));
  GrantTable::Grant wanted;
  wanted.address = reinterpret_cast<std::uint64_t>(record.bytes.data());
  wanted.length = record.bytes.size();
  wanted.block = record.block.id;
  wanted.mappable = record.block.fd >= 0;
  wanted.block_offset = record.block_offset;
  wanted.peer = peer;
  wanted.rights = rights;
  auto made = FERRY_TRY(grants->add(wanted));
  {
    LockGuard<Mutex> guard(record.lock);
    record.grants.push_back(made.key);
  }
  LockGuard<Mutex> guard(lock_);
  granted_[made.key] = region.record_;
  return RemoteRegion{made.key, made.address, made.length, made.epoch, made.rights};
}

// Whoever takes a key out of the record counts it here before letting go of the record's lock: so a
// region that has neither keys nor revocations has no grant that stands.
void DeviceCore::count_revoking(RegionRecord& record, std::size_t grants) {
  if (grants == 0) return;
  if (record.revoking == 0) retired_bytes.fetch_add(record.bytes.size());
  record.revoking += grants;
}

void DeviceCore::revoke_grant(std::uint64_t key, const std::shared_ptr<RegionRecord>& record,
                              std::function<void()> quiet) {
  auto grant = grants->find(key);
  const auto removed = grants->remove(key);
  FERRY_ASSERT(removed.has_value(), "who takes a key out of the record removes its grant");
  {
    LockGuard<Mutex> guard(lock_);
    granted_.erase(key);
  }
  auto bytes = record->bytes.size();
  struct Countdown {
    std::atomic<std::size_t> left;
    std::shared_ptr<RegionRecord> record;
    std::function<void()> quiet;
  };
  auto countdown = std::make_shared<Countdown>();
  countdown->left = providers.size() + 1;
  countdown->record = record;
  countdown->quiet = std::move(quiet);
  auto one_less = [this, countdown, bytes] {
    if (countdown->left.fetch_sub(1) != 1) return;
    auto kept = std::move(countdown->record);
    {
      LockGuard<Mutex> guard(kept->lock);
      if (--kept->revoking == 0) {
        retired_bytes.fetch_sub(bytes);
        kept->quiet.notify_all();
      }
    }
    // Last: whoever is told may close the region at once, without a wait.
    if (countdown->quiet) countdown->quiet();
  };
  for (auto& provider : providers) provider->revoke(grant, one_less);
  one_less();
}

Status DeviceCore::revoke(const RemoteRegion& remote, Deadline deadline) {
  std::shared_ptr<RegionRecord> record;
  {
    LockGuard<Mutex> guard(lock_);
    auto found = granted_.find(remote.key);
    if (found != granted_.end()) record = found->second.lock();
  }
  bool taken = false;  // by this thread, and by no other that revokes or closes the region
  if (record != nullptr) {
    LockGuard<Mutex> guard(record->lock);
    taken = std::erase(record->grants, remote.key) != 0;
    count_revoking(*record, taken ? 1 : 0);
  }
  if (!taken)
    return fail(Code::kNotFound, "grant {:#x} is not one of this device, or was revoked",
                remote.key);
  auto ended = std::make_shared<Ended>();
  revoke_grant(remote.key, record, [ended] { ended->tell(); });
  if (ended->wait(deadline)) return {};
  return fail(Code::kDeadlineExceeded,
              "the grant is revoked, but a peer that may still touch the memory does not answer");
}

}  // namespace ferry::fabric
