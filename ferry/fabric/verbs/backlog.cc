// Data path.
#include "ferry/fabric/verbs/backlog_internal.h"

namespace ferry::fabric::verbs {

namespace {

// Whether the owner has answered for this grant; fails when the answer does not allow the access.
Result<bool> check_grant(const PeerGrant& grant, std::uint64_t offset, std::uint64_t length,
                         Rights rights, const std::string& peer_name) {
  if (grant.state == PeerGrant::State::kAsking) return false;
  if (!allows(grant.region.rights, rights))
    return fail(Code::kPermissionDenied, "the grant {:#x} of {} does not allow this",
                grant.region.key, peer_name);
  FERRY_TRY(check_range(offset, length, grant.region.length));
  return true;
}

// The same for all grants of an operation, until the answer is yes.
Result<bool> check_grants(Operation& op, const std::string& peer_name) {
  auto& work = op.scratch<Work>();
  if (work.checked || op.verb() == Verb::kMessage) return true;
  Rights need = op.verb() == Verb::kWrite  ? Rights::kWrite
                : op.verb() == Verb::kRead ? Rights::kRead
                                           : Rights::kAtomic;
  auto length = need == Rights::kAtomic ? 8 : work.length;
  bool known = FERRY_TRY(check_grant(*work.target, work.offset, length, need, peer_name));
  if (known && work.flag_target != nullptr)
    known =
        FERRY_TRY(check_grant(*work.flag_target, work.flag_offset, 8, Rights::kWrite, peer_name));
  work.checked = known;
  return known;
}

}  // namespace

Backlog::Backlog(CompletionQueue& completions, const SendQueue::Parts& parts)
    : completions_(completions), peer_(parts.peer), send_queue_(parts), credits_(parts.credits) {}

bool Backlog::open(std::uint32_t credits) {
  LockGuard<SpinLock> guard(lock_);
  credits_.start(credits);
  if (state_.load(std::memory_order_relaxed) == State::kDown) return false;
  state_.store(State::kUp, std::memory_order_release);
  return true;
}

std::array<OperationList, 2> Backlog::close_on_loop() {
  LockGuard<SpinLock> guard(lock_);
  state_.store(State::kDown, std::memory_order_release);
  binds_.clear();
  return {std::exchange(held_, {}), std::exchange(waits_, {})};
}

bool Backlog::add(Operation* op, const Request& request, Asks& asks, Failures& failures) {
  auto& work = op->scratch<Work>();
  LockGuard<SpinLock> guard(lock_);
  if (!up()) return false;
  if (request.verb != Verb::kMessage) work.target = use_grant(request.remote, asks);
  if (request.flag != nullptr) {
    work.flag_target = use_grant(request.flag->region, asks);
    work.flag_offset = request.flag->offset;
    work.flag_value = request.flag->value;
    work.notify = request.flag->notify;
  }
  waits_.push(op);
  pump(failures);
  return true;
}

PeerGrant* Backlog::use_grant(const RemoteRegion& region, Asks& asks) {
  auto found = grants_.use(region);
  if (found.fresh) asks.regions[asks.count++] = region;
  return found.grant;
}

bool Backlog::add_bind(const Bind& bind, Failures& failures) {
  LockGuard<SpinLock> guard(lock_);
  if (!up()) return false;
  binds_.push_back(bind);
  pump(failures);
  return true;
}

void Backlog::post_hello() {
  LockGuard<SpinLock> guard(lock_);
  if (up()) send_queue_.post_hello();
}

void Backlog::return_credits() {
  LockGuard<SpinLock> guard(lock_);
  if (up()) send_queue_.return_credits();
}

void Backlog::pump_on_loop(Failures& failures) {
  LockGuard<SpinLock> guard(lock_);
  if (up()) pump(failures);
}

void Backlog::pump_binds() {
  if (!send_queue_.can_bind()) return;
  while (!binds_.empty() && send_queue_.has_room_for_bind()) {
    send_queue_.post_bind(binds_.front());
    binds_.erase(binds_.begin());
  }
}

// An operation that was posted may have ended, and be another one's, before post returns: it is
// taken off its list before it is tried.
void Backlog::pump_held(Failures& failures) {
  while (!held_.empty()) {
    Operation* op = held_.pop();
    auto step = advance(op, failures);
    if (step == Step::kWait || step == Step::kHold) return held_.push_front(op);
  }
}

void Backlog::pump_once(Failures& failures) {
  no_room_ = false;
  pump_binds();
  credits_.collect();
  send_queue_.return_credits();
  pump_held(failures);
  while (!waits_.empty()) {
    Operation* op = waits_.pop();
    bool ordered = op->verb() == Verb::kMessage || op->scratch<Work>().flag_target != nullptr;
    auto step = ordered && !held_.empty() ? Step::kHold : advance(op, failures);
    if (step == Step::kHold) held_.push(op);
    if (step == Step::kWait) {
      waits_.push_front(op);
      break;
    }
  }
}

void Backlog::pump(Failures& failures) {
  for (bool again = true; again;) {
    pump_once(failures);
    bool waiting = !waits_.empty() || !held_.empty() || !binds_.empty() || credits_.due();
    // First tell the loop that something waits, then look whether what it waits for has come
    // meanwhile: the loop does the reverse.
    waiting_.store(waiting, std::memory_order_seq_cst);
    if (waiting) completions_.event_wanted();
    again = waiting &&
            ((no_room_ && send_queue_.has_room()) || (!binds_.empty() && send_queue_.can_bind()) ||
             (!held_.empty() && credits_.has_returned()));
  }
}

Backlog::Step Backlog::advance(Operation* op, Failures& failures) {
  auto known = check_grants(*op, peer_.name());
  if (!known) {
    failures.push_back({op, known.error()});
    return Step::kFailed;
  }
  if (!*known) return Step::kWait;
  // What has begun goes on to its end, which the bind waits for.
  if (!binds_.empty() && !op->scratch<Work>().started()) return Step::kWait;
  auto outcome = send_queue_.post(op);
  no_room_ = outcome == SendQueue::Outcome::kNoRoom;
  switch (outcome) {
    case SendQueue::Outcome::kPosted:
      return Step::kPosted;
    case SendQueue::Outcome::kNoCredits:
      return Step::kHold;
    case SendQueue::Outcome::kMore:
    case SendQueue::Outcome::kNoRoom:
    case SendQueue::Outcome::kRefused:
      break;
  }
  return Step::kWait;
}

template <class F>
void Backlog::remove_waiting_if(F&& condition) {
  held_.remove_if(condition);
  waits_.remove_if(condition);
}

bool Backlog::resolve(const Notice& notice, std::unique_ptr<PeerGrant>& unknown,
                      Failures& failures) {
  LockGuard<SpinLock> guard(lock_);
  auto* grant = grants_.find(notice.region);
  if (grant == nullptr || grant->state != PeerGrant::State::kAsking || !up()) return false;
  if (notice.code == Code::kOk) {
    grant->region = notice.region;
    grant->rkey = notice.rkey;
    grant->state = PeerGrant::State::kKnown;
  } else {
    unknown = grants_.remove(notice.region);
    Error error(notice.code, fmt::format("{} refused: {}", peer_.name(), notice.text), 0, __FILE__,
                __LINE__);
    remove_waiting_if([&](Operation& op) {
      bool uses = op.scratch<Work>().uses(grant);
      if (uses) failures.push_back({&op, error});
      return uses;
    });
  }
  pump(failures);
  return true;
}

bool Backlog::forget(const RemoteRegion& region, Failures& failures) {
  LockGuard<SpinLock> guard(lock_);
  auto* grant = grants_.find(region);
  bool idle = grants_.leave(region);
  if (grant == nullptr || idle || !up()) return idle;
  Error error(Code::kFailedPrecondition,
              fmt::format("{} has revoked the grant {:#x}", peer_.name(), region.key), 0, __FILE__,
              __LINE__);
  // What has begun runs to its end; the owner waits for it a little.
  remove_waiting_if([&](Operation& op) {
    auto& work = op.scratch<Work>();
    bool ends = work.uses(grant) && !work.started();
    if (ends) failures.push_back({&op, error});
    return ends;
  });
  pump(failures);
  return false;
}

bool Backlog::drop_user(PeerGrant& grant, const RemoteRegion& region) {
  if (!grants_unlocked().drop_user(grant)) return false;
  LockGuard<SpinLock> guard(lock_);
  return grants_.left(region);
}

bool Backlog::lock_soon() {
  constexpr int kMaxMissed = 10;
  if (!lock_.try_lock()) {
    if (++locks_missed_ < kMaxMissed) return false;
    lock_.lock();
  }
  locks_missed_ = 0;
  return true;
}

void Backlog::expire_on_loop(Expiry& expiry) {
  if (!wants_pump() || !lock_soon()) return;
  remove_waiting_if([&](Operation& op) { return expiry.expire(op); });
  if (up()) pump(expiry.failures());
  lock_.unlock();
}

}  // namespace ferry::fabric::verbs
