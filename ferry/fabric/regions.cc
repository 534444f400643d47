#include <cstring>

#include "ferry/base/log.h"
#include "ferry/fabric/regions_internal.h"

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

bool RegionRecord::wait_until_quiet(Deadline deadline) {
  LockGuard<Mutex> guard(lock);
  while (revoking != 0 && !deadline.expired()) quiet.wait_for(lock, deadline.left());
  return revoking == 0;
}

RegionRecord::~RegionRecord() {
  if (regions != nullptr) regions->release(*this);
}

Result<RegionHandle> Regions::allocate(std::size_t bytes, Rights rights) {
  auto allocation = FERRY_TRY(owner_.pool->allocate(bytes));
  std::memset(allocation.bytes.data(), 0, allocation.bytes.size());  // a former user's bytes
  auto record = std::make_shared<RegionRecord>();
  record->regions = owner_.self();
  record->bytes = allocation.bytes;
  record->allocation = allocation;
  record->block = *owner_.blocks->of(allocation.block);
  record->block_offset = allocation.offset;
  record->rights = rights;
  return record;
}

Result<RegionHandle> Regions::register_memory(std::span<std::byte> memory, Rights rights) {
  if (memory.empty()) return fail(Code::kInvalidArgument, "an empty piece of memory to register");
  auto record = std::make_shared<RegionRecord>();
  record->bytes = memory;
  record->rights = rights;
  record->block = {owner_.pool->ids().next(), memory, -1, memory::KindId::kHost};
  FERRY_TRY(owner_.blocks->attach(record->block));
  for (std::size_t i = 0; i < owner_.registrars->size(); ++i) {
    auto status = (*owner_.registrars)[i]->attach(record->block);
    if (status) continue;
    while (i-- > 0) (*owner_.registrars)[i]->detach(record->block);
    owner_.blocks->detach(record->block);
    return tl::unexpected<Error>(status.error());
  }
  record->regions = owner_.self();
  return record;
}

void Regions::release(RegionRecord& record) {
  if (std::exchange(record.released, true)) return;
  if (record.allocation) {
    owner_.pool->free(*record.allocation);
    return;
  }
  for (auto& registrar : *owner_.registrars) registrar->detach(record.block);
  owner_.blocks->detach(record.block);
}

void Regions::revoke_all(const RegionHandle& record) {
  std::vector<std::uint64_t> keys;
  {
    LockGuard<Mutex> guard(record->lock);
    keys.swap(record->grants);
    count_revoking(*record, keys.size());
  }
  for (auto key : keys) revoke_grant(key, record, nullptr);
}

Status Regions::close(const RegionHandle& record, Deadline deadline) {
  revoke_all(record);
  if (!record->wait_until_quiet(deadline))
    return fail(Code::kDeadlineExceeded,
                "a peer may still touch {} bytes at {} and does not answer: they stay retired",
                record->bytes.size(), static_cast<void*>(record->bytes.data()));
  release(*record);
  return {};
}

void Regions::release_later(const RegionHandle& record) {
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

Result<RemoteRegion> Regions::grant(const RegionHandle& region, Rights rights, std::uint32_t peer) {
  if (region == nullptr) return fail(Code::kInvalidArgument, "an empty region cannot be granted");
  auto& record = *region;
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
  auto made = FERRY_TRY(owner_.grants->add(wanted));
  {
    LockGuard<Mutex> guard(record.lock);
    record.grants.push_back(made.key);
  }
  LockGuard<Mutex> guard(lock_);
  granted_[made.key] = region;
  return RemoteRegion{made.key, made.address, made.length, made.epoch, made.rights};
}

// Whoever takes a key out of the record counts it here before letting go of the record's lock: so a
// region that has neither keys nor revocations has no grant that stands.
void Regions::count_revoking(RegionRecord& record, std::size_t grants) {
  if (grants == 0) return;
  if (record.revoking == 0) retired_bytes_.fetch_add(record.bytes.size());
  record.revoking += grants;
}

// The providers that may still let a peer touch the memory, and what to do when none does.
struct Regions::Countdown {
  std::atomic<std::size_t> left;
  RegionHandle record;
  std::function<void()> quiet;
};

void Regions::end_revocation(RegionRecord& record) {
  LockGuard<Mutex> guard(record.lock);
  if (--record.revoking != 0) return;
  retired_bytes_.fetch_sub(record.bytes.size());
  record.quiet.notify_all();
}

void Regions::revoke_grant(std::uint64_t key, const RegionHandle& record,
                           std::function<void()> quiet) {
  auto grant = owner_.grants->find(key);
  const auto removed = owner_.grants->remove(key);
  FERRY_ASSERT(removed.has_value(), "who takes a key out of the record removes its grant");
  {
    LockGuard<Mutex> guard(lock_);
    granted_.erase(key);
  }
  auto countdown = std::make_shared<Countdown>();
  countdown->left = owner_.providers->size() + 1;
  countdown->record = record;
  countdown->quiet = std::move(quiet);
  auto one_less = [this, countdown] {
    if (countdown->left.fetch_sub(1) != 1) return;
    auto kept = std::move(countdown->record);
    end_revocation(*kept);
    // Last: whoever is told may close the region at once, without a wait.
    if (countdown->quiet) countdown->quiet();
  };
  for (auto& provider : *owner_.providers) provider->revoke(grant, one_less);
  one_less();
}

Status Regions::revoke(const RemoteRegion& remote, Deadline deadline) {
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
