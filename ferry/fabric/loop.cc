// Data path.
#include <sys/epoll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <span>

#include "ferry/base/log.h"
#include "ferry/base/waiting.h"
#include "ferry/fabric/loop_internal.h"

namespace ferry::fabric {

namespace {

constexpr int kMostEvents = 64;

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

Result<std::unique_ptr<Loop>> Loop::open(std::string name, Nanos spin, bool watches) {
  std::unique_ptr<Loop> loop(new Loop);
  loop->name_ = std::move(name);
  loop->set_spin(spin);
  loop->watches_only_ = watches;
  loop->epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!loop->epoll_) return fail_errno(errno, "creating the epoll of {}", loop->name_);
  FERRY_TRY(loop->sleepers_.open());
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = WatchTable::kNoWatch;
  if (epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->event_fd(), &event) != 0)
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
  with_token([&] { sleepers_.use_bell(bell, std::move(memory)); });
}

void Loop::add(Source* source) {
  with_token([&] { sources_.add(source); });
  notify();
}

void Loop::remove(Source* source) {
  with_token([&] {
    sources_.remove(source);
    watches_.remove_all_of(source);
  });
}

int Loop::try_progress() {
  if (!token_.try_take()) return 0;
  int work = sources_.progress();
  token_.give_back();
  if (work != 0) after_progress();
  return work;
}

void Loop::after_progress(bool by_sleeper) {
  sleepers_.wake_after_progress(by_sleeper);
  if (tell_others_.load(std::memory_order_relaxed) != 0) other_->notify();
}

void Loop::tell_others(bool on) {
  tell_others_.fetch_add(on ? 1U : ~0U, std::memory_order_seq_cst);
  sleepers_.count_elsewhere(on ? 1 : -1);
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
  const bool brief = mode == WaitMode::kSleep || (adaptive && habit_.sleeps_at_once());
  SpinBudget budget(brief ? Nanos(0) : spin, adaptive, costly_.load(std::memory_order_relaxed));
  std::int64_t asked = 0;
  std::int64_t slept = 0;
  for (unsigned burst = 1;; ++burst) {
    for (int look = 0; look < waiting::kLooksPerBurst; ++look) {
      if (!ready()) continue;
      if (adaptive) habit_.learn(slept, brief, this->spin());
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

void SpinHabit::learn(std::int64_t slept_at, bool brief, Nanos spin) {
  auto vain = vain_.load(std::memory_order_relaxed);
  if (slept_at == 0) {
    if (vain != 0 && !brief) vain_.store(0, std::memory_order_relaxed);
    return;
  }
  const bool in_vain = now_ns() - slept_at > 2 * spin.count();
  vain_.store(in_vain ? std::min(vain + 1, waiting::kVainSpins) : 0, std::memory_order_relaxed);
}

void Loop::tick(std::int64_t now) {
  if (now - last_tick_seen_.load(std::memory_order_relaxed) < waiting::kTick.count()) return;
  last_tick_seen_.store(now, std::memory_order_relaxed);
  if (!token_.try_take()) return;
  sources_.tick(now);
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
  handle_on_loop(std::span(events, static_cast<std::size_t>(std::max(count, 0))));
  sources_.progress();
  sources_.tick(now);
  token_.give_back();
  after_progress();
}

bool Loop::nothing_to_do(bool poller) {
  const int work = with_token([&] {
    sources_.arm(poller);
    return sources_.progress();
  });
  if (work != 0) after_progress(!poller);
  return work == 0;
}

Nanos Loop::longest_sleep(Nanos idle) {
  return with_token([&] { return sources_.any_pending(); }) ? waiting::kTick : idle;
}

void Loop::sleep_once(InlineFunction<bool()>& ready, Deadline deadline) {
  // Whoever makes progress wakes those who sleep on the futex, since somebody sleeps in epoll.
  if (!sleepers_.try_take_epoll())
    return sleepers_.sleep_on_futex(ready, std::min(deadline.left(), waiting::kLongestSleep));
  Bell& bell = sleepers_.announce();
  sleepers_.wake_on_futex();  // a flag for one of them may have come before the bell was raised
  if (nothing_to_do(false) && !ready())
    wait_for_events(std::min(deadline.left(), longest_sleep(waiting::kLongestSleep)), true);
  sleepers_.retract(bell);
  sleepers_.leave_epoll();
}

bool Loop::arm() {
  sleepers_.announce_guest();
  if (nothing_to_do(false)) return true;
  disarm();
  return false;
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
    handle_on_loop(std::span(events, static_cast<std::size_t>(count)));
    return sources_.progress() + static_cast<int>(tell_others_.load());
  });
  // Not before: a thread that has taken events and gets no processor has not seen to them.
  last_look_.store(now_ns(), std::memory_order_relaxed);
  if (watches_only_) work += count;
  after_progress(by_sleeper);  // the event may have been for another thread that sleeps
  return work;
}

void Loop::handle_on_loop(std::span<const epoll_event> events) {
  for (const auto& event : events) {
    if (event.data.u64 == WatchTable::kNoWatch) {
      sleepers_.drain_event();
    } else {
      watches_.dispatch(event.data.u64, event.events);
    }
  }
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
  const bool guest = sleepers_.has_guest();
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
    Bell& bell = sleepers_.announce_poller();
    int work = 0;
    if (nothing_to_do(true)) work = wait_for_events(longest_sleep(waiting::kPollerIdle));
    if (work != 0 && watches_only_) {
      if (now_ns() - answered < waiting::kSeries.count()) linger();
      answered = now_ns();
    }
    sleepers_.retract_poller(bell);
  }
}

}  // namespace ferry::fabric
