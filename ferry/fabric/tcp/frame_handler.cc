// Data path.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "ferry/base/stall.h"
#include "ferry/fabric/tcp/frame_handler_internal.h"

namespace ferry::fabric::tcp {

namespace {
// Word is sent at once when the peer may soon run out of its window.
constexpr std::uint64_t kDebtLimit = kWindow / 4;

tl::unexpected<Error> broken(const char* what, const Header& header) {
  return fail(Code::kInvalidArgument, "the peer sent {} (type {}, id {})", what, header.type,
              header.id);
}
}  // namespace

void FrameHandler::finish(Operation* op, Status status, std::uint64_t value) {
  pending_.fetch_sub(1, std::memory_order_relaxed);
  op->finish(std::move(status), value);
}

Status FrameHandler::begin(const Header& header) {
  header_ = header;
  to_ = nullptr;
  refused_.reset();
  FERRY_TRY(take_ack(header.done, header.taken));
  if (is_request(header.kind())) return begin_request();
  if (header.kind() == FrameType::kBye) {
    goodbye_ = true;
    gave_up_after_ = std::chrono::milliseconds(static_cast<std::uint32_t>(header.value));
  }
  if (header.kind() == FrameType::kAck || header.kind() == FrameType::kBye) return {};
  return begin_answer();
}

Status FrameHandler::take_ack(std::uint64_t done, std::uint32_t taken) {
  sender_.peer_took(taken);
  if (done <= window_.done()) return {};  // no news
  if (!sender_.was_sent(done)) return broken("word of a request that was never made", header_);
  for (auto id = window_.done() + 1; id <= done; ++id) {
    Window::Entry& entry = window_.entry(id);
    bool answered = entry.type == FrameType::kRead || entry.type == FrameType::kFetchAdd ||
                    entry.type == FrameType::kCompareSwap;
    if (entry.open && answered) return broken("no answer to a request", header_);
    entry.open = false;
    if (entry.op != nullptr) finish(std::exchange(entry.op, nullptr), {});
  }
  window_.done_through(done);
  return {};
}

Status FrameHandler::begin_request() {
  if (header_.id != last_request_ + 1) return broken("a request out of order", header_);
  last_request_ = header_.id;
  switch (header_.kind()) {
    case FrameType::kWrite:
      begin_write();
      return {};
    case FrameType::kMessage:
      to_ = inbox_.reserve();
      if (to_ == nullptr) return broken("more messages than it has credits for", header_);
      return {};
    default:
      return {};
  }
}

Result<std::byte*> FrameHandler::find(std::uint64_t key, std::uint32_t epoch, std::uint64_t offset,
                                      std::uint64_t length, Rights need) const {
  RemoteRegion remote;
  remote.key = key;
  remote.epoch = epoch;
  auto grant = FERRY_TRY(grants_.check(remote, offset, length, need, peer_));
  return reinterpret_cast<std::byte*>(grant.address) + offset;
}

Status FrameHandler::check_flag() const {
  auto word = FERRY_TRY(find(header_.flag_key, header_.flag_epoch, header_.flag_offset,
                             sizeof(std::uint64_t), Rights::kWrite));
  if (reinterpret_cast<std::uintptr_t>(word) % sizeof(std::uint64_t) == 0) return {};
  return fail(Code::kInvalidArgument, "a flag lies at a multiple of 8, not at offset {}",
              header_.flag_offset);
}

void FrameHandler::begin_write() {
  auto at = find(header_.key, header_.epoch, header_.offset, header_.length, Rights::kWrite);
  if (!at) {
    refused_ = at.error();
    return;
  }
  if ((header_.bits & kFlagged) != 0) {
    if (auto flag = check_flag(); !flag) {
      refused_ = flag.error();
      return;
    }
  }
  to_ = *at;
}

std::byte* FrameHandler::place(std::uint64_t at) {
  if (header_.kind() == FrameType::kReadPart) {
    // Asked for anew: the operation may have been given up since the last batch of bytes.
    Window::Entry& entry = window_.entry(header_.id);
    return entry.op == nullptr ? nullptr : entry.local + header_.offset + at;
  }
  if (to_ == nullptr) return nullptr;
  if (header_.kind() == FrameType::kWrite && !grants_.stands(header_.key, header_.epoch)) {
    to_ = nullptr;
    refused_ = fail(Code::kFailedPrecondition, "the grant {:#x} was revoked while it was written",
                    header_.key)
                   .value();
    return nullptr;
  }
  stall_for_tests(StallPoint::kServeWrite);
  return to_ + at;
}

Status FrameHandler::end() {
  if (is_request(header_.kind())) return end_request();
  if (header_.kind() == FrameType::kAck || header_.kind() == FrameType::kBye) return {};
  return end_answer();
}

Status FrameHandler::end_request() {
  switch (header_.kind()) {
    case FrameType::kWrite:
      FERRY_TRY(end_write());
      break;
    case FrameType::kRead:
      FERRY_TRY(serve_read());
      break;
    case FrameType::kFetchAdd:
    case FrameType::kCompareSwap:
      FERRY_TRY(serve_atomic());
      break;
    case FrameType::kMessage:
      inbox_.commit(static_cast<std::uint32_t>(header_.length));
      urgent_ |= !sender_.rides();
      break;
    default:
      break;
  }
  // After the answer was queued: see Sender::fill_batch().
  sender_.placed(header_.id);
  if ((header_.bits & kPatient) == 0) prompt_ = header_.id;
  urgent_ |= sender_.debt() >= kDebtLimit;
  return {};
}

Status FrameHandler::end_write() {
  if (refused_) return refuse(*std::exchange(refused_, std::nullopt));
  bool patient = (header_.bits & kPatient) != 0;
  if ((header_.bits & kFlagged) == 0) {
    urgent_ |= !patient;
    return {};
  }
  // Once more: the flag's grant may have been revoked while the payload arrived.
  auto flag = find(header_.flag_key, header_.flag_epoch, header_.flag_offset, sizeof(std::uint64_t),
                   Rights::kWrite);
  if (!flag) return refuse(flag.error());
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(*flag))
      .store(header_.value, std::memory_order_release);
  urgent_ |= !patient && !sender_.rides();
  return {};
}

Status FrameHandler::refuse(Error reason) {
  Answer answer;
  answer.type = FrameType::kRefusal;
  answer.id = header_.id;
  answer.reason = std::move(reason);
  if (sender_.queue(std::move(answer))) return {};
  return broken("more requests than its window allows", header_);
}

Status FrameHandler::serve_read() {
  auto from = find(header_.key, header_.epoch, header_.offset, header_.length, Rights::kRead);
  if (!from) return refuse(from.error());
  Answer answer;
  answer.type = FrameType::kReadPart;
  answer.id = header_.id;
  answer.from = *from;
  answer.length = header_.length;
  answer.key = header_.key;
  answer.epoch = header_.epoch;
  if (sender_.queue(std::move(answer))) return {};
  return broken("more requests than its window allows", header_);
}

Status FrameHandler::serve_atomic() {
  auto at =
      find(header_.key, header_.epoch, header_.offset, sizeof(std::uint64_t), Rights::kAtomic);
  if (!at) return refuse(at.error());
  if (reinterpret_cast<std::uintptr_t>(*at) % sizeof(std::uint64_t) != 0)
    return refuse(fail(Code::kInvalidArgument, "an atomic word lies at a multiple of 8, not at {}",
                       header_.offset)
                      .value());
  std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(*at));
  Answer answer;
  answer.type = FrameType::kFound;
  answer.id = header_.id;
  if (header_.kind() == FrameType::kFetchAdd) {
    answer.value = word.fetch_add(header_.value, std::memory_order_acq_rel);
  } else {
    answer.value = header_.flag_key;
    word.compare_exchange_strong(answer.value, header_.value, std::memory_order_acq_rel);
  }
  if (sender_.queue(std::move(answer))) return {};
  return broken("more requests than its window allows", header_);
}

Status FrameHandler::begin_answer() {
  // Answers come in the order of the requests.
  if (header_.id != window_.done() + 1 || !sender_.was_sent(header_.id))
    return broken("an answer to no request of ours", header_);
  Window::Entry& entry = window_.entry(header_.id);
  bool atomic = entry.type == FrameType::kFetchAdd || entry.type == FrameType::kCompareSwap;
  switch (header_.kind()) {
    case FrameType::kReadPart:
      if (entry.type == FrameType::kRead && header_.offset == entry.received &&
          header_.length <= entry.length - entry.received)
        return {};
      return broken("a part of a read that does not fit", header_);
    case FrameType::kReadEnd:
      if (entry.type == FrameType::kRead && entry.received == entry.length) return {};
      return broken("the end of a read too early", header_);
    case FrameType::kFound:
      if (atomic) return {};
      return broken("the answer to an atomic that was none", header_);
    default:
      to_ = reinterpret_cast<std::byte*>(reason_.data());
      return {};
  }
}

Status FrameHandler::end_answer() {
  Window::Entry& entry = window_.entry(header_.id);
  if (header_.kind() == FrameType::kReadPart) {
    entry.received += header_.length;
    return {};
  }
  entry.open = false;
  Operation* op = std::exchange(entry.op, nullptr);
  Status status;
  if (header_.kind() == FrameType::kRefusal) status = tl::unexpected<Error>(reason_of_refusal());
  auto value = header_.value;
  window_.done_through(header_.id);
  if (op != nullptr) finish(op, std::move(status), value);
  return {};
}

Error FrameHandler::reason_of_refusal() const {
  std::string_view text(reason_.data(), header_.length);
  if (text.empty()) text = "the request could not be completed; its grant may have been revoked";
  return fail(static_cast<Code>(header_.code), "the peer refused: {}", text).value();
}

}  // namespace ferry::fabric::tcp
