// Data path.
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "ferry/base/log.h"
#include "ferry/base/waiting.h"
#include "ferry/fabric/loop_internal.h"

namespace ferry::fabric {

namespace {

constexpr std::uint64_t kEventCookie = ~std::uint64_t{0};
constexpr int kMostEvents = 64;

void full_fence() {
#if defined(__x86_64__)
  asm volatile("lock; addq $0, (%%rsp)" ::: "memory", "cc");
#else
  __sync_synchronize();
#endif
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, Nanos limit) {
  timespec span{limit.count() / 1'000'000'000, limit.count() % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &span, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

// A wait may be shorter than epoll_wait()'s unit. Kernels before 5.11 know no other, and some
// sandboxes allow no other.
int epoll_for(int epoll, std::span<epoll_event> events, Nanos at_most) {
  const auto most = static_cast<int>(events.size());
  if (at_most.count() == 0) return epoll_wait(epoll, events.data(), most, 0);
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec time{at_most.count() / kSecond, at_most.count() % kSecond};
  const int count = epoll_pwait2(epoll, events.data(), most, &time, nullptr);
  if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
  return epoll_wait(epoll, events.data(), most,
                    static_cast<int>((at_most.count() + 999'999) / 1'000'000));
}

}  // namespace

// Asked once per process; a child of fork() inherits the registration.
const bool kHasMembarrier =
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;

void heavy_fence() {
  full_fence();
  if (kHasMembarrier) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

struct Loop::Watch {
  Source* source;
  std::uint64_t cookie;
  std::uint32_t number;  // of this watch: a later one of the same descriptor has another
};

Result<std::unique_ptr<Loop>> Loop::open(std::string name, Nanos spin, bool watches) {
  std::unique_ptr<Loop> loop(new Loop);
  loop->name_ = std::move(name);
  loop->set_spin(spin);
  loop->watches_only_ = watches;
  loop->epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!loop->epoll_) return fail_errno(errno, "creating the epoll of {}", loop->name_);
  loop->event_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->event_) return fail_errno(errno, "creating the eventfd of {}", loop->name_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kEventCookie;
  if (epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->event_.get(), &event) != 0)
    return fail_errno(errno, "watching the eventfd of {}", loop->name_);
  loop->poller_ = std::thread([raw = loop.get()] { raw->poller(); });
  return loop;
}

Loop::~Loop() {
  stop_.store(true, std::memory_order_relaxed);
  notify();
  if (poller_.joinable()) poller_.join();
  FERRY_ASSERT(sources_.empty(), "sources leave a loop before it is closed");
}

void Loop::use_bell(Bell* bell, std::shared_ptr<const void> memory) {
  with_token([&] {
    bell_.store(bell == nullptr ? &private_bell_ : bell);
    if (memory != nullptr) bell_memory_.push_back(std::move(memory));
  });
}

void Loop::take_token() {
  for (int spins = 0; !token_.try_take(); ++spins) pause_or_yield(spins);
}

void Loop::add(Source* source) {
  with_token([&] { sources_.push_back(source); });
  notify();
}

void Loop::remove(Source* source) {
  with_token([&] {
    std::erase(sources_, source);
    LockGuard<Mutex> guard(watch_lock_);
    for (auto& watch : watches_)
      if (watch != nullptr && watch->source == source) watch.reset();
  });
}

Status Loop::watch(int fd, std::uint32_t epoll_events, Source* source, std::uint64_t cookie) {
  LockGuard<Mutex> guard(watch_lock_);
  auto index = static_cast<std::size_t>(fd);
  if (watches_.size() <= index) watches_.resize(index + 1);
  bool known = watches_[index] != nullptr;
  // Events of before a change are as good as those after it.
  const auto number = known ? watches_[index]->number : ++last_watch_;
  watches_[index] = std::make_unique<Watch>(Watch{source, cookie, number});
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = std::uint64_t{number} << 32 | index;
  int how = known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (epoll_ctl(epoll_.get(), how, fd, &event) == 0) return {};
  // A descriptor that was closed and opened again under the same number is new to epoll.
  if (known && errno == ENOENT) {
    watches_[index]->number = ++last_watch_;
    event.data.u64 = std::uint64_t{last_watch_} << 32 | index;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  }
  int error = errno;
  watches_[index].reset();
  return fail_errno(error, "watching descriptor {} in {}", fd, name_);
}

void Loop::unwatch(int fd) {
  LockGuard<Mutex> guard(watch_lock_);
  auto index = static_cast<std::size_t>(fd);
  if (index >= watches_.size() || watches_[index] == nullptr) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watches_[index].reset();
}

int Loop::progress_holding_token() {
  int work = 0;
  // By index: a source may add sources.
  for (std::size_t i = 0; i < sources_.size(); ++i) work += sources_[i]->progress_on_loop();
  return work;
}

void Loop::tick_holding_token(std::int64_t now) {
  if (now - last_tick_ < waiting::kTick.count()) return;
  last_tick_ = now;
  for (std::size_t i = 0; i < sources_.size(); ++i)
    if (sources_[i]->has_pending()) sources_[i]->tick_on_loop(now);
}

int Loop::try_progress() {
  if (!token_.try_take()) return 0;
  int work = progress_holding_token();
  token_.give_back();
  if (work != 0) after_progress();
  return work;
}

void Loop::after_progress(bool by_sleeper) {
  full_fence();  // what was completed, before the look at who sleeps: sleepers do the reverse
  wake_futex_sleepers();
  // There is one at most. Rung by itself, it would not sleep again until its wait is over.
  if (!by_sleeper && epoll_sleepers_.load(std::memory_order_relaxed) != 0) ring();
  if (tell_others_.load(std::memory_order_relaxed) != 0) other_->notify();
}

void Loop::tell_others(bool on) {
  Bell& bell = *bell_.load(std::memory_order_relaxed);
  auto delta = on ? 1U : ~0U;
  tell_others_.fetch_add(delta, std::memory_order_seq_cst);
  bell.flag_sleepers.fetch_add(delta, std::memory_order_seq_cst);
}

void Loop::ring() {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(event_.get(), &one, sizeof one);
}

void Loop::notify() {
  generation_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(generation_);
  ring();
}

bool Loop::wait_until(InlineFunction<bool()> ready, Deadline deadline, WaitMode mode,
                      std::optional<Nanos> spin) {
  if (ready()) return true;
  waiters_.fetch_add(1, std::memory_order_relaxed);
  bool came = wait_here(ready, deadline, mode, spin.value_or(this->spin()));
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return came;
}

bool Loop::wait_here(InlineFunction<bool()>& ready, Deadline deadline, WaitMode mode, Nanos spin) {
  const bool adaptive = mode == WaitMode::kAdaptive;
  const bool brief =
      mode == WaitMode::kSleep ||
      (adaptive && vain_spins_.load(std::memory_order_relaxed) >= waiting::kVainSpins);
  SpinBudget budget(brief ? Nanos(0) : spin, adaptive, costly_.load(std::memory_order_relaxed));
  std::int64_t asked = 0;
  std::int64_t slept = 0;
  for (unsigned burst = 1;; ++burst) {
    for (int look = 0; look < waiting::kLooksPerBurst; ++look) {
      if (!ready()) continue;
      if (adaptive) learn(slept, brief);
      return true;
    }
    int work = work_now();
    note_user();
    if (burst % waiting::kBurstsPerClock == 0 ||
        (brief && burst % waiting::kBurstsBeforeSleep == 0)) {
      if (ready()) continue;
      auto now = now_ns();
      if (now >= deadline.ns()) return false;
      tick(now);
      if (starving_ != nullptr) starving_->help_if_starved(now);
      // Sources try what is hot by themselves; the rest is asked for now and then.
      if (asked == 0) asked = now;
      if (now - asked > waiting::kAskEpoll.count()) {
        asked = now;
        wait_for_events(Nanos(0));
      }
    }
    if (work != 0) continue;
    if (brief ? burst % waiting::kBurstsBeforeSleep != 0 : budget.spin_again()) continue;
    if (mode == WaitMode::kSpin) {
      budget.restart();
      continue;
    }
    if (slept == 0) slept = now_ns();
    sleep_once(ready, deadline);
    budget.restart();
  }
}

// A waiter whose spins are in vain, because what it waits for takes long, takes the core from those
// who would bring it. One that sleeps at once spins again when a sleep was as short as a spin.
void Loop::learn(std::int64_t slept, bool brief) {
  auto vain = vain_spins_.load(std::memory_order_relaxed);
  if (slept == 0) {
    if (vain != 0 && !brief) vain_spins_.store(0, std::memory_order_relaxed);
    return;
  }
  bool in_vain = now_ns() - slept > 2 * spin().count();
  vain = in_vain ? std::min(vain + 1, waiting::kVainSpins) : 0;
  vain_spins_.store(vain, std::memory_order_relaxed);
}

void Loop::tick(std::int64_t now) {
  if (now - last_tick_seen_.load(std::memory_order_relaxed) < waiting::kTick.count()) return;
  last_tick_seen_.store(now, std::memory_order_relaxed);
  if (!token_.try_take()) return;
  tick_holding_token(now);
  token_.give_back();
  // Whether or not anything has ended: who sleeps in an event loop of its own looks once more, so
  // that a ring that another thread has taken costs it a tick and no more.
  after_progress();
}

void Loop::help_if_starved(std::int64_t now) {
  const auto ticked = last_tick_seen_.load(std::memory_order_relaxed);
  const auto looked = last_look_.load(std::memory_order_relaxed);
  if (now - std::min(ticked, looked) < waiting::kStarved.count()) return;
  last_tick_seen_.store(now, std::memory_order_relaxed);
  last_look_.store(now, std::memory_order_relaxed);
  if (!token_.try_take()) return;
  epoll_event events[kMostEvents];
  const int count = epoll_for(epoll_.get(), events, Nanos(0));
  for (int i = 0; i < count; ++i) handle(events[i].data.u64, events[i].events);
  progress_holding_token();
  tick_holding_token(now);
  token_.give_back();
  after_progress();
}

bool Loop::nothing_to_do(bool poller) {
  take_token();
  for (std::size_t i = 0; i < sources_.size(); ++i) sources_[i]->arm_on_loop(poller);
  int work = progress_holding_token();
  token_.give_back();
  if (work != 0) after_progress(!poller);
  return work == 0;
}

void Loop::sleep_once(InlineFunction<bool()>& ready, Deadline deadline) {
  if (sleeper_taken_.exchange(true, std::memory_order_acquire)) {
    // Somebody sleeps in epoll already; whoever makes progress wakes us through the generation.
    auto seen = generation_.load(std::memory_order_seq_cst);
    futex_sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (!ready() && sleeper_taken_.load(std::memory_order_seq_cst))
      futex_wait(generation_, seen, std::min(deadline.left(), waiting::kLongestSleep));
    futex_sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  Bell& bell = *bell_.load(std::memory_order_relaxed);
  epoll_sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bell.flag_sleepers.fetch_add(1, std::memory_order_seq_cst);
  bell.any_sleepers.fetch_add(1, std::memory_order_seq_cst);
  wake_futex_sleepers();  // a flag for one of them may have come before the bell was raised
  if (nothing_to_do(false) && !ready()) {
    const Nanos limit = pending() ? waiting::kTick : waiting::kLongestSleep;
    wait_for_events(std::min(deadline.left(), limit), true);
  }
  bell.any_sleepers.fetch_sub(1, std::memory_order_relaxed);
  bell.flag_sleepers.fetch_sub(1, std::memory_order_relaxed);
  epoll_sleepers_.fetch_sub(1, std::memory_order_relaxed);
  sleeper_taken_.store(false, std::memory_order_seq_cst);
  wake_futex_sleepers();
}

bool Loop::arm() {
  Bell& bell = *bell_.load(std::memory_order_relaxed);
  guests_.fetch_add(1, std::memory_order_relaxed);
  epoll_sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bell.flag_sleepers.fetch_add(1, std::memory_order_seq_cst);
  bell.any_sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (nothing_to_do(false)) return true;
  disarm();
  return false;
}

void Loop::disarm() {
  Bell& bell = *bell_.load(std::memory_order_relaxed);
  bell.any_sleepers.fetch_sub(1, std::memory_order_relaxed);
  bell.flag_sleepers.fetch_sub(1, std::memory_order_relaxed);
  epoll_sleepers_.fetch_sub(1, std::memory_order_relaxed);
  guests_.fetch_sub(1, std::memory_order_relaxed);
}

void Loop::wake_futex_sleepers() {
  if (futex_sleepers_.load(std::memory_order_seq_cst) == 0) return;
  generation_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(generation_);
}

bool Loop::pending() {
  take_token();
  bool any = std::any_of(sources_.begin(), sources_.end(),
                         [](Source* source) { return source->has_pending(); });
  token_.give_back();
  return any;
}

int Loop::work_now() {
  if (watches_only_) return wait_for_events(Nanos(0));
  int work = ask_always_.load(std::memory_order_relaxed) ? wait_for_events(Nanos(0)) : 0;
  return work != 0 ? work : try_progress();
}

int Loop::wait_for_events(Nanos at_most, bool by_sleeper) {
  epoll_event events[kMostEvents];
  int count = epoll_for(epoll_.get(), events, at_most);
  if (count <= 0) {
    last_look_.store(now_ns(), std::memory_order_relaxed);
    return 0;
  }
  // A rung bell counts as work: a flag may have been stored for a waiter on another loop.
  int work = with_token([&] {
    for (int i = 0; i < count; ++i) handle(events[i].data.u64, events[i].events);
    return progress_holding_token() + static_cast<int>(tell_others_.load());
  });
  // Not before: a thread that has taken events and gets no processor has not seen to them.
  last_look_.store(now_ns(), std::memory_order_relaxed);
  if (watches_only_) work += count;
  after_progress(by_sleeper);  // the event may have been for another thread that sleeps
  return work;
}

void Loop::handle(std::uint64_t which, std::uint32_t events) {
  if (which == kEventCookie) {
    std::uint64_t drained = 0;
    [[maybe_unused]] auto got = ::read(event_.get(), &drained, sizeof drained);
    return;
  }
  // Another thread, or an event before this one, may have closed the descriptor, and watched a new
  // one that has its number.
  const auto index = which & 0xffff'ffffU;
  Watch found{nullptr, 0, 0};
  {
    LockGuard<Mutex> guard(watch_lock_);
    if (index < watches_.size() && watches_[index] != nullptr &&
        watches_[index]->number == which >> 32)
      found = *watches_[index];
  }
  if (found.source != nullptr) found.source->ready_on_loop(found.cookie, events);
}

// Questions come in series: after the second, the next one is answered without a wake-up.
void Loop::linger() {
  SpinBudget budget(spin() * 2, true);
  for (int answered = 0; answered < waiting::kMostSeries && budget.spin_again();) {
    if (wait_for_events(Nanos(0)) == 0) continue;
    tick(now_ns());  // a peer that never stops asking must not hold up deadlines
    ++answered;
    budget.restart();
  }
}

// A user thread makes the progress, as soon as it gets a core: stay out of its way, and look again
// soon. If it gets none for long, what has come is seen to here: peers wait for answers. A guest
// may be busy with other things for long: then what has come is seen to here, and the guest is rung
// again.
bool Loop::leave_to_users(std::uint32_t& users_before) {
  auto users = users_.load(std::memory_order_relaxed);
  const bool inside =
      waiters_.load(std::memory_order_relaxed) != 0 || std::exchange(users_before, users) != users;
  const bool guest = guests_.load(std::memory_order_relaxed) != 0;
  if (!inside && !guest) return false;
  std::this_thread::sleep_for(inside ? waiting::kPollerAway : waiting::kPollerAwayFromGuest);
  if (inside) {
    help_if_starved(now_ns());
  } else {
    wait_for_events(Nanos(0));
  }
  return true;
}

void Loop::poller() {
  ::prctl(PR_SET_NAME, name_.c_str());
  std::uint32_t users_before = users_.load(std::memory_order_relaxed);
  std::int64_t answered = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    tick(now_ns());
    if (leave_to_users(users_before)) continue;
    Bell& bell = *bell_.load(std::memory_order_relaxed);
    bell.any_sleepers.fetch_add(1, std::memory_order_seq_cst);
    int work = 0;
    if (nothing_to_do(true))
      work = wait_for_events(pending() ? waiting::kTick : waiting::kPollerIdle);
    if (work != 0 && watches_only_) {
      if (now_ns() - answered < waiting::kSeries.count()) linger();
      answered = now_ns();
    }
    bell.any_sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace ferry::fabric
