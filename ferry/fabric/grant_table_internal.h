#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "ferry/base/fd.h"
#include "ferry/base/spin.h"
#include "ferry/fabric/types.h"

namespace ferry::fabric {

// Every grant of one device, in a memfd that shared-memory peers map read-only: they and the tcp
// service threads check key, epoch, rights and range here on every request, as a NIC does.
// Lock-free for readers; docs/wire/shm.md gives the layout.
class GrantTable {
 public:
  static constexpr std::uint32_t kSlots = 1U << 16;
  static constexpr std::uint32_t kAnyPeer = 0;

  // One grant as a reader sees it, copied out consistently.
  struct Grant {
    std::uint64_t key = 0;
    std::uint64_t address = 0;  // in the owner
    std::uint64_t length = 0;
    std::uint64_t block_offset = 0;  // of the region in its memory::Block
    std::uint32_t epoch = 0;
    std::uint32_t block = 0;        // memory::Block::id
    std::uint32_t peer = kAnyPeer;  // the only session that may use it, or kAnyPeer
    Rights rights = Rights::kNone;
    bool mappable = false;  // the block is, or will be, handed to shared-memory peers
  };

  // In shared memory: 64 bytes. Fields are written before the key is, and the key is cleared before
  // they are changed.
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> key{0};  // 0: free. Low 16 bits: the slot's index
    std::atomic<std::uint64_t> address{0};
    std::atomic<std::uint64_t> length{0};
    std::atomic<std::uint64_t> block_offset{0};
    std::atomic<std::uint32_t> epoch{0};
    std::atomic<std::uint32_t> block{0};
    std::atomic<std::uint32_t> peer{0};
    std::atomic<std::uint32_t> rights{0};  // and kMappable
  };
  static_assert(sizeof(Slot) == 64);
  static constexpr std::uint32_t kMappable = 0x100;

  // A random number, and where it lies in the owner's address space: whoever reads the owner's
  // memory by its process number reads this along with it, and so knows that the memory was the
  // owner's, not that of another program or process that has the number now. Behind the slots.
  struct alignas(64) Mark {
    std::uint64_t address = 0;
    std::uint64_t value = 0;
    std::uint64_t zero[6] = {};
  };
  static constexpr std::size_t kBytes = sizeof(Slot) * kSlots + sizeof(Mark);

  static Result<std::unique_ptr<GrantTable>> create();
  // What a peer does with the fd it was handed: a read-only view.
  static Result<std::unique_ptr<GrantTable>> map(Fd fd);

  // Owner only. `grant.key` and `grant.epoch` are chosen here. Thread-safe.
  Result<Grant> add(Grant grant);
  // Owner only. From now on no request passes; what passed before may still be running.
  Status remove(std::uint64_t key);
  std::size_t count() const { return count_.load(std::memory_order_relaxed); }

  // The grant with this key; key 0 if there is none.
  Grant find(std::uint64_t key) const {
    Grant grant;
    return read(key, grant) ? grant : Grant{};
  }
  // Looks up and checks one request: kNotFound (never granted), kFailedPrecondition (revoked since:
  // stale epoch), kPermissionDenied (rights, or another peer's grant), kOutOfRange (offset +
  // length, overflow-safe). `peer` is the asking session's number at the owner.
  Result<Grant> check(const RemoteRegion& remote, std::uint64_t offset, std::uint64_t length,
                      Rights need, std::uint32_t peer) const;
  // Whether the grant still stands: one load of one line, for the data path.
  bool stands(std::uint64_t key, std::uint32_t epoch) const {
    const Slot& slot = slots_[key & (kSlots - 1)];
    return slot.key.load(std::memory_order_relaxed) == key &&
           slot.epoch.load(std::memory_order_relaxed) == epoch;
  }
  // Whether the grant has stood until now, after a copy from its memory: if so, no byte of the copy
  // was stored by the owner after it took the grant back.
  bool is_still_valid(std::uint64_t key, std::uint32_t epoch) const {
    std::atomic_thread_fence(std::memory_order_acquire);  // the loads of the copy come before
    return stands(key, epoch);
  }
  // As the owner wrote it when the table was made.
  Mark mark() const;
  int fd() const { return fd_.get(); }

 private:
  GrantTable() = default;
  // Makes the page by which this process is told from its children by fork().
  Status make_mark();
  // Reads the slot of the key, lock-free. False: it has another grant, or is being changed.
  bool read(std::uint64_t key, Grant& out) const;

  Fd fd_;
  Mapping mapping_;
  Slot* slots_ = nullptr;
  Mapping mark_page_;  // the owner's; the child of a fork has zeros there
  SpinLock lock_;
  std::deque<std::uint32_t> free_ FERRY_GUARDED_BY(lock_);
  std::atomic<std::size_t> count_{0};
};

// What both ends of every provider check, whoever does the checking.
Status check_range(std::uint64_t offset, std::uint64_t length, std::uint64_t region_length);

}  // namespace ferry::fabric
