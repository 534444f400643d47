// Data path.
#include <algorithm>
#include <cstring>

#include "ferry/fabric/shm/stream_internal.h"

namespace ferry::fabric::shm {

struct StreamSender::Scratch {
  std::uint64_t number;
  std::byte* local;
  std::uint64_t length;
  std::uint64_t moved;  // bytes put (writes) or received (reads)
  RemoteRegion remote;
  std::uint64_t offset;
  Flag flag;
  std::uint64_t operand;  // then what the atomic found
  std::uint64_t compare;
  std::int64_t began;  // when it was asked for; 0: not measured
  bool flagged;
  bool begun;  // the request is in the ring

  bool whole(Verb verb) const { return begun && (verb != Verb::kWrite || moved == length); }
  std::uint64_t piece() const { return piece_of(length); }
};

void StreamSender::List::push(Operation* op) {
  op->next = nullptr;
  (first == nullptr ? first : last->next) = op;
  last = op;
}

Operation* StreamSender::List::pop() {
  Operation* op = first;
  if (op != nullptr) first = std::exchange(op->next, nullptr);
  return op;
}

void StreamSender::List::remove(Operation* op) {
  List kept;
  while (Operation* each = pop())
    if (each != op) kept.push(each);
  *this = kept;
}

void StreamSender::Ended::finish() {
  while (Operation* op = well.pop()) {
    auto value = op->scratch<Scratch>().operand;
    op->finish({}, value);
  }
  for (auto& [op, error] : badly) op->finish(tl::unexpected<Error>(error));
}

bool StreamSender::add(Operation* op, const Request& request) {
  Scratch& mine = *new (&op->scratch<Scratch>()) Scratch{};
  mine.local = request.local;
  mine.length = request.length;
  mine.remote = request.remote;
  mine.offset = request.offset;
  mine.operand = request.operand;
  mine.compare = request.compare;
  mine.began = request.verb == Verb::kRead && request.length >= CopyMethods::kLeast ? now_ns() : 0;
  mine.flagged = request.flag != nullptr;
  if (mine.flagged) mine.flag = *request.flag;
  LockGuard<SpinLock> guard(lock_);
  if (closed_) return false;
  mine.number = issued_.load(std::memory_order_relaxed) + 1;
  issued_.store(mine.number, std::memory_order_release);
  added_.push(op);
  has_added_.store(true, std::memory_order_release);
  return true;
}

void StreamSender::take_added() {
  if (!has_added_.load(std::memory_order_acquire)) return;
  LockGuard<SpinLock> guard(lock_);
  has_added_.store(false, std::memory_order_relaxed);
  while (Operation* op = added_.pop()) {
    taken_ = op->scratch<Scratch>().number;
    to_send_.push(op);
  }
}

Result<int> StreamSender::pump() {
  int total = 0;
  do {
    if (!token_.try_take()) return total;
    take_added();
    auto count = put();
    token_.give_back();
    total += FERRY_TRY(std::move(count));
  } while (has_added_.load(std::memory_order_acquire));
  return total;
}

Result<int> StreamSender::progress() {
  if (!token_.try_take()) return 0;
  Ended ended;
  take_added();
  auto count = put();
  auto taken = count ? take_replies(ended) : Result<int>(0);
  token_.give_back();
  ended.finish();
  return FERRY_TRY(std::move(count)) + FERRY_TRY(std::move(taken));
}

Result<int> StreamSender::put() {
  int count = 0;
  if (half_put_) {
    if (!FERRY_TRY(put_abort(put_))) return 0;
    half_put_ = false;
    ++count;
  }
  while (to_send_.first != nullptr) {
    Operation* op = to_send_.first;
    count += FERRY_TRY(put_some(op));
    if (!op->scratch<Scratch>().whole(op->verb())) break;
    put_ = op->scratch<Scratch>().number;
    sent_.push(to_send_.pop());
  }
  // Requests given up before they were put leave a gap, which the next one or an abort closes.
  if (to_send_.first == nullptr && put_ != taken_ && FERRY_TRY(put_abort(taken_))) {
    put_ = taken_;
    ++count;
  }
  return count;
}

Result<int> StreamSender::put_some(Operation* op) {
  Scratch& mine = op->scratch<Scratch>();
  int count = 0;
  while (!mine.whole(op->verb())) {
    if (op->cancel_asked()) break;
    bool put = FERRY_TRY(mine.begun ? put_data(mine) : put_request(mine, op->verb()));
    if (!put) break;
    ++count;
  }
  return count;
}

Result<bool> StreamSender::put_request(Scratch& mine, Verb verb) {
  std::size_t bytes = verb == Verb::kWrite ? std::min(mine.length, mine.piece()) : 0;
  auto room = FERRY_TRY(stream_.reserve(sizeof(RequestRecord) + bytes));
  if (room.empty()) return false;
  RequestRecord record;
  record.header.kind = RecordHeader::Kind::kRequest;
  record.header.verb = static_cast<std::uint8_t>(verb);
  record.header.flagged = mine.flagged ? 1 : 0;
  record.header.number = mine.number;
  record.header.value = mine.operand;
  record.key = mine.remote.key;
  record.epoch = mine.remote.epoch;
  record.offset = mine.offset;
  record.length = mine.length;
  record.flag_key = mine.compare;
  if (mine.flagged) {
    record.header.value = mine.flag.value;
    record.flag_key = mine.flag.region.key;
    record.flag_epoch = mine.flag.region.epoch;
    record.flag_offset = mine.flag.offset;
  }
  std::memcpy(room.data(), &record, sizeof record);
  if (bytes != 0) std::memcpy(room.data() + sizeof record, mine.local, bytes);
  stream_.commit();
  mine.begun = true;
  mine.moved = bytes;
  return true;
}

Result<bool> StreamSender::put_data(Scratch& mine) {
  std::size_t bytes = std::min(mine.length - mine.moved, mine.piece());
  auto room = FERRY_TRY(stream_.reserve(sizeof(RecordHeader) + bytes));
  if (room.empty()) return false;
  RecordHeader header;
  header.kind = RecordHeader::Kind::kData;
  header.number = mine.number;
  std::memcpy(room.data(), &header, sizeof header);
  std::memcpy(room.data() + sizeof header, mine.local + mine.moved, bytes);
  stream_.commit();
  mine.moved += bytes;
  return true;
}

Result<bool> StreamSender::put_abort(std::uint64_t number) {
  auto room = FERRY_TRY(stream_.reserve(sizeof(RecordHeader)));
  if (room.empty()) return false;
  RecordHeader header;
  header.kind = RecordHeader::Kind::kAbort;
  header.number = number;
  std::memcpy(room.data(), &header, sizeof header);
  stream_.commit();
  return true;
}

// Replies are put before the done word is raised. So whatever belongs to a request that is done has
// been taken once the ring was found empty after the word was read.
Result<int> StreamSender::take_replies(Ended& ended) {
  constexpr int kBurst = 64;
  auto done = done_.load(std::memory_order_acquire);
  auto before = served_.load(std::memory_order_relaxed);
  if (done < before || done > put_)
    return fail(Code::kDataLoss, "the peer claims to have served request {} of {}", done, put_);
  int count = 0;
  for (;; ++count) {
    auto record = FERRY_TRY(replies_.front());
    if (record.empty()) break;
    if (count == kBurst) return count;
    FERRY_TRY(take_reply(record, ended));
    replies_.pop();
  }
  if (done == before) return count;
  FERRY_TRY(end_served(done, ended));
  return count + 1;
}

Status StreamSender::end_served(std::uint64_t done, Ended& ended) {
  served_.store(done, std::memory_order_release);
  while (sent_.first != nullptr && sent_.first->scratch<Scratch>().number <= done) {
    Operation* op = sent_.pop();
    const Scratch& mine = op->scratch<Scratch>();
    bool whole = op->verb() != Verb::kRead || mine.moved == mine.length;
    if (whole) {
      if (mine.began != 0)
        methods_.took(CopyMethods::Method::kRing, mine.length, now_ns() - mine.began);
      ended.well.push(op);
      continue;
    }
    auto error =
        fail(Code::kDataLoss, "the peer served {} of {} bytes of a read", mine.moved, mine.length);
    ended.badly.emplace_back(op, error.value());
    return error;
  }
  return {};
}

Operation* StreamSender::find_sent(std::uint64_t number) {
  for (Operation* op = sent_.first; op != nullptr; op = op->next)
    if (op->scratch<Scratch>().number == number) return op;
  return nullptr;
}

Status StreamSender::take_reply(std::span<const std::byte> record, Ended& ended) {
  RecordHeader header;
  if (record.size() < sizeof header)
    return fail(Code::kDataLoss, "a reply of {} bytes", record.size());
  std::memcpy(&header, record.data(), sizeof header);
  auto bytes = record.subspan(sizeof header);
  Operation* op = find_sent(header.number);
  if (op == nullptr) return {};  // given up meanwhile
  Scratch& mine = op->scratch<Scratch>();
  switch (header.kind) {
    case RecordHeader::Kind::kData:
      if (op->verb() != Verb::kRead || bytes.size() > mine.length - mine.moved) break;
      std::memcpy(mine.local + mine.moved, bytes.data(), bytes.size());
      mine.moved += bytes.size();
      return {};
    case RecordHeader::Kind::kValue:
      mine.operand = header.value;
      return {};
    case RecordHeader::Kind::kError: {
      if (header.value == 0 || header.value > 16 || bytes.size() > 1024) break;
      std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      auto error = fail(static_cast<Code>(header.value), "{}", text);
      sent_.remove(op);
      ended.badly.emplace_back(op, error.value());
      return {};
    }
    default:
      break;
  }
  return fail(Code::kDataLoss, "a reply of kind {} with {} bytes that fits no request",
              static_cast<int>(header.kind), bytes.size());
}

void StreamSender::expire_in(List& list, std::int64_t now, Ended& ended) {
  List kept;
  while (Operation* op = list.pop()) {
    bool cancelled = op->cancel_asked();
    if (!cancelled && op->deadline().ns() > now) {
      kept.push(op);
      continue;
    }
    const Scratch& mine = op->scratch<Scratch>();
    if (&list == &to_send_ && mine.begun) {
      half_put_ = true;
      put_ = mine.number;
    }
    auto error = cancelled ? fail(Code::kCancelled, "the operation was cancelled")
                           : fail(Code::kDeadlineExceeded,
                                  "the peer did not serve {} bytes in time", mine.length);
    ended.badly.emplace_back(op, error.value());
  }
  list = kept;
}

void StreamSender::expire(std::int64_t now) {
  if (!token_.try_take()) return;  // somebody is at it; the next tick comes soon
  Ended ended;
  take_added();
  expire_in(to_send_, now, ended);
  expire_in(sent_, now, ended);
  token_.give_back();
  ended.finish();
}

void StreamSender::close(const Error& cause) {
  {
    LockGuard<SpinLock> guard(lock_);
    closed_ = true;
  }
  token_.take();
  take_added();
  Ended ended;
  while (Operation* op = to_send_.pop()) ended.badly.emplace_back(op, cause);
  while (Operation* op = sent_.pop()) ended.badly.emplace_back(op, cause);
  token_.give_back();
  ended.finish();
}

}  // namespace ferry::fabric::shm
