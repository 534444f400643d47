// Data path.
#include <arpa/inet.h>

#include <cstring>

#include "ferry/base/log.h"
#include "ferry/base/waiting.h"
#include "ferry/fabric/verbs/lane_internal.h"
#include "ferry/fabric/verbs/wc_error_internal.h"

namespace ferry::fabric::verbs {

Error VerbsLane::deadline_error() const {
  return Error(Code::kDeadlineExceeded,
               fmt::format("the operation towards {} over {} did not end in time", peer_name_,
                           adapter_.name),
               0, __FILE__, __LINE__);
}

Error VerbsLane::cancelled_error() const {
  return Error(Code::kCancelled, fmt::format("the operation towards {} was cancelled", peer_name_),
               0, __FILE__, __LINE__);
}

Error VerbsLane::down_error() {
  LockGuard<SpinLock> guard(lock_);
  if (cause_ != nullptr) return *cause_;
  return Error(Code::kUnavailable, fmt::format("the lane to {} is not up yet", peer_name_), 0,
               __FILE__, __LINE__);
}

void VerbsLane::complete(const SendSlot& slot, std::uint64_t number) {
  switch (slot.kind) {
    case SendSlot::Kind::kOperation: {
      if (!slot.last) return;
      auto verb = slot.op->verb();
      std::uint64_t value = 0;
      if (verb == Verb::kFetchAdd || verb == Verb::kCompareSwap)
        std::memcpy(&value, words_->data + number % ring_.depth() * sizeof value, sizeof value);
      end(slot.op, {}, value);
      return;
    }
    case SendSlot::Kind::kBind:
      shared_.exposures.bound(*this, slot.key);
      return;
    case SendSlot::Kind::kHello:
      greeted_.store(true, std::memory_order_release);
      return;
    case SendSlot::Kind::kCredits:
      return;
  }
}

void VerbsLane::sent_on_loop(const ibv_wc& completion) {
  auto done = [this](const SendSlot& slot, std::uint64_t number) { complete(slot, number); };
  if (completion.status == IBV_WC_SUCCESS) {
    if (!ring_.retire(completion.wr_id, done))
      logger().error("verbs: {} completed a request that was not posted", adapter_.name);
    return;
  }
  if (completion.wr_id > 0) ring_.retire(completion.wr_id - 1, done);
  const auto* slot = ring_.find(completion.wr_id);
  culprit_ = slot == nullptr ? nullptr : slot->op;
  auto error = error_of(completion.status, completion.vendor_err,
                        fmt::format("lane to {} over {}", peer_name_, adapter_.name));
  take_down(error, Ending::kBroken);
}

VerbsLane::Received VerbsLane::received_on_loop(const ibv_wc& completion, Buffer* buffer) {
  bool write = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  auto bits = (completion.wc_flags & IBV_WC_WITH_IMM) != 0 ? ntohl(completion.imm_data) : 0;
  auto immediate = decode_immediate(bits);
  if (!immediate || write != (immediate->kind == Immediate::Kind::kFlag)) {
    protocol_broken(immediate
                        ? fail(Code::kInvalidArgument, "an immediate of the wrong kind").value()
                        : immediate.error());
    return Received::kDone;
  }
  if (immediate->credits != 0)
    credits_back_.fetch_add(immediate->credits, std::memory_order_seq_cst);
  switch (immediate->kind) {
    case Immediate::Kind::kMessage: {
      LockGuard<SpinLock> guard(inbox_lock_);
      (newest_ == nullptr ? oldest_ : newest_->next) = buffer;
      buffer->next = nullptr;
      newest_ = buffer;
      if (messages_.fetch_add(1, std::memory_order_release) < kLaneCredits) return Received::kHeld;
      break;
    }
    case Immediate::Kind::kFlag:
      if (owed_.fetch_add(1, std::memory_order_relaxed) + 1 >= kLaneCredits / 2)
        waiting_.store(true, std::memory_order_relaxed);
      return Received::kDone;
    case Immediate::Kind::kCredits:
    case Immediate::Kind::kHello:
      return Received::kDone;
  }
  protocol_broken(
      fail(Code::kInvalidArgument, "more than {} messages without credit", kLaneCredits).value());
  return Received::kHeld;
}

Result<std::size_t> VerbsLane::take_message(std::span<std::byte> into) {
  Buffer* buffer = nullptr;
  {
    LockGuard<SpinLock> guard(inbox_lock_);
    if (oldest_ == nullptr) return fail(Code::kNotFound, "no message has arrived");
    if (oldest_->length > into.size())
      return fail(Code::kResourceExhausted, "the message has {} bytes, the buffer {}",
                  oldest_->length, into.size());
    buffer = std::exchange(oldest_, oldest_->next);
    if (oldest_ == nullptr) newest_ = nullptr;
    messages_.fetch_sub(1, std::memory_order_relaxed);
  }
  std::size_t length = buffer->length;
  std::memcpy(into.data(), buffer->data, length);
  shared_.buffers.give(buffer);
  if (owed_.fetch_add(1, std::memory_order_relaxed) + 1 >= kLaneCredits / 2) {
    LockGuard<SpinLock> guard(lock_);
    if (up()) return_credits();
  }
  return length;
}

void VerbsLane::pump_on_loop() {
  Failures failures;
  {
    LockGuard<SpinLock> guard(lock_);
    if (!up()) return;
    pump(failures);
  }
  end_all(failures);
}

void VerbsLane::fail_soon(Error cause) {
  {
    LockGuard<SpinLock> guard(failure_lock_);
    if (failure_ != nullptr) return;
    failure_ = std::make_shared<const Error>(std::move(cause));
  }
  failing_.store(true, std::memory_order_release);
  completions_.lane_failing();
}

void VerbsLane::take_down_on_loop() {
  std::shared_ptr<const Error> cause;
  {
    LockGuard<SpinLock> guard(failure_lock_);
    cause = failure_;
  }
  take_down(*cause, Ending::kBroken);
}

void VerbsLane::protocol_broken(const Error& cause) {
  std::shared_ptr<PeerSession> session;
  {
    LockGuard<SpinLock> guard(lock_);
    session = session_;
  }
  if (session != nullptr) session->peer_lost(cause);
}

void VerbsLane::take_down(const Error& cause, Ending ending) {
  auto self = shared_from_this();
  std::shared_ptr<PeerSession> session;
  OperationList waiting[2];
  Error others =
      ending == Ending::kClosed
          ? cause
          : Error(Code::kUnavailable,
                  fmt::format("the lane to {} went down: {}", peer_name_, cause.message()),
                  cause.os_code(), __FILE__, __LINE__);
  {
    LockGuard<SpinLock> guard(lock_);
    if (state_.exchange(State::kDown, std::memory_order_acq_rel) == State::kDown) return;
    cause_ = std::make_shared<const Error>(others);
    session = session_;
    waiting[0] = std::exchange(held_, {});
    waiting[1] = std::exchange(waits_, {});
    binds_.clear();
  }
  dispatcher_.remove_on_loop(qpn_);
  shared_.exposures.drop_lane(*this);
  qp_.reset();  // from here on the device touches no buffer of any operation
  auto now = now_ns();
  Failures failures;
  auto fail_one = [&](Operation* op) {
    const Error& error = op == culprit_ ? cause
                         : ending == Ending::kBroken && op->deadline().ns() <= now
                             ? deadline_error()
                         : ending == Ending::kBroken && op->cancel_asked() ? cancelled_error()
                                                                           : others;
    failures.push_back({op, error});
  };
  ring_.walk([&](const SendSlot& slot) {
    if (slot.kind == SendSlot::Kind::kOperation && slot.last) fail_one(slot.op);
  });
  for (auto& list : waiting)
    while (!list.empty()) fail_one(list.pop());
  end_all(failures);
  if (ending == Ending::kBroken && session != nullptr && established_.load()) {
    logger().warn("verbs: {}", others.to_string());
    session->lane_broken(*this, others);
  }
}

void VerbsLane::close(const Error& cause) {
  loop().with_token([&] {
    // What has arrived can still be read.
    for (int i = 0; i < waiting::kLastBursts && up() && dispatcher_.progress_on_loop() > 0; ++i)
      continue;
    take_down(cause, Ending::kClosed);
  });
  std::shared_ptr<PeerSession> session;
  LockGuard<SpinLock> guard(lock_);
  session.swap(session_);
  cause_ = std::make_shared<const Error>(cause);
}

}  // namespace ferry::fabric::verbs
