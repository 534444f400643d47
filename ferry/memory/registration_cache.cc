#include "ferry/memory/registration_cache.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/memory/interval_index_internal.h"
#include "ferry/memory/userfault_internal.h"

namespace ferry::memory {
namespace {

constexpr std::int32_t kNoSlot = -1;

std::uintptr_t start_of(std::span<std::byte> range) {
  return reinterpret_cast<std::uintptr_t>(range.data());
}

struct Slot {
  enum class State : std::uint8_t {
    kUnused,
    kMaking,  // being registered: not found, but already marked stale when its memory goes
    kLive,    // found
    kStale,   // its memory went away: not found, dropped when no lease holds it
  };
  State state = State::kUnused;
  std::uint32_t rights = 0;
  std::uint32_t leases = 0;
  std::span<std::byte> range;
  void* handle = nullptr;
  std::uint64_t last_used = 0;
};

// Starts a thread on which no signal handler of the program runs: one might unmap memory.
template <class Body>
std::thread quiet_thread(const char* name, Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

// Empties the handle of a thread that lives in another process only: in a child after fork() there
// is nothing that could be joined or detached.
void forget_thread(std::thread& thread) { std::construct_at(&thread); }

void ring(const Fd& bell) {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(bell.get(), &one, sizeof one);  // fails only when full
}

}  // namespace

// lock_ is held for some instructions only, and never while memory is allocated or freed, a
// callback runs or mappings change: the listener needs it to let an unmapping thread go on.
class RegistrationCache::Impl {
 public:
  Impl(const Options& options, Make make, Drop drop);
  ~Impl();

  Result<Lease> acquire(RegistrationCache* cache, std::span<std::byte> range, std::uint32_t rights);
  void release(void* handle, std::int32_t slot);
  bool caching() const { return userfault_.has_value(); }
  const std::string& why_not() const { return why_not_; }
  Stats stats() const;

 private:
  void start_caching();
  bool settle() const;
  std::int32_t find(std::span<std::byte> range, std::uint32_t rights, void** handle)
      FERRY_EXCLUDES(lock_);
  // Drops idle registrations until there is room; kNoSlot when all are leased.
  std::int32_t begin_making(std::span<std::byte> range, std::uint32_t rights) FERRY_EXCLUDES(lock_);
  void abandon(std::int32_t slot) FERRY_EXCLUDES(lock_);
  void finish_making(std::int32_t slot, void* handle, std::uint64_t spent_ns) FERRY_EXCLUDES(lock_);
  std::int32_t take_slot(std::span<std::byte> range, std::uint32_t rights) FERRY_REQUIRES(lock_);
  std::int32_t least_recent_idle() const FERRY_REQUIRES(lock_);
  void mark_stale(std::uint32_t slot) FERRY_REQUIRES(lock_);
  // Empties the slot; the caller drops the handle after it has let the lock go.
  void* retire(std::uint32_t slot) FERRY_REQUIRES(lock_);
  void listen();
  void take_events() FERRY_EXCLUDES(lock_);
  void sweep();
  bool drop_one_stale() FERRY_EXCLUDES(lock_);

  const Options options_;
  const Make make_;
  const Drop drop_;
  const pid_t process_ = ::getpid();
  std::string why_not_;
  std::optional<Userfault> userfault_;
  Fd stop_listening_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Fd bell_{::eventfd(0, EFD_CLOEXEC)};  // wakes the sweeper
  std::atomic<bool> stop_sweeping_{false};

  mutable SpinLock lock_;
  std::vector<Slot> slots_ FERRY_GUARDED_BY(lock_);
  std::vector<std::uint32_t> unused_ FERRY_GUARDED_BY(lock_);
  IntervalIndex index_ FERRY_GUARDED_BY(lock_);  // of those being made and live
  std::uint64_t clock_ FERRY_GUARDED_BY(lock_) = 0;
  Stats stats_ FERRY_GUARDED_BY(lock_);

  std::thread listener_;
  std::thread sweeper_;
};

RegistrationCache::Impl::Impl(const Options& options, Make make, Drop drop)
    : options_(options),
      make_(std::move(make)),
      drop_(std::move(drop)),
      slots_(options.max_count),
      index_(options.max_count) {
  for (std::size_t i = options.max_count; i-- > 0;) unused_.push_back(std::uint32_t(i));
  if (options.caching && options.max_count > 0) {
    start_caching();
  } else {
    why_not_ = "caching is switched off by the options";
  }
}

void RegistrationCache::Impl::start_caching() {
  if (!stop_listening_ || !bell_) {
    why_not_ = "there are no file descriptors left (raise the open-files limit)";
    return;
  }
  auto opened = Userfault::open();
  if (!opened) {
    why_not_ = opened.error().message();
    return;
  }
  userfault_.emplace(*std::move(opened));
  listener_ = quiet_thread("ferry-unmaps", [this] { listen(); });
  sweeper_ = quiet_thread("ferry-sweep", [this] { sweep(); });
}

// The listener ends last: what the others free may be watched memory.
RegistrationCache::Impl::~Impl() {
  if (process_ != ::getpid()) {  // a child after fork(): the threads are the parent's
    forget_thread(listener_);
    forget_thread(sweeper_);
    return;
  }
  if (sweeper_.joinable()) {
    stop_sweeping_ = true;
    ring(bell_);
    sweeper_.join();
  }
  if (listener_.joinable()) {
    ring(stop_listening_);
    listener_.join();
  }
  userfault_.reset();
  FERRY_ASSERT(stats().leases == 0, "a registration cache ended before its leases");
  for (std::uint32_t i = 0; i < options_.max_count; ++i) {
    void* handle = nullptr;
    {
      LockGuard lock(lock_);
      if (slots_[i].state == Slot::State::kUnused) continue;
      handle = retire(i);
    }
    drop_(handle);
  }
}

Result<RegistrationCache::Lease> RegistrationCache::Impl::acquire(RegistrationCache* cache,
                                                                  std::span<std::byte> range,
                                                                  std::uint32_t rights) {
  if (range.empty()) return fail(Code::kInvalidArgument, "registering 0 bytes");
  std::int32_t slot = kNoSlot;
  if (caching()) {
    void* handle = nullptr;
    if (settle()) slot = find(range, rights, &handle);
    if (slot != kNoSlot) return Lease(cache, handle, slot);
    slot = begin_making(range, rights);
    // Watched before registered: what goes away in between marks the slot stale.
    if (slot != kNoSlot && !userfault_->watch(range)) {
      abandon(slot);
      slot = kNoSlot;
    }
  }
  const std::int64_t begun = now_ns();
  auto made = make_(range, rights);
  const auto spent = static_cast<std::uint64_t>(now_ns() - begun);
  if (!made) {
    abandon(slot);
    return tl::unexpected(std::move(made).error());
  }
  finish_making(slot, *made, spent);
  return Lease(cache, *made, slot);
}

// An address may have been unmapped by one thread and mapped anew by this one before the event of
// the first was even queued. So nothing is looked up while events are under way. The listener reads
// and marks under lock_: once an event is read, whoever gets the lock sees the marks.
bool RegistrationCache::Impl::settle() const {
  if (userfault_->settled()) return true;
  Deadline deadline = Deadline::after(std::chrono::milliseconds(10));
  while (!deadline.expired()) {
    ::sched_yield();
    if (userfault_->settled()) return true;
  }
  return false;
}

std::int32_t RegistrationCache::Impl::find(std::span<std::byte> range, std::uint32_t rights,
                                           void** handle) {
  std::uintptr_t start = start_of(range);
  std::uintptr_t end = start + range.size();
  std::int32_t found = kNoSlot;
  LockGuard lock(lock_);
  const Slot* slots = slots_.data();  // the analysis does not look into the lambda
  index_.visit_overlaps(start, end, [&](std::uint32_t id) {
    const Slot& slot = slots[id];
    bool covers = start_of(slot.range) <= start && start_of(slot.range) + slot.range.size() >= end;
    if (slot.state != Slot::State::kLive || !covers || (slot.rights & rights) != rights)
      return false;
    found = std::int32_t(id);
    return true;
  });
  if (found == kNoSlot) return kNoSlot;
  Slot& slot = slots_[std::uint32_t(found)];
  slot.leases += 1;
  slot.last_used = ++clock_;
  stats_.leases += 1;
  stats_.hits += 1;
  *handle = slot.handle;
  return found;
}

std::int32_t RegistrationCache::Impl::begin_making(std::span<std::byte> range,
                                                   std::uint32_t rights) {
  if (range.size() > options_.max_bytes) return kNoSlot;
  for (;;) {
    void* victim = nullptr;
    {
      LockGuard lock(lock_);
      if (!unused_.empty() && stats_.bytes + range.size() <= options_.max_bytes)
        return take_slot(range, rights);
      std::int32_t idle = least_recent_idle();
      if (idle == kNoSlot) return kNoSlot;
      victim = retire(std::uint32_t(idle));
      stats_.evicted += 1;
    }
    drop_(victim);
  }
}

std::int32_t RegistrationCache::Impl::take_slot(std::span<std::byte> range, std::uint32_t rights) {
  std::uint32_t id = unused_.back();
  unused_.pop_back();
  slots_[id] = {Slot::State::kMaking, rights, 1, range, nullptr, ++clock_};
  index_.insert(start_of(range), start_of(range) + range.size(), id);
  stats_.entries += 1;
  stats_.bytes += range.size();
  return std::int32_t(id);
}

void RegistrationCache::Impl::abandon(std::int32_t slot) {
  if (slot == kNoSlot) return;
  LockGuard lock(lock_);
  retire(std::uint32_t(slot));
}

void RegistrationCache::Impl::finish_making(std::int32_t id, void* handle, std::uint64_t spent_ns) {
  LockGuard lock(lock_);
  stats_.leases += 1;
  stats_.misses += 1;
  stats_.registering_ns += spent_ns;
  if (id == kNoSlot) return;
  Slot& slot = slots_[std::uint32_t(id)];
  slot.handle = handle;
  if (slot.state == Slot::State::kMaking) slot.state = Slot::State::kLive;
}

void RegistrationCache::Impl::release(void* handle, std::int32_t id) {
  {
    LockGuard lock(lock_);
    stats_.leases -= 1;
    if (id != kNoSlot) {
      Slot& slot = slots_[std::uint32_t(id)];
      slot.leases -= 1;
      if (slot.leases != 0 || slot.state != Slot::State::kStale) return;
      retire(std::uint32_t(id));
    }
  }
  drop_(handle);
}

// Linear, but only before a registration, which costs far more.
std::int32_t RegistrationCache::Impl::least_recent_idle() const {
  std::int32_t best = kNoSlot;
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.state == Slot::State::kUnused || slot.leases != 0) continue;
    if (best == kNoSlot || slot.last_used < slots_[std::uint32_t(best)].last_used)
      best = std::int32_t(i);
  }
  return best;
}

void RegistrationCache::Impl::mark_stale(std::uint32_t id) {
  Slot& slot = slots_[id];
  index_.erase(start_of(slot.range), id);
  slot.state = Slot::State::kStale;
  stats_.invalidated += 1;
}

void* RegistrationCache::Impl::retire(std::uint32_t id) {
  Slot& slot = slots_[id];
  if (slot.state != Slot::State::kStale) index_.erase(start_of(slot.range), id);
  stats_.entries -= 1;
  stats_.bytes -= slot.range.size();
  unused_.push_back(id);
  return std::exchange(slot, Slot{}).handle;
}

void RegistrationCache::Impl::listen() {
  pollfd fds[2] = {{userfault_->fd(), POLLIN, 0}, {stop_listening_.get(), POLLIN, 0}};
  for (;;) {
    // Sleeps until there is work: the one wait here that has no deadline.
    if (::poll(fds, 2, -1) < 0) continue;
    std::uint64_t rings = 0;
    if (::read(stop_listening_.get(), &rings, sizeof rings) > 0) {
      // Before anybody joins this thread: joining unmaps a stack, which may be watched memory.
      userfault_.reset();
      return;
    }
    take_events();
  }
}

void RegistrationCache::Impl::take_events() {
  bool any = false;
  {
    LockGuard lock(lock_);
    Userfault::Gone gone{};
    while (userfault_->read_event(&gone)) {
      for (;;) {
        std::int32_t hit = kNoSlot;
        index_.visit_overlaps(gone.start, gone.end, [&](std::uint32_t id) {
          hit = std::int32_t(id);
          return true;
        });
        if (hit == kNoSlot) break;
        mark_stale(std::uint32_t(hit));
        any = true;
      }
    }
  }
  if (any) ring(bell_);
}

// Drops what the listener marked, so that no pages stay pinned for the sake of a mapping long gone.
// Apart from the listener, because dropping may unmap memory.
void RegistrationCache::Impl::sweep() {
  std::uint64_t rings = 0;
  while (!stop_sweeping_) {
    if (::read(bell_.get(), &rings, sizeof rings) < 0) continue;
    while (drop_one_stale()) {
    }
  }
}

bool RegistrationCache::Impl::drop_one_stale() {
  void* handle = nullptr;
  {
    LockGuard lock(lock_);
    std::uint32_t i = 0;
    while (i < slots_.size() && (slots_[i].state != Slot::State::kStale || slots_[i].leases != 0))
      ++i;
    if (i == slots_.size()) return false;
    handle = retire(i);
  }
  drop_(handle);
  return true;
}

RegistrationCache::Stats RegistrationCache::Impl::stats() const {
  LockGuard lock(lock_);
  return stats_;
}

void RegistrationCache::Lease::end() {
  if (cache_ == nullptr) return;
  std::exchange(cache_, nullptr)->impl_->release(handle_, slot_);
}

RegistrationCache::RegistrationCache(const Options& options, Make make, Drop drop)
    : impl_(std::make_unique<Impl>(options, std::move(make), std::move(drop))) {}
RegistrationCache::~RegistrationCache() = default;
Result<RegistrationCache::Lease> RegistrationCache::acquire(std::span<std::byte> range,
                                                            std::uint32_t rights) {
  return impl_->acquire(this, range, rights);
}
bool RegistrationCache::caching() const { return impl_->caching(); }
const std::string& RegistrationCache::why_not() const { return impl_->why_not(); }
RegistrationCache::Stats RegistrationCache::stats() const { return impl_->stats(); }

}  // namespace ferry::memory
