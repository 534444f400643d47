// Data path.
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "ferry/fabric/fence_internal.h"
#include "ferry/fabric/sleepers_internal.h"

namespace ferry::fabric {

namespace {

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace

Status Sleepers::open() {
  event_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event_) return fail_errno(errno, "creating an eventfd");
  return {};
}

void Sleepers::drain_event() const {
  std::uint64_t drained = 0;
  [[maybe_unused]] auto got = ::read(event_.get(), &drained, sizeof drained);
}

void Sleepers::ring() const {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(event_.get(), &one, sizeof one);
}

void Sleepers::notify() {
  generation_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(generation_);
  ring();
}

void Sleepers::wake_after_progress(bool by_sleeper) {
  full_fence();  // what was completed, before the look at who sleeps: sleepers do the reverse
  wake_on_futex();
  if (!by_sleeper && in_epoll_.load(std::memory_order_relaxed) != 0) ring();
}

void Sleepers::wake_on_futex() {
  if (on_futex_.load(std::memory_order_seq_cst) == 0) return;
  generation_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(generation_);
}

void Sleepers::wait_for_generation(std::uint32_t seen, Nanos at_most) {
  timespec span{at_most.count() / 1'000'000'000, at_most.count() % 1'000'000'000};
  syscall(SYS_futex, &generation_, FUTEX_WAIT_PRIVATE, seen, &span, nullptr, 0);
}

void Sleepers::leave_epoll() {
  epoll_taken_.store(false, std::memory_order_seq_cst);
  wake_on_futex();  // one of them may take the place
}

Bell& Sleepers::announce() {
  Bell& bell = *bell_.load(std::memory_order_acquire);
  in_epoll_.fetch_add(1, std::memory_order_seq_cst);
  bell.flag_sleepers.fetch_add(1, std::memory_order_seq_cst);
  bell.any_sleepers.fetch_add(1, std::memory_order_seq_cst);
  return bell;
}

void Sleepers::retract(Bell& bell) {
  bell.any_sleepers.fetch_sub(1, std::memory_order_relaxed);
  bell.flag_sleepers.fetch_sub(1, std::memory_order_relaxed);
  in_epoll_.fetch_sub(1, std::memory_order_relaxed);
}

Bell& Sleepers::announce_poller() {
  Bell& bell = *bell_.load(std::memory_order_acquire);
  bell.any_sleepers.fetch_add(1, std::memory_order_seq_cst);
  return bell;
}

void Sleepers::announce_guest() {
  guests_.fetch_add(1, std::memory_order_relaxed);
  announce();
}

void Sleepers::retract_guest() {
  retract(*bell_.load(std::memory_order_acquire));
  guests_.fetch_sub(1, std::memory_order_relaxed);
}

void Sleepers::count_elsewhere(int delta) {
  bell_.load(std::memory_order_acquire)
      ->flag_sleepers.fetch_add(static_cast<std::uint32_t>(delta), std::memory_order_seq_cst);
}

void Sleepers::use_bell(Bell* bell, std::shared_ptr<const void> memory) {
  bell_.store(bell == nullptr ? &private_bell_ : bell);
  if (memory != nullptr) bell_memory_.push_back(std::move(memory));
}

}  // namespace ferry::fabric
