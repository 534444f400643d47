#include "ferry/memory/pool.h"

#include <unistd.h>

#include <algorithm>

#include "ferry/base/clock.h"
#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/memory/suballocator_internal.h"

namespace ferry::memory {
namespace {

constexpr std::size_t kGranule = Suballocator::kGranule;

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

std::size_t half_of_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 2;
}

std::uint32_t granules_of(std::size_t bytes) {
  return static_cast<std::uint32_t>((bytes + kGranule - 1) / kGranule);
}

struct Arena {
  std::unique_ptr<Backing> backing;
  Block block;
  std::uint32_t region = Suballocator::kNone;  // kNone: all of it serves one large request
  // Of a large request only:
  std::size_t asked = 0;  // 0: idle
  std::uint64_t idle_since = 0;

  bool is_large() const { return region == Suballocator::kNone; }
  bool is_idle() const { return is_large() && asked == 0; }
  std::size_t size() const { return block.bytes.size(); }
};

}  // namespace

// Two locks: making_ is held while arenas are made and dropped, which takes milliseconds; lock_ for
// the instructions of one allocation. making_ is taken first.
class Pool::Impl {
 public:
  Impl(const Options& options, Kind& kind);
  ~Impl();

  Result<Allocation> allocate(std::size_t bytes);
  void free(const Allocation& allocation);
  Status add_registrar(Registrar* registrar);
  void remove_registrar(Registrar* registrar);
  void prefer_node(int node) FERRY_EXCLUDES(making_);
  std::vector<Block> blocks() const;
  std::optional<Block> block(std::uint32_t id) const;
  BlockIds& ids() { return ids_; }
  Stats stats() const;

 private:
  using ArenaPtr = std::unique_ptr<Arena>;

  std::optional<Allocation> allocate_at_hand(std::size_t bytes) FERRY_EXCLUDES(lock_);
  std::optional<Allocation> reuse_large(std::size_t bytes) FERRY_REQUIRES(lock_);
  Result<Allocation> allocate_in_new_arena(std::size_t bytes) FERRY_EXCLUDES(making_, lock_);
  // How large the new arena for this request may be; drops idle arenas when the budget is short.
  Result<std::size_t> find_budget(std::size_t bytes) FERRY_REQUIRES(making_);
  Result<ArenaPtr> make_arena(std::size_t size) FERRY_REQUIRES(making_);
  Result<std::unique_ptr<Backing>> make_backing(std::size_t size) FERRY_REQUIRES(making_);
  void drop_arena(ArenaPtr arena) FERRY_REQUIRES(making_);
  // An arena without allocations, taken out: the longest idle large one first.
  ArenaPtr take_empty_arena(bool large_only) FERRY_REQUIRES(making_) FERRY_EXCLUDES(lock_);
  void trim_idle() FERRY_EXCLUDES(making_, lock_);

  Status attach(Registrar& registrar, const Block& block) FERRY_REQUIRES(making_);
  Status attach_all(const Block& block) FERRY_REQUIRES(making_);

  Arena* find(std::uint32_t id) const FERRY_REQUIRES(lock_);
  Allocation count(const Arena& arena, std::size_t offset, std::size_t bytes) FERRY_REQUIRES(lock_);
  Allocation hand_out(Suballocator::Piece piece, std::size_t bytes) FERRY_REQUIRES(lock_);

  const std::size_t arena_bytes_;
  const std::size_t budget_bytes_;
  const std::size_t idle_limit_;
  const int numa_node_;
  Kind& kind_;
  BlockIds ids_;

  mutable Mutex making_;
  std::vector<Registrar*> registrars_ FERRY_GUARDED_BY(making_);
  int preferred_node_ FERRY_GUARDED_BY(making_) = -1;

  mutable SpinLock lock_;
  std::vector<ArenaPtr> arenas_ FERRY_GUARDED_BY(lock_);   // by id, ascending
  std::vector<Arena*> of_region_ FERRY_GUARDED_BY(lock_);  // by region of pieces_
  Suballocator pieces_ FERRY_GUARDED_BY(lock_);
  Stats stats_ FERRY_GUARDED_BY(lock_);
  std::uint64_t idle_clock_ FERRY_GUARDED_BY(lock_) = 0;
};

Pool::Impl::Impl(const Options& options, Kind& kind)
    : arena_bytes_(
          round_up(std::clamp(options.arena_bytes, kHugePage, std::size_t{64} << 30), kHugePage)),
      budget_bytes_(options.budget_bytes == 0 ? half_of_memory() : options.budget_bytes),
      idle_limit_(options.idle_bytes),
      numa_node_(options.numa_node),
      kind_(kind) {}

Pool::Impl::~Impl() {
  LockGuard making(making_);
  while (ArenaPtr arena = take_empty_arena(false)) drop_arena(std::move(arena));
  LockGuard lock(lock_);
  FERRY_ASSERT(arenas_.empty(), "a pool ended while some of its allocations were in use");
}

Result<Allocation> Pool::Impl::allocate(std::size_t bytes) {
  if (bytes == 0) return fail(Code::kInvalidArgument, "allocating 0 bytes from a pool");
  if (auto found = allocate_at_hand(bytes)) return *found;
  return allocate_in_new_arena(bytes);
}

std::optional<Allocation> Pool::Impl::allocate_at_hand(std::size_t bytes) {
  LockGuard lock(lock_);
  if (bytes > arena_bytes_) return reuse_large(bytes);
  auto piece = pieces_.allocate(granules_of(bytes));
  if (!piece) return std::nullopt;
  return hand_out(*piece, bytes);
}

// The tightest idle arena that wastes at most a quarter. Large arenas are few.
std::optional<Allocation> Pool::Impl::reuse_large(std::size_t bytes) {
  Arena* best = nullptr;
  for (auto& arena : arenas_) {
    std::size_t size = arena->size();
    if (!arena->is_idle() || size < bytes || size - bytes > bytes / 4 + kHugePage) continue;
    if (best == nullptr || size < best->size()) best = arena.get();
  }
  if (best == nullptr) return std::nullopt;
  best->asked = bytes;
  stats_.idle_bytes -= best->size();
  return count(*best, 0, bytes);
}

Result<Allocation> Pool::Impl::allocate_in_new_arena(std::size_t bytes) {
  LockGuard making(making_);
  // Another thread may have made one meanwhile.
  if (auto found = allocate_at_hand(bytes)) return *found;
  std::size_t size = FERRY_TRY(find_budget(bytes));
  Mapping table;
  if (bytes <= arena_bytes_) table = FERRY_TRY(Suballocator::make_table(granules_of(size)));
  ArenaPtr arena = FERRY_TRY(make_arena(size));

  LockGuard lock(lock_);
  Arena& made = *arena;
  if (bytes > arena_bytes_) {
    made.asked = bytes;
  } else {
    made.region = pieces_.add_region(granules_of(size), std::move(table));
    of_region_.resize(std::max<std::size_t>(of_region_.size(), made.region + 1));
    of_region_[made.region] = &made;
  }
  stats_.arena_bytes += size;
  arenas_.push_back(std::move(arena));
  if (made.is_large()) return count(made, 0, bytes);
  return hand_out(pieces_.allocate_in(made.region, granules_of(bytes)), bytes);
}

Result<std::size_t> Pool::Impl::find_budget(std::size_t bytes) {
  if (bytes <= budget_bytes_) {
    std::size_t need = round_up(bytes, kHugePage);
    std::size_t wish = std::max(need, arena_bytes_);
    auto left = [this] {
      LockGuard lock(lock_);
      return (budget_bytes_ - stats_.arena_bytes) / kHugePage * kHugePage;
    };
    while (left() < wish) {
      ArenaPtr idle = take_empty_arena(left() >= need);
      if (idle == nullptr) break;
      drop_arena(std::move(idle));
    }
    if (bytes > arena_bytes_ && left() >= need) return need;
    if (left() >= need) return std::min(wish, left());
  }
  LockGuard lock(lock_);
  return fail(
      Code::kResourceExhausted,
      "allocating {} bytes would break the pool's budget of {} bytes ({} in use, {} held in "
      "arenas); free memory or raise Options::budget_bytes",
      bytes, budget_bytes_, stats_.in_use, stats_.arena_bytes);
}

void Pool::Impl::prefer_node(int node) {
  LockGuard making(making_);
  preferred_node_ = node;
}

Result<std::unique_ptr<Backing>> Pool::Impl::make_backing(std::size_t size) {
  if (numa_node_ >= 0 || preferred_node_ < 0) return kind_.allocate(size, numa_node_);
  auto backing = kind_.allocate(size, preferred_node_);
  if (backing || backing.error().os_code() != EINVAL) return backing;
  // A set of CPUs or a container without that node: memory elsewhere is better than none.
  logger().warn("arenas are not on NUMA node {}, the NIC's: {}", preferred_node_,
                backing.error().message());
  preferred_node_ = -1;
  return kind_.allocate(size, -1);
}

Result<Pool::Impl::ArenaPtr> Pool::Impl::make_arena(std::size_t size) {
  auto arena = std::make_unique<Arena>();
  arena->backing = FERRY_TRY(make_backing(size));
  arena->block = {ids_.next(), arena->backing->bytes(), arena->backing->fd(), kind_.id()};
  FERRY_TRY(attach_all(arena->block));
  return arena;
}

void Pool::Impl::drop_arena(ArenaPtr arena) {
  for (auto* registrar : registrars_) registrar->detach(arena->block);
}

Pool::Impl::ArenaPtr Pool::Impl::take_empty_arena(bool large_only) {
  LockGuard lock(lock_);
  auto best = arenas_.end();
  for (auto it = arenas_.begin(); it != arenas_.end(); ++it) {
    Arena& arena = **it;
    bool empty = arena.is_large() ? arena.is_idle() : !large_only && pieces_.empty(arena.region);
    if (!empty) continue;
    // A small arena has idle_since ~0 here: taken last.
    auto rank = [](const Arena& a) { return a.is_large() ? a.idle_since : ~std::uint64_t{0}; };
    if (best == arenas_.end() || rank(arena) < rank(**best)) best = it;
  }
  if (best == arenas_.end()) return nullptr;
  ArenaPtr taken = std::move(*best);
  arenas_.erase(best);
  stats_.arena_bytes -= taken->size();
  if (taken->is_large()) {
    stats_.idle_bytes -= taken->size();
  } else {
    pieces_.remove_region(taken->region);
    of_region_[taken->region] = nullptr;
  }
  return taken;
}

void Pool::Impl::trim_idle() {
  LockGuard making(making_);
  auto too_much = [this] {
    LockGuard lock(lock_);
    return stats_.idle_bytes > idle_limit_;
  };
  while (too_much()) {
    ArenaPtr idle = take_empty_arena(true);
    if (idle == nullptr) return;
    drop_arena(std::move(idle));
  }
}

void Pool::Impl::free(const Allocation& allocation) {
  bool trim = false;
  {
    LockGuard lock(lock_);
    Arena* arena = find(allocation.block);
    FERRY_ASSERT(arena != nullptr, "freeing memory of a block that is not of this pool");
    FERRY_ASSERT(allocation.offset < arena->size() &&
                     arena->block.bytes.data() + allocation.offset == allocation.bytes.data(),
                 "freeing memory that this pool did not hand out");
    std::size_t bytes = allocation.bytes.size();
    if (arena->is_large()) {
      FERRY_ASSERT(arena->asked == bytes && bytes != 0 && allocation.offset == 0,
                   "freeing a large allocation twice, or with another size");
      arena->asked = 0;
      arena->idle_since = ++idle_clock_;
      stats_.idle_bytes += arena->size();
      trim = stats_.idle_bytes > idle_limit_;
    } else {
      auto offset = static_cast<std::uint32_t>(allocation.offset / kGranule);
      FERRY_ASSERT(allocation.offset % kGranule == 0 &&
                       pieces_.free({arena->region, offset}, granules_of(bytes)),
                   "freeing an allocation twice, or with another size");
    }
    stats_.in_use -= round_up(bytes, kGranule);
  }
  if (trim) trim_idle();
}

Status Pool::Impl::attach(Registrar& registrar, const Block& block) {
  std::int64_t start = now_ns();
  Status status = registrar.attach(block);
  auto spent = static_cast<std::uint64_t>(now_ns() - start);
  LockGuard lock(lock_);
  stats_.registrations += 1;
  stats_.registering_ns += spent;
  return status;
}

Status Pool::Impl::attach_all(const Block& block) {
  for (std::size_t i = 0; i < registrars_.size(); ++i) {
    Status status = attach(*registrars_[i], block);
    if (status) continue;
    while (i-- > 0) registrars_[i]->detach(block);
    return status;
  }
  return {};
}

Status Pool::Impl::add_registrar(Registrar* registrar) {
  LockGuard making(making_);
  std::vector<Block> present = blocks();
  for (std::size_t i = 0; i < present.size(); ++i) {
    Status status = attach(*registrar, present[i]);
    if (status) continue;
    while (i-- > 0) registrar->detach(present[i]);
    return status;
  }
  registrars_.push_back(registrar);
  return {};
}

void Pool::Impl::remove_registrar(Registrar* registrar) {
  LockGuard making(making_);
  auto at = std::find(registrars_.begin(), registrars_.end(), registrar);
  FERRY_ASSERT(at != registrars_.end(), "removing a registrar that was not added");
  registrars_.erase(at);
  for (const Block& block : blocks()) registrar->detach(block);
}

std::vector<Block> Pool::Impl::blocks() const {
  LockGuard lock(lock_);
  std::vector<Block> result;
  for (auto& arena : arenas_) result.push_back(arena->block);
  return result;
}

std::optional<Block> Pool::Impl::block(std::uint32_t id) const {
  LockGuard lock(lock_);
  Arena* arena = find(id);
  if (arena == nullptr) return std::nullopt;
  return arena->block;
}

Arena* Pool::Impl::find(std::uint32_t id) const {
  auto at = std::lower_bound(arenas_.begin(), arenas_.end(), id,
                             [](auto& arena, auto wanted) { return arena->block.id < wanted; });
  return at != arenas_.end() && (*at)->block.id == id ? at->get() : nullptr;
}

Allocation Pool::Impl::count(const Arena& arena, std::size_t offset, std::size_t bytes) {
  stats_.allocations += 1;
  stats_.in_use += round_up(bytes, kGranule);
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  return {arena.block.bytes.subspan(offset, bytes), arena.block.id, offset};
}

Allocation Pool::Impl::hand_out(Suballocator::Piece piece, std::size_t bytes) {
  return count(*of_region_[piece.region], piece.offset * kGranule, bytes);
}

Pool::Stats Pool::Impl::stats() const {
  LockGuard lock(lock_);
  Stats stats = stats_;
  stats.largest_free = std::size_t{pieces_.largest_free()} * kGranule;
  stats.total_free = pieces_.total_free() * kGranule;
  if (stats.total_free != 0)
    stats.fragmentation =
        1 - static_cast<double>(stats.largest_free) / static_cast<double>(stats.total_free);
  return stats;
}

Pool::Pool() : Pool(Options{}) {}
Pool::Pool(const Options& options, Kind& kind) : impl_(std::make_unique<Impl>(options, kind)) {}
Pool::~Pool() = default;
Result<Allocation> Pool::allocate(std::size_t bytes) { return impl_->allocate(bytes); }
void Pool::free(const Allocation& allocation) { impl_->free(allocation); }
Status Pool::add_registrar(Registrar* registrar) { return impl_->add_registrar(registrar); }
void Pool::remove_registrar(Registrar* registrar) { impl_->remove_registrar(registrar); }
void Pool::prefer_node(int node) { impl_->prefer_node(node); }
std::vector<Block> Pool::blocks() const { return impl_->blocks(); }
std::optional<Block> Pool::block(std::uint32_t id) const { return impl_->block(id); }
BlockIds& Pool::ids() { return impl_->ids(); }
Pool::Stats Pool::stats() const { return impl_->stats(); }

}  // namespace ferry::memory
