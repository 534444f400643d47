// Data path.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ferry/fabric/tcp/sender_internal.h"

namespace ferry::fabric::tcp {

namespace {
// A request that leaves so soon after a frame of acknowledgements would have carried them.
constexpr std::int64_t kRideNs = 20'000;

}  // namespace

Sender::Sender(const GrantTable& grants, Window& window, const Inbox& inbox)
    : grants_(grants), window_(window), inbox_(inbox), batch_(grants) {}

std::uint64_t Sender::debt() const {
  auto requests = placed_.load(std::memory_order_relaxed) - told_.load(std::memory_order_relaxed);
  std::uint32_t messages = inbox_.taken() - told_taken_.load(std::memory_order_relaxed);
  return requests + messages;
}

bool Sender::starves_peer() const {
  return inbox_.arrived() - told_taken_.load(std::memory_order_relaxed) >= kMessageCredits / 2;
}

Sender::Outcome Sender::pay_debt() {
  ack_wanted_.store(true, std::memory_order_relaxed);
  return kick(false);
}

bool Sender::was_sent(std::uint64_t id) const {
  if (id > window_.last()) return false;
  for (int spins = 0; window_.sent() < id; pause_or_yield(spins++))
    if (kicks_.load(std::memory_order_acquire) == 0) return window_.sent() >= id;
  return true;
}

Sender::Outcome Sender::kick(bool blocked_too) {
  // Whoever unblocks the socket looks at the queues after it has said so.
  if (!blocked_too && blocked()) return Outcome::kBlocked;
  if (kicks_.fetch_add(1, std::memory_order_acq_rel) != 0) return Outcome::kBusy;
  std::uint32_t seen = 1;
  for (;;) {
    auto outcome = pump();
    if (outcome == Outcome::kMore) {
      kicks_.store(0, std::memory_order_release);  // the loop goes on, for all who kicked
      return outcome;
    }
    if (kicks_.compare_exchange_strong(seen, 0, std::memory_order_acq_rel)) return outcome;
  }
}

Sender::Outcome Sender::pump() {
  blocked_.store(false, std::memory_order_relaxed);
  for (std::uint64_t sent = 0; sent < kBudget;) {
    if (dead_.load(std::memory_order_relaxed)) return Outcome::kDead;
    fill_batch();
    if (batch_.empty()) return sent == 0 ? Outcome::kIdle : Outcome::kSent;
    std::uint64_t bytes = 0;
    auto done = batch_.send(fd_, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) {
      // The receiving half sees the end of the stream and takes the lane down.
      dead_.store(true, std::memory_order_relaxed);
      ::shutdown(fd_, SHUT_RDWR);
      return Outcome::kDead;
    }
    if (done > 0) {
      if (auto id = batch_.advance(static_cast<std::uint64_t>(done)); id != 0)
        window_.sent_through(id);
    }
    if (done < 0 || static_cast<std::uint64_t>(done) < bytes) {
      blocked_.store(true, std::memory_order_relaxed);
      return Outcome::kBlocked;
    }
    sent += bytes;
  }
  return Outcome::kMore;
}

void Sender::fill_batch() {
  // Before the look at the answers: one that is queued by then was queued before this was stored.
  auto placed = placed_.load(std::memory_order_acquire);
  LockGuard<SpinLock> guard(queue_.lock);
  queue_.forget_late();
  bool room = true;
  while (room && batch_.has_room()) {
    room = answers_first_ ? add_answer(placed) || add_request(placed)
                          : add_request(placed) || add_answer(placed);
    answers_first_ = !answers_first_;
  }
  if (ack_wanted_.load(std::memory_order_relaxed)) {
    if (batch_.empty()) add_ack(placed);
    ack_wanted_.store(false, std::memory_order_relaxed);
  }
}

void Sender::stamp(Header& header, std::uint64_t placed) {
  // Nothing that comes after an unsent answer is done as far as the peer is concerned.
  const Answer* unsent = queue_.first_answer();
  header.done = unsent == nullptr ? placed : unsent->id - 1;
  header.taken = inbox_.taken();
  if (header.done > told_.load(std::memory_order_relaxed))
    told_.store(header.done, std::memory_order_relaxed);
  told_taken_.store(header.taken, std::memory_order_relaxed);
}

bool Sender::add_request(std::uint64_t placed) {
  if (!window_.has_room()) return false;
  Operation* op = queue_.take_request();
  if (op == nullptr) return false;
  update_rides(placed);
  const Job& job = op->scratch<Job>();
  Frame& added = batch_.add(job.header.kind());
  added.header = job.header;
  stamp(added.header, placed);
  added.header.id = window_.insert(op, job.header, job.local);
  added.payload = job.local;
  added.length = payload_of(job.header);
  added.op = op;
  batch_.commit(added);
  return true;
}

void Sender::update_rides(std::uint64_t placed) {
  if (placed > told_.load(std::memory_order_relaxed)) {
    rides_.store(true, std::memory_order_relaxed);
  } else if (ack_sent_at_ != 0 && now_ns() - ack_sent_at_ < kRideNs) {
    rides_.store(true, std::memory_order_relaxed);
  }
  ack_sent_at_ = 0;
}

void Sender::add_ack(std::uint64_t placed) {
  Frame& ack = batch_.add(FrameType::kAck);
  stamp(ack.header, placed);
  batch_.commit(ack);
  rides_.store(false, std::memory_order_relaxed);
  ack_sent_at_ = now_ns();
}

bool Sender::add_answer(std::uint64_t placed) {
  Answer* next = queue_.first_answer();
  if (next == nullptr) return false;
  Answer& answer = *next;
  bool more = answer.type == FrameType::kReadPart && answer.sent < answer.length;
  if (answer.type == FrameType::kReadPart && !grants_.stands(answer.key, answer.epoch)) {
    answer.type = FrameType::kRefusal;
    answer.reason =
        fail(Code::kFailedPrecondition, "the grant {:#x} was revoked while it was read", answer.key)
            .value();
    more = false;
  }
  auto type = answer.type == FrameType::kReadPart && !more ? FrameType::kReadEnd : answer.type;
  Frame& added = batch_.add(type);
  stamp(added.header, placed);
  added.header.id = answer.id;
  if (more) {
    added.length = std::min(answer.length - answer.sent, kMaxPart);
    added.payload = answer.from + answer.sent;
    added.header.key = answer.key;
    added.header.epoch = answer.epoch;
    added.header.offset = answer.sent;
    added.header.length = added.length;
    answer.sent += added.length;
  } else {
    end_answer(answer, added);
    queue_.remove_answer();
  }
  batch_.commit(added);
  return true;
}

void Sender::end_answer(Answer& answer, Frame& last) {
  last.header.value = answer.value;
  if (last.header.kind() == FrameType::kReadEnd) {
    last.header.key = answer.key;  // in case it must still become a refusal
  } else if (answer.reason) {
    last.reason = std::move(answer.reason);
    answer.reason.reset();
    last.header.code = static_cast<std::uint16_t>(last.reason->code());
    last.length = std::min<std::uint64_t>(last.reason->message().size(), kMaxReason);
    last.header.length = last.length;
    last.payload = reinterpret_cast<const std::byte*>(last.reason->message().data());
  }
  if (answer.id > told_.load(std::memory_order_relaxed))
    told_.store(answer.id, std::memory_order_relaxed);
}

}  // namespace ferry::fabric::tcp
