// Data path.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ferry/fabric/tcp/sender_internal.h"

namespace ferry::fabric::tcp {

namespace {
// Stands in for bytes that were promised before their grant was revoked. Never written: it costs
// address space alone.
std::byte zeros[kMaxPart];

// A request that follows word of its own within this time would have carried it.
constexpr std::int64_t kRideNs = 20'000;

}  // namespace

Sender::Sender(const GrantTable& grants, Window& window, const Inbox& inbox)
    : grants_(grants), window_(window), inbox_(inbox), answers_(new Answer[kWindow]) {}

Sender::~Sender() = default;

bool Sender::queue(Operation* op, bool late) {
  LockGuard<SpinLock> guard(lock_);
  if (closed_) return false;
  op->scratch<Job>().queue_number = ++last_queued_;
  requests_.push(op);
  if (late) late_.store(late_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  backlog_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool Sender::queue(Answer&& answer) {
  LockGuard<SpinLock> guard(lock_);
  if (answers_tail_ - answers_head_ == kWindow) return false;
  answers_[answers_tail_++ % kWindow] = std::move(answer);
  backlog_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

std::uint64_t Sender::debt() const {
  auto requests = placed_.load(std::memory_order_relaxed) - told_.load(std::memory_order_relaxed);
  std::uint32_t messages = inbox_.taken() - told_taken_.load(std::memory_order_relaxed);
  return requests + messages;
}

bool Sender::starves_peer() const {
  return inbox_.arrived() - told_taken_.load(std::memory_order_relaxed) >= kMessageCredits / 2;
}

Sender::Outcome Sender::pay_debt() {
  word_wanted_.store(true, std::memory_order_relaxed);
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
    fill();
    if (count_ == 0) return sent == 0 ? Outcome::kIdle : Outcome::kSent;
    std::uint64_t bytes = 0;
    auto done = transmit(bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) {
      // The receiving half sees the end of the stream and takes the lane down.
      dead_.store(true, std::memory_order_relaxed);
      ::shutdown(fd_, SHUT_RDWR);
      return Outcome::kDead;
    }
    if (done > 0) advance(static_cast<std::uint64_t>(done));
    if (done < 0 || static_cast<std::uint64_t>(done) < bytes) {
      blocked_.store(true, std::memory_order_relaxed);
      return Outcome::kBlocked;
    }
    sent += bytes;
  }
  return Outcome::kMore;
}

ssize_t Sender::transmit(std::uint64_t& bytes) {
  if (offset_ == 0 && batched_ <= kFlat && !has_read_part()) {
    // Laying out tiny frames flat costs less than a call that gathers parts.
    std::array<std::byte, kFlat> flat;
    for (std::size_t i = 0; i < count_; ++i) {
      const Frame& tiny = frame(i);
      std::memcpy(flat.data() + bytes, &tiny.header, kHeaderBytes);
      if (tiny.length != 0)
        std::memcpy(flat.data() + bytes + kHeaderBytes, tiny.payload, tiny.length);
      bytes += tiny.total();
    }
    return ::send(fd_, flat.data(), bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  std::array<iovec, 2 * kBatch> parts;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = gather(parts, bytes);
  return ::sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Whose grant has to be looked at once more before its bytes leave.
bool Sender::has_read_part() {
  for (std::size_t i = 0; i < count_; ++i)
    if (frame(i).header.kind() == FrameType::kReadPart) return true;
  return false;
}

void Sender::fill() {
  // Before the look at the answers: one that is queued by then was queued before this was stored.
  auto placed = placed_.load(std::memory_order_acquire);
  LockGuard<SpinLock> guard(lock_);
  late_.store(0, std::memory_order_relaxed);  // whatever does not leave now is in no way special
  bool room = true;
  while (room && count_ < kBatch && batched_ < kBurst) {
    room = answers_first_ ? fill_answer(placed) || fill_request(placed)
                          : fill_request(placed) || fill_answer(placed);
    answers_first_ = !answers_first_;
  }
  if (word_wanted_.load(std::memory_order_relaxed)) {
    if (count_ == 0) fill_word(placed);
    word_wanted_.store(false, std::memory_order_relaxed);
  }
}

void Sender::stamp(Header& header, std::uint64_t placed) {
  // Nothing that comes after an unsent answer is done as far as the peer is concerned.
  header.done = answers_head_ == answers_tail_ ? placed : answers_[answers_head_ % kWindow].id - 1;
  header.taken = inbox_.taken();
  if (header.done > told_.load(std::memory_order_relaxed))
    told_.store(header.done, std::memory_order_relaxed);
  told_taken_.store(header.taken, std::memory_order_relaxed);
}

Sender::Frame& Sender::add_frame(FrameType type, std::uint64_t placed) {
  Frame& added = frame(count_++);
  added.header = Header{};
  added.header.type = static_cast<std::uint8_t>(type);
  added.payload = nullptr;
  added.length = 0;
  added.op = nullptr;
  added.reason.reset();
  stamp(added.header, placed);
  return added;
}

bool Sender::has_credit(Operation* op) const {
  return op->verb() != Verb::kMessage ||
         messages_ - peer_taken_.load(std::memory_order_acquire) < kMessageCredits;
}

Operation* Sender::next_request() {
  if (Operation* held = held_.head; held != nullptr && has_credit(held)) {
    // What was posted before it and has gone ahead so far goes ahead to the end.
    Operation* other = requests_.head;
    if (other == nullptr || held->scratch<Job>().queue_number < other->scratch<Job>().queue_number)
      return held_.pop();
  }
  while (Operation* op = requests_.pop()) {
    bool ordered = op->verb() == Verb::kMessage || (op->scratch<Job>().header.bits & kFlagged) != 0;
    if (!ordered || (held_.head == nullptr && has_credit(op))) return op;
    held_.push(op);
  }
  return nullptr;
}

bool Sender::fill_request(std::uint64_t placed) {
  if (!window_.has_room()) return false;
  Operation* op = next_request();
  if (op == nullptr) return false;
  backlog_.fetch_sub(1, std::memory_order_relaxed);
  if (op->verb() == Verb::kMessage) ++messages_;
  note_ride(placed);
  const Job& job = op->scratch<Job>();
  Frame& added = add_frame(job.header.kind(), placed);
  auto done = added.header.done;
  auto taken = added.header.taken;
  added.header = job.header;
  added.header.done = done;
  added.header.taken = taken;
  added.header.id = window_.insert(op, job.header, job.local);
  added.payload = job.local;
  added.length = payload_of(job.header);
  added.op = op;
  batched_ += added.total();
  return true;
}

void Sender::note_ride(std::uint64_t placed) {
  if (placed > told_.load(std::memory_order_relaxed)) {
    rides_.store(true, std::memory_order_relaxed);
  } else if (word_at_ != 0 && now_ns() - word_at_ < kRideNs) {
    rides_.store(true, std::memory_order_relaxed);
  }
  word_at_ = 0;
}

void Sender::fill_word(std::uint64_t placed) {
  batched_ += add_frame(FrameType::kAck, placed).total();
  rides_.store(false, std::memory_order_relaxed);
  word_at_ = now_ns();
}

bool Sender::fill_answer(std::uint64_t placed) {
  if (answers_head_ == answers_tail_) return false;
  Answer& answer = answers_[answers_head_ % kWindow];
  bool more = answer.type == FrameType::kReadPart && answer.sent < answer.length;
  if (answer.type == FrameType::kReadPart && !grants_.stands(answer.key, answer.epoch)) {
    answer.type = FrameType::kRefusal;
    answer.reason =
        fail(Code::kFailedPrecondition, "the grant {:#x} was revoked while it was read", answer.key)
            .value();
    more = false;
  }
  auto type = answer.type == FrameType::kReadPart && !more ? FrameType::kReadEnd : answer.type;
  Frame& added = add_frame(type, placed);
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
    added.header.value = answer.value;
    if (type == FrameType::kReadEnd) {
      added.header.key = answer.key;  // in case it must still become a refusal
    } else if (answer.reason) {
      added.reason = std::move(answer.reason);
      answer.reason.reset();
      added.header.code = static_cast<std::uint16_t>(added.reason->code());
      added.length = std::min<std::uint64_t>(added.reason->message().size(), kMaxReason);
      added.header.length = added.length;
      added.payload = reinterpret_cast<const std::byte*>(added.reason->message().data());
    }
    ++answers_head_;
    backlog_.fetch_sub(1, std::memory_order_relaxed);
    if (answer.id > told_.load(std::memory_order_relaxed))
      told_.store(answer.id, std::memory_order_relaxed);
  }
  batched_ += added.total();
  return true;
}

std::size_t Sender::gather(std::array<iovec, 2 * kBatch>& out, std::uint64_t& bytes) {
  std::size_t parts = 0;
  for (std::size_t i = 0; i < count_ && bytes < kBurst; ++i) {
    if (frame(i).header.kind() == FrameType::kReadPart) withdraw_revoked(i);
    Frame& next = frame(i);
    std::uint64_t skip = i == 0 ? offset_ : 0;
    if (skip < kHeaderBytes) {
      out[parts++] = {reinterpret_cast<std::byte*>(&next.header) + skip, kHeaderBytes - skip};
      bytes += kHeaderBytes - skip;
      skip = kHeaderBytes;
    }
    skip -= kHeaderBytes;
    auto take = std::min(next.length - skip, kBurst);
    if (take == 0) continue;
    out[parts++] = {const_cast<std::byte*>(next.payload) + skip, take};
    bytes += take;
  }
  return parts;
}

void Sender::withdraw_revoked(std::size_t index) {
  Frame& part = frame(index);
  if (part.payload == zeros || grants_.stands(part.header.key, part.header.epoch)) return;
  // The length is promised: zeros keep it. What follows says that they are not the bytes.
  part.payload = zeros;
  for (std::size_t i = index + 1; i < count_; ++i) {
    Frame& later = frame(i);
    if (later.header.kind() != FrameType::kReadEnd || later.header.id != part.header.id) continue;
    later.header.type = static_cast<std::uint8_t>(FrameType::kRefusal);
    later.header.code = static_cast<std::uint16_t>(Code::kFailedPrecondition);
  }
}

void Sender::advance(std::uint64_t bytes) {
  // Operations that were sent to their last byte may have ended by now: they are not touched.
  std::uint64_t sent = 0;
  while (bytes != 0) {
    Frame& front = frame(0);
    auto left = front.total() - offset_;
    if (bytes < left) {
      offset_ += bytes;
      break;
    }
    bytes -= left;
    offset_ = 0;
    batched_ -= front.total();
    if (is_request(front.header.kind())) sent = front.header.id;
    front.op = nullptr;
    first_ = (first_ + 1) % kBatch;
    --count_;
  }
  if (sent != 0) window_.sent_through(sent);
}

}  // namespace ferry::fabric::tcp
