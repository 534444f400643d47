#include "ferry/fabric/region.h"

#include <condition_variable>
#include <cstring>

#include "ferry/base/log.h"
#include "ferry/fabric/device_core_internal.h"

namespace ferry::fabric {

namespace {
// How long destroying a region of the user's own memory waits for peers to let go of it.
constexpr auto kLetGo = std::chrono::seconds(3);

// Counts how many revocations are still under way, and lets one thread wait for the last.
struct Quiet {
  Mutex lock;
  std::condition_variable_any wake;
  std::size_t left = 0;

  // True for the last.
  bool one_less() {
    LockGuard<Mutex> guard(lock);
    wake.notify_all();
    return --left == 0;
  }
  bool wait(Deadline deadline) FERRY_NO_THREAD_SAFETY_ANALYSIS {
    lock.lock();
    while (left != 0 && !deadline.expired()) wake.wait_for(lock, deadline.left());
    bool all = left == 0;
    lock.unlock();
    return all;
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

void Region::reset() {
  if (record_ == nullptr) return;
  auto& device = *record_->device;
  device.release_region(std::move(record_));
  record_ = nullptr;
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
  for (std::size_t i = 0; i < providers.size(); ++i) {
    auto status = providers[i]->attach(record->block);
    if (status) continue;
    while (i-- > 0) providers[i]->detach(record->block);
    blocks.detach(record->block);
    return tl::unexpected<Error>(status.error());
  }
  record->device = shared_from_this();
  return Region(std::move(record));
}

// Gives the memory back; nobody can touch it any more.
void DeviceCore::release(RegionRecord& record) {
  if (record.allocation) {
    pool->free(*record.allocation);
    return;
  }
  for (auto& provider : providers) provider->detach(record.block);
  blocks.detach(record.block);
}

void DeviceCore::release_region(std::shared_ptr<RegionRecord> record) {
  std::vector<std::uint64_t> keys;
  {
    LockGuard<Mutex> guard(record->lock);
    keys.swap(record->grants);
  }
  auto quiet = std::make_shared<Quiet>();
  quiet->left = keys.size();
  auto bytes = record->bytes.size();
  if (!keys.empty()) retired_bytes.fetch_add(bytes);
  for (auto key : keys) {
    // The record lives, and so its memory is not reused, until the last revocation is through.
    auto done = [this, record, quiet, bytes] {
      if (quiet->one_less()) retired_bytes.fetch_sub(bytes);
    };
    if (!revoke_grant(key, done)) done();
  }
  // The user may unmap memory of his own once this returns.
  if (!record->allocation && !quiet->wait(Deadline::after(kLetGo)))
    logger().error("a peer may still be touching {} bytes at {}: it did not let go in time", bytes,
                   static_cast<void*>(record->bytes.data()));
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

Status DeviceCore::revoke_grant(std::uint64_t key, std::function<void()> quiet) {
  auto grant = grants->find(key);
  FERRY_TRY(grants->remove(key));
  {
    LockGuard<Mutex> guard(lock_);
    granted_.erase(key);
  }
  struct Countdown {
    std::atomic<std::size_t> left;
    std::function<void()> quiet;
  };
  auto countdown = std::make_shared<Countdown>();
  countdown->left = providers.size() + 1;
  countdown->quiet = std::move(quiet);
  auto one_less = [countdown] {
    if (countdown->left.fetch_sub(1) == 1) countdown->quiet();
  };
  for (auto& provider : providers) provider->revoke(grant, one_less);
  one_less();
  return {};
}

Status DeviceCore::revoke(const RemoteRegion& remote, Deadline deadline) {
  std::shared_ptr<RegionRecord> record;
  {
    LockGuard<Mutex> guard(lock_);
    auto found = granted_.find(remote.key);
    if (found != granted_.end()) record = found->second.lock();
  }
  if (record == nullptr)
    return fail(Code::kNotFound, "grant {:#x} is not one of this device, or was revoked",
                remote.key);
  {
    LockGuard<Mutex> guard(record->lock);
    std::erase(record->grants, remote.key);
  }
  auto quiet = std::make_shared<Quiet>();
  quiet->left = 1;
  FERRY_TRY(revoke_grant(remote.key, [quiet, record] { quiet->one_less(); }));
  if (quiet->wait(deadline)) return {};
  return fail(Code::kDeadlineExceeded,
              "the grant is revoked, but a peer that may still touch the memory does not answer");
}

}  // namespace ferry::fabric
