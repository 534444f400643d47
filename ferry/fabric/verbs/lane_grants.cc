#include "ferry/fabric/verbs/lane_internal.h"

namespace ferry::fabric::verbs {

template <class F>
void VerbsLane::unqueue_if(F&& condition) {
  held_.remove_if(condition);
  waits_.remove_if(condition);
}

void VerbsLane::tell(Notice notice) {
  std::shared_ptr<PeerSession> session;
  {
    LockGuard<SpinLock> guard(lock_);
    session = session_;
    notice.qpn = peer_qpn_;
  }
  if (session != nullptr) session->tell("verbs", encode(notice));
}

void VerbsLane::resolved(const Notice& notice) {
  Failures failures;
  std::unique_ptr<PeerGrant> unknown;  // until its users have ended
  {
    LockGuard<SpinLock> guard(lock_);
    auto* grant = grants_.find(notice.region);
    if (grant == nullptr || grant->state != PeerGrant::State::kAsking || !up()) return;
    if (notice.code == Code::kOk) {
      grant->region = notice.region;
      grant->rkey = notice.rkey;
      grant->state = PeerGrant::State::kKnown;
    } else {
      unknown = grants_.remove(notice.region);
      Error error(notice.code, fmt::format("{} refused: {}", peer_name_, notice.text), 0, __FILE__,
                  __LINE__);
      unqueue_if([&](Operation& op) {
        auto& work = op.scratch<Work>();
        bool uses = work.target == grant || work.flag_target == grant;
        if (uses) failures.push_back({&op, error});
        return uses;
      });
    }
    pump(failures);
  }
  end_all(failures);
  loop().notify();
}

void VerbsLane::forget(const RemoteRegion& region) {
  Failures failures;
  bool idle = false;
  {
    LockGuard<SpinLock> guard(lock_);
    auto* grant = grants_.find(region);
    idle = grants_.leave(region);
    if (grant != nullptr && !idle) {
      Error error(Code::kFailedPrecondition,
                  fmt::format("{} has revoked the grant {:#x}", peer_name_, region.key), 0,
                  __FILE__, __LINE__);
      // What has begun runs to its end; the owner waits for it a little.
      unqueue_if([&](Operation& op) {
        auto& work = op.scratch<Work>();
        bool uses = (work.target == grant || work.flag_target == grant) && !work.started();
        if (uses) failures.push_back({&op, error});
        return uses;
      });
      pump(failures);
    }
  }
  if (idle) {
    Notice notice;
    notice.kind = Notice::Kind::kForgotten;
    notice.region = region;
    tell(notice);
  }
  if (failures.empty()) return;
  end_all(failures);
  loop().notify();
}

void VerbsLane::bind(const Bind& bind) {
  Failures failures;
  {
    LockGuard<SpinLock> guard(lock_);
    if (!up()) return;
    binds_.push_back(bind);
    pump(failures);
  }
  completions_.event_wanted();
  end_all(failures);
}

bool VerbsLane::lock_soon() {
  constexpr int kMaxMissed = 10;
  if (!lock_.try_lock()) {
    if (++locks_missed_ < kMaxMissed) return false;
    lock_.lock();
  }
  locks_missed_ = 0;
  return true;
}

void VerbsLane::tick_on_loop(std::int64_t now) {
  const auto grace = shared_.patient(std::chrono::milliseconds(100)).count();
  Failures failures;
  bool overdue = false;
  auto give_up = [&](Operation& op) -> bool {
    bool expired = op.deadline().ns() <= now;
    if (!expired && !op.cancel_asked()) return false;
    auto& work = op.scratch<Work>();
    if (work.started()) {
      // It cannot be called back. A cancelled one mostly ends by itself; give it a little time.
      if (work.cancel_seen == 0) work.cancel_seen = now;
      overdue |= expired || now - work.cancel_seen > grace;
      return false;
    }
    failures.push_back({&op, expired ? deadline_error() : cancelled_error()});
    return true;
  };
  if (wants_pump() && lock_soon()) {
    unqueue_if(give_up);
    pump(failures);
    lock_.unlock();
  }
  ring_.walk([&](const SendSlot& slot) {
    if (slot.kind == SendSlot::Kind::kOperation && slot.last) give_up(*slot.op);
  });
  end_all(failures);
  if (overdue)
    fail_soon(
        Error(Code::kUnavailable,
              fmt::format("the lane to {} is connected anew: an operation on it did not end in "
                          "time",
                          peer_name_),
              0, __FILE__, __LINE__));
}

}  // namespace ferry::fabric::verbs
