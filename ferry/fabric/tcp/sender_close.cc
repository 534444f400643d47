#include <sys/socket.h>

#include "ferry/fabric/tcp/sender_internal.h"

namespace ferry::fabric::tcp {

namespace {
bool is_over(const Operation& op, std::int64_t now) {
  return op.cancel_asked() || now >= op.deadline().ns();
}
}  // namespace

void Sender::lock_sending() {
  std::uint32_t nobody = 0;
  for (int spins = 0; !kicks_.compare_exchange_weak(nobody, 1, std::memory_order_acq_rel);
       ++spins) {
    nobody = 0;
    pause_or_yield(spins);
  }
}

void Sender::unlock_sending() {
  // Whoever kicked meanwhile relies on us to look.
  if (kicks_.exchange(0, std::memory_order_acq_rel) > 1) kick(true);
}

void Sender::wait_until_quiet() {
  lock_sending();
  unlock_sending();
}

bool Sender::collect_expired(std::int64_t now, Chain& out) {
  lock_sending();
  {
    LockGuard<SpinLock> guard(queue_.lock);
    queue_.take_expired(is_over, now, out);
  }
  bool must_break = false;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    const Operation* op = batch_.frame(i).op;
    if (op != nullptr && is_over(*op, now)) must_break |= !give_up_frame(i, out);
  }
  for (auto id = window_.done() + 1; id <= window_.sent(); ++id) {
    Window::Entry& entry = window_.entry(id);
    if (!entry.open || entry.op == nullptr || !is_over(*entry.op, now)) continue;
    out.push(entry.op);
    entry.op = nullptr;
  }
  unlock_sending();
  return must_break;
}

bool Sender::give_up_frame(std::size_t index, Chain& out) {
  Frame& given = batch_.frame(index);
  bool begun = batch_.has_begun(index);
  // Half sent: the peer waits for the rest of the bytes, and only the lane's end lets go of them.
  bool stuck = begun && given.length != 0;
  if (!begun) {
    if (given.header.kind() == FrameType::kMessage) queue_.return_credit();
    batch_.blank(index);
    window_.entry(given.header.id).type = FrameType::kNop;
  }
  window_.entry(given.header.id).op = nullptr;
  out.push(given.op);
  given.op = nullptr;
  return !stuck;
}

void Sender::say_goodbye(Nanos given_up_after) {
  Header bye;
  bye.type = static_cast<std::uint8_t>(FrameType::kBye);
  bye.value = static_cast<std::uint64_t>(given_up_after / std::chrono::milliseconds(1));
  // Answers in the batch never leave: what they belong to is not done.
  if (batch_.empty()) stamp(bye, placed_.load(std::memory_order_acquire));
  [[maybe_unused]] auto sent = ::send(fd_, &bye, sizeof bye, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Sender::close(bool goodbye, Nanos given_up_after, Chain& out) {
  lock_sending();
  {
    LockGuard<SpinLock> guard(queue_.lock);
    queue_.close(out);
    if (goodbye && !batch_.has_begun(0) && fd_ >= 0) say_goodbye(given_up_after);
    queue_.forget_answers();
  }
  for (auto id = window_.done() + 1; id <= window_.last(); ++id) {
    Window::Entry& entry = window_.entry(id);
    if (entry.open && entry.op != nullptr) out.push(entry.op);
    entry.op = nullptr;
    entry.open = false;
  }
  window_.done_through(window_.last());
  batch_.clear();
  dead_.store(true, std::memory_order_relaxed);
  unlock_sending();
}

}  // namespace ferry::fabric::tcp
