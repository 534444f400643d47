// Data path.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ferry/base/fd.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/grant_table_internal.h"
#include "ferry/fabric/loop_internal.h"
#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/shm/in_flight_internal.h"
#include "ferry/fabric/shm/layout_internal.h"
#include "ferry/fabric/shm/link_internal.h"

namespace ferry::fabric::shm {

// A peer's memory as this process sees it: its grant table, bells, doorbells, and those of its
// blocks that were used. Lanes share it; what is mapped stays so until the last of them is gone,
// since the user may be working in it. Thread-safe.
class Peer : public std::enable_shared_from_this<Peer> {
 public:
  explicit Peer(std::shared_ptr<PeerSession> session)
      : number_(session->number()),
        number_at_peer_(session->number_at_peer()),
        pid_(session->identity().pid),
        most_blocks_(blocks_of_one_peer()),
        session_(std::move(session)) {}
  ~Peer();

  // How far a look at a grant in the cache came.
  enum class Reach : std::uint8_t {
    kReady,
    kUnknown,    // not in the cache: resolve() it
    kNotMapped,  // the peer's own memory
    kRefused,    // the grant as its owner gave it does not allow this, or no longer stands
  };
  // Where `length` bytes at `offset` of a grant are, if `need` may be done to them. A few loads.
  // Only within an InFlight::Section does what it says hold: until the section ends.
  [[gnu::always_inline]] Reach reach(const RemoteRegion& remote, std::uint64_t offset,
                                     std::uint64_t length, Rights need, std::byte*& at) const {
    const Entry* entry = &cache_[remote.key % kSets * 2];
    if (entry->key.load(std::memory_order_acquire) != remote.key) [[unlikely]] {
      ++entry;
      if (entry->key.load(std::memory_order_acquire) != remote.key) return Reach::kUnknown;
    }
    auto* base = entry->base.load(std::memory_order_relaxed);
    auto most = entry->length.load(std::memory_order_relaxed);
    auto rights = static_cast<Rights>(entry->rights.load(std::memory_order_relaxed));
    // A key means the same for ever: if it is still there, the fields were its own.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry->key.load(std::memory_order_relaxed) != remote.key) return Reach::kUnknown;
    if (base == nullptr) return Reach::kNotMapped;
    if (!allows(rights, need) || offset > most || length > most - offset || !stands(remote))
      return Reach::kRefused;
    at = base + offset;
    return Reach::kReady;
  }
  // Looks the grant up in the peer's table, maps its block if need be, and caches it: the granted
  // memory, or null if it is the peer's own, which nobody else can map. kDeadlineExceeded if
  // the peer does not hand the block over in time; what has arrived is looked at in any case.
  // Outside of sections.
  Result<std::span<std::byte>> resolve(const RemoteRegion& remote, Deadline deadline);
  // The grant, if it stands and allows this. Holds until the InFlight::Section ends.
  Result<GrantTable::Grant> check(const RemoteRegion& remote, std::uint64_t offset,
                                  std::uint64_t length, Rights need) const {
    return table_->check(remote, offset, length, need, number_at_peer_);
  }
  // The peer's process, as the kernel named it, and how to know that it still has this number.
  std::int32_t pid() const { return pid_; }
  const GrantTable::Mark& mark() const { return mark_; }
  // Why a request that does not stand fails, as the owner would say.
  Error why_not(const RemoteRegion& remote, std::uint64_t offset, std::uint64_t length,
                Rights need) const;
  bool stands(const RemoteRegion& remote) const { return table_->stands(remote.key, remote.epoch); }
  // After a copy from its memory: whether the grant has stood until now, and the copy is good.
  bool is_still_valid(const RemoteRegion& remote) const {
    return table_->is_still_valid(remote.key, remote.epoch);
  }

  // The peer's block for reading only, for helping with its copies; empty if unknown. Valid within
  // the InFlight::Section that it is called in.
  std::span<const std::byte> source(std::uint32_t block);

  // What the user was given by Lane::map() is in use until let_go(): a revocation waits for it.
  void hold(std::uint64_t key);
  void let_go(std::uint64_t key);
  bool holds(std::uint64_t key);

  // After a store that somebody at the peer may sleep on. The store is ordered before the look at
  // who sleeps by a full fence: a few nanoseconds here, and a sleeper need not pay for a
  // membarrier.
  void wake_flag_sleepers() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (std::size_t i = 0; i < loops_; ++i)
      if (bells_[i].flag_sleepers.load(std::memory_order_relaxed) != 0) ring(i);
  }
  void wake_flag_sleepers(std::uint32_t loop) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (bells_[loop].flag_sleepers.load(std::memory_order_relaxed) != 0) ring(loop);
  }
  void wake_any(std::uint32_t loop) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (bells_[loop].any_sleepers.load(std::memory_order_relaxed) != 0) ring(loop);
  }
  // Makes the peer's loop look at its lane of this index.
  void ring_doorbell(std::uint32_t loop, std::uint32_t index) const {
    set_bit(loop, index);
    if (bells_[loop].any_sleepers.load(std::memory_order_relaxed) != 0) ring(loop);
  }
  // The same for whoever spins there; sleepers are left alone unless `wake`.
  void ask_for_help(std::uint32_t loop, std::uint32_t index, bool wake) const {
    set_bit(loop, index);
    if (wake && bells_[loop].flag_sleepers.load(std::memory_order_relaxed) != 0) ring(loop);
  }

  // Takes over what a hello brought: table, bells, doorbells, eventfds. Once is enough.
  Status meet(std::vector<Fd> fds, std::uint32_t loops);
  void add_link(std::shared_ptr<Link> link);
  std::shared_ptr<Link> first_link();
  // Fails if the peer announces more blocks than it may.
  Status take_block(std::uint32_t id, std::uint64_t length, std::vector<Fd> fds);
  // Nobody finds the block from now on. It stays mapped until unmap_dropped() sees that nobody of
  // this process is at work in it: for as long as a copy lasts, which a stopped peer can stretch.
  void drop_block(std::uint32_t id);
  // True while dropped blocks are still in use. Never waits.
  bool unmap_dropped();

  // The peer asks whether a revoked grant is out of use. Fails if it has more such questions open
  // than it may: no more than it can have grants.
  static constexpr std::uint32_t kMostQuestions = GrantTable::kSlots;
  Status take_question();
  void question_answered() { questions_.fetch_sub(1, std::memory_order_relaxed); }

  std::uint32_t number() const { return number_; }
  std::uint32_t loops() const { return static_cast<std::uint32_t>(loops_); }
  // Null once the device has forgotten the peer.
  std::shared_ptr<PeerSession> session();
  void forget();
  // The peer is gone or broke the protocol.
  void lost(Error cause);

 private:
  // Two methods, so that a payload and its flag always fit at once.
  static constexpr std::size_t kSets = 128;
  struct alignas(64) Entry {
    std::atomic<std::uint64_t> key{0};
    std::atomic<std::byte*> base{nullptr};
    std::atomic<std::uint64_t> length{0};
    std::atomic<std::uint32_t> rights{0};
  };
  struct Mapped {
    std::uint64_t length = 0;
    Fd read_write;
    Fd read_only;
    Mapping writable;
    Mapping readable;
  };
  struct Dropped {
    Mapped block;
    InFlight::Running users;
  };

  static std::size_t blocks_of_one_peer();
  void ring(std::size_t loop) const;
  // What there is to be seen was stored before. The peer clears bits that it finds idle and looks
  // once more: hence the full fence.
  void set_bit(std::uint32_t loop, std::uint32_t index) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    auto bit = std::uint64_t{1} << (index % kBits);
    auto& lanes = doorbells_[loop].lanes;
    if ((lanes.load(std::memory_order_relaxed) & bit) == 0) lanes.fetch_or(bit);
  }
  void fill(const GrantTable::Grant& grant, std::byte* base) FERRY_REQUIRES(lock_);
  Result<std::byte*> base_of(const GrantTable::Grant& grant) FERRY_REQUIRES(lock_);
  Status await_block(std::uint32_t id, Deadline deadline) FERRY_EXCLUDES(lock_);
  void take_news();

  const std::uint32_t number_;
  const std::uint32_t number_at_peer_;
  const std::int32_t pid_;
  const std::size_t most_blocks_;
  std::atomic<std::uint32_t> questions_{0};
  // Set by meet(), before any lane is up; never changed after.
  std::unique_ptr<GrantTable> table_;
  GrantTable::Mark mark_;
  Mapping bell_mapping_;
  Mapping doorbell_mapping_;
  std::vector<Fd> events_;
  const Bell* bells_ = nullptr;
  Doorbell* doorbells_ = nullptr;
  std::size_t loops_ = 0;

  std::array<Entry, kSets * 2> cache_;
  std::size_t next_way_ FERRY_GUARDED_BY(lock_) = 0;

  Mutex lock_;
  bool met_ FERRY_GUARDED_BY(lock_) = false;
  std::shared_ptr<PeerSession> session_ FERRY_GUARDED_BY(lock_);
  std::map<std::uint32_t, Mapped> blocks_ FERRY_GUARDED_BY(lock_);
  std::vector<Mapped> kept_ FERRY_GUARDED_BY(lock_);  // dropped by the peer while held_
  std::vector<Dropped> dropped_ FERRY_GUARDED_BY(lock_);
  std::map<std::uint64_t, int> held_ FERRY_GUARDED_BY(lock_);
  std::vector<std::shared_ptr<Link>> links_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::fabric::shm
