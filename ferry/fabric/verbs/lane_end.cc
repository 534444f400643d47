// Data path.
#include "ferry/base/log.h"
#include "ferry/base/waiting.h"
#include "ferry/fabric/verbs/lane_internal.h"
#include "ferry/fabric/verbs/wc_error_internal.h"

// How operations and lanes end: by a completion, by a deadline, by a lane that is taken down.

namespace ferry::fabric::verbs {

void VerbsLane::sent_on_loop(const ibv_wc& completion) {
  auto done = [this](const SendSlot& slot, std::uint64_t number) {
    complete_on_loop(slot, number);
  };
  if (completion.status == IBV_WC_SUCCESS) {
    if (!ring_.retire(completion.wr_id, done))
      logger().error("verbs: {} completed a request that was not posted", adapter_.name);
    return;
  }
  if (completion.wr_id > 0) ring_.retire(completion.wr_id - 1, done);
  const auto* slot = ring_.find(completion.wr_id);
  auto error = error_of(completion.status, completion.vendor_err,
                        fmt::format("lane to {} over {}", peer_.name(), adapter_.name));
  take_down_on_loop(error, Ending::kBroken, slot == nullptr ? nullptr : slot->op);
}

void VerbsLane::tick_on_loop(std::int64_t now) {
  Expiry expiry(now, shared_.patient(std::chrono::milliseconds(100)), peer_.name(), adapter_.name);
  backlog_.expire_on_loop(expiry);
  ring_.walk([&](const SendSlot& slot) {
    if (slot.kind == SendSlot::Kind::kOperation && slot.last) expiry.expire(*slot.op);
  });
  end_all(expiry.failures());
  if (expiry.lane_must_go())
    fail_soon(
        Error(Code::kUnavailable,
              fmt::format("the lane to {} is connected anew: an operation on it did not end in "
                          "time",
                          peer_.name()),
              0, __FILE__, __LINE__));
}

void VerbsLane::protocol_broken(const Error& cause) {
  if (auto session = peer_.session()) session->peer_lost(cause);
}

void VerbsLane::take_down_on_loop() { take_down_on_loop(teardown_.reason(), Ending::kBroken); }

void VerbsLane::take_down_on_loop(const Error& cause, Ending ending, const Operation* culprit) {
  if (backlog_.closed()) return;
  auto self = shared_from_this();
  auto session = peer_.session();
  Error others =
      ending == Ending::kClosed
          ? cause
          : Error(Code::kUnavailable,
                  fmt::format("the lane to {} went down: {}", peer_.name(), cause.message()),
                  cause.os_code(), __FILE__, __LINE__);
  teardown_.set_cause(others);  // before the backlog refuses operations for it
  auto waiting = backlog_.close_on_loop();
  dispatcher_.remove_on_loop(qpn());
  shared_.exposures.drop_lane(*this);
  pair_.destroy();  // from here on the device touches no buffer of any operation
  end_all(fail_rest_on_loop(waiting, cause, others, ending, culprit));
  if (ending == Ending::kBroken && session != nullptr && established_.load()) {
    logger().warn("verbs: {}", others.to_string());
    session->lane_broken(*this, others);
  }
}

Failures VerbsLane::fail_rest_on_loop(std::array<OperationList, 2> waiting, const Error& cause,
                                      const Error& others, Ending ending,
                                      const Operation* culprit) {
  auto now = now_ns();
  bool broken = ending == Ending::kBroken;
  Failures failures;
  auto fail_one = [&](Operation* op) {
    failures.push_back({op, op == culprit ? cause
                            : broken && op->deadline().ns() <= now
                                ? deadline_error(peer_.name(), adapter_.name)
                            : broken && op->cancel_asked() ? cancelled_error(peer_.name())
                                                           : others});
  };
  ring_.walk([&](const SendSlot& slot) {
    if (slot.kind == SendSlot::Kind::kOperation && slot.last) fail_one(slot.op);
  });
  for (auto& list : waiting)
    while (!list.empty()) fail_one(list.pop());
  return failures;
}

void VerbsLane::close(const Error& cause) {
  loop().with_token([&] {
    // What has arrived can still be read.
    for (int i = 0; i < waiting::kLastBursts && up() && dispatcher_.progress_on_loop() > 0; ++i)
      continue;
    take_down_on_loop(cause, Ending::kClosed);
  });
  peer_.drop_session();
  teardown_.set_cause(cause);
}

}  // namespace ferry::fabric::verbs
