// Data path.
#include <sys/mman.h>

#include <cstring>
#include <random>

#include "ferry/fabric/grant_table_internal.h"

namespace ferry::fabric {

namespace {
constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::size_t kMarkAt = sizeof(GrantTable::Slot) * GrantTable::kSlots;
constexpr std::size_t kMarkPage = 4096;

std::uint64_t random_number() {
  thread_local std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}
}  // namespace

Status check_range(std::uint64_t offset, std::uint64_t length, std::uint64_t region_length) {
  if (offset <= region_length && length <= region_length - offset) return {};
  return fail(Code::kOutOfRange, "{} bytes at offset {} do not lie in a region of {} bytes", length,
              offset, region_length);
}

Result<std::unique_ptr<GrantTable>> GrantTable::create() {
  std::unique_ptr<GrantTable> table(new GrantTable);
  table->fd_ = FERRY_TRY(sealed_memfd("ferry-grants", kBytes));
  table->mapping_ = FERRY_TRY(Mapping::shared(table->fd_.get(), kBytes));
  table->slots_ = reinterpret_cast<Slot*>(table->mapping_.data());
  FERRY_TRY(table->make_mark());
  LockGuard<SpinLock> guard(table->lock_);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) table->free_.push_back(slot);
  return table;
}

Result<std::unique_ptr<GrantTable>> GrantTable::map(Fd fd) {
  std::unique_ptr<GrantTable> table(new GrantTable);
  table->mapping_ = FERRY_TRY(Mapping::shared(fd.get(), kBytes, false));
  table->slots_ = reinterpret_cast<Slot*>(table->mapping_.data());
  table->fd_ = std::move(fd);
  return table;
}

Status GrantTable::make_mark() {
  mark_page_ = FERRY_TRY(Mapping::anonymous(kMarkPage));
  if (::madvise(mark_page_.data(), kMarkPage, MADV_WIPEONFORK) != 0)
    return fail_errno(errno, "keeping a page from children of fork() (Linux 4.14 is needed)");
  Mark mark;
  mark.address = reinterpret_cast<std::uint64_t>(mark_page_.data());
  mark.value = random_number() | 1;  // never what a fresh page holds
  std::memcpy(mark_page_.data(), &mark.value, sizeof mark.value);
  std::memcpy(mapping_.data() + kMarkAt, &mark, sizeof mark);
  return {};
}

GrantTable::Mark GrantTable::mark() const {
  Mark mark;
  std::memcpy(&mark, mapping_.data() + kMarkAt, sizeof mark);
  return mark;
}

Result<GrantTable::Grant> GrantTable::add(Grant grant) {
  LockGuard<SpinLock> guard(lock_);
  if (free_.empty())
    return fail(Code::kResourceExhausted, "all {} grants of this device are in use; revoke some",
                kSlots);
  auto index = free_.front();
  free_.pop_front();
  Slot& slot = slots_[index];
  grant.key = (random_number() & ~std::uint64_t{kSlots - 1}) | index;
  if (grant.key <= index) grant.key |= std::uint64_t{1} << 63;
  grant.epoch = slot.epoch.load(kRelaxed) + 1;
  slot.address.store(grant.address, kRelaxed);
  slot.length.store(grant.length, kRelaxed);
  slot.block_offset.store(grant.block_offset, kRelaxed);
  slot.block.store(grant.block, kRelaxed);
  slot.peer.store(grant.peer, kRelaxed);
  slot.rights.store(static_cast<std::uint32_t>(grant.rights) | (grant.mappable ? kMappable : 0),
                    kRelaxed);
  slot.epoch.store(grant.epoch, kRelaxed);
  slot.key.store(grant.key, std::memory_order_release);
  count_.fetch_add(1, kRelaxed);
  return grant;
}

Status GrantTable::remove(std::uint64_t key) {
  LockGuard<SpinLock> guard(lock_);
  auto index = static_cast<std::uint32_t>(key & (kSlots - 1));
  Slot& slot = slots_[index];
  if (key == 0 || slot.key.load(kRelaxed) != key)
    return fail(Code::kNotFound, "grant {:#x} is not one of this device, or was revoked", key);
  // In this order: whoever looks in between learns that it was revoked, not that it never was.
  slot.epoch.fetch_add(1, std::memory_order_seq_cst);
  slot.key.store(0, std::memory_order_seq_cst);
  // What the caller stores to the memory from now on comes after: a peer whose copy holds a byte of
  // it finds the slot cleared when it looks again after the copy (GrantTable::is_still_valid).
  std::atomic_thread_fence(std::memory_order_seq_cst);
  free_.push_back(index);  // reused as late as possible
  count_.fetch_sub(1, kRelaxed);
  return {};
}

bool GrantTable::read(std::uint64_t key, Grant& out) const {
  const Slot& slot = slots_[key & (kSlots - 1)];
  out.key = slot.key.load(std::memory_order_acquire);
  out.address = slot.address.load(std::memory_order_acquire);
  out.length = slot.length.load(std::memory_order_acquire);
  out.block_offset = slot.block_offset.load(std::memory_order_acquire);
  out.block = slot.block.load(std::memory_order_acquire);
  out.peer = slot.peer.load(std::memory_order_acquire);
  auto rights = slot.rights.load(std::memory_order_acquire);
  out.rights = static_cast<Rights>(rights & 0xff);
  out.mappable = (rights & kMappable) != 0;
  out.epoch = slot.epoch.load(std::memory_order_acquire);
  return out.key == key && key != 0 && slot.key.load(kRelaxed) == key;
}

Result<GrantTable::Grant> GrantTable::check(const RemoteRegion& remote, std::uint64_t offset,
                                            std::uint64_t length, Rights need,
                                            std::uint32_t peer) const {
  Grant grant;
  if (!read(remote.key, grant)) {
    if (remote.epoch != 0 && grant.epoch > remote.epoch)
      return fail(Code::kFailedPrecondition,
                  "the grant {:#x} of epoch {} was revoked; look the region up again", remote.key,
                  remote.epoch);
    return fail(Code::kNotFound, "no grant {:#x} is known here; was it ever given?", remote.key);
  }
  if (grant.epoch != remote.epoch)
    return fail(Code::kFailedPrecondition, "grant {:#x} has epoch {}, not {}; look it up again",
                remote.key, grant.epoch, remote.epoch);
  if (grant.peer != kAnyPeer && grant.peer != peer)
    return fail(Code::kPermissionDenied, "grant {:#x} was given to another peer", remote.key);
  if (!allows(grant.rights, need))
    return fail(Code::kPermissionDenied, "grant {:#x} allows {:#x}, and {:#x} was asked for",
                remote.key, static_cast<unsigned>(grant.rights), static_cast<unsigned>(need));
  FERRY_TRY(check_range(offset, length, grant.length));
  return grant;
}

}  // namespace ferry::fabric
