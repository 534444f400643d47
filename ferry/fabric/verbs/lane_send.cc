// Data path.
#include <arpa/inet.h>

#include "ferry/fabric/verbs/lane_internal.h"

namespace ferry::fabric::verbs {

namespace {
// Work requests handed to the device at a time.
constexpr int kBurst = 8;
// Room that operations leave for credits and binds.
constexpr std::uint32_t kReserve = 8;
}  // namespace

struct VerbsLane::Burst {
  ibv_send_wr requests[kBurst];
  ibv_sge pieces[kBurst];
  int count = 0;
};

Transfer VerbsLane::post(Request& request) {
  if (!up()) return Transfer::failed(down_error());
  if (!adapter_.atomics && (request.verb == Verb::kFetchAdd || request.verb == Verb::kCompareSwap))
    return Transfer::failed(
        fail(Code::kUnimplemented, "{} has no atomics; use tcp or shm", adapter_.name).value());
  bool told = static_cast<bool>(request.callback);
  Operation* op = shared_.context.operations->make(request, loop());
  auto& work = *new (&op->scratch<Work>()) Work;
  work.local = request.local;
  work.length = request.length;
  work.offset = request.offset;
  work.operand = request.operand;
  work.compare = request.compare;
  completions_.operation_began();
  if (auto mapped = map_local(*op, request); !mapped) {
    end(op, std::move(mapped));
    return Transfer::pending(op);
  }
  Failures failures;
  Asks asks;
  {
    LockGuard<SpinLock> guard(lock_);
    if (state_.load(std::memory_order_relaxed) == State::kUp) {
      asks = use_grants(work, request);
      waits_.push(op);
      pump(failures);
    } else {
      failures.push_back({op, *cause_});
    }
  }
  if (told) completions_.event_wanted();
  for (int i = 0; i < asks.count; ++i) {
    Notice notice;
    notice.region = asks.regions[i];
    tell(notice);
  }
  end_all(failures);
  return Transfer::pending(op);
}

VerbsLane::Asks VerbsLane::use_grants(Work& work, const Request& request) {
  Asks asks;
  auto use = [&](const RemoteRegion& region) FERRY_NO_THREAD_SAFETY_ANALYSIS {
    auto found = grants_.use(region);
    if (found.fresh) asks.regions[asks.count++] = region;
    return found.grant;
  };
  if (request.verb != Verb::kMessage) work.target = use(request.remote);
  if (request.flag != nullptr) {
    work.flag_target = use(request.flag->region);
    work.flag_offset = request.flag->offset;
    work.flag_value = request.flag->value;
    work.notify = request.flag->notify;
  }
  return asks;
}

// An operation that was posted may have ended, and be another one's, before post returns: it is
// taken off its list before it is tried.
void VerbsLane::pump_held(Failures& failures) {
  while (!held_.empty()) {
    Operation* op = held_.pop();
    auto step = advance(op, failures);
    if (step == Step::kWait || step == Step::kHold) return held_.push_front(op);
  }
}

bool VerbsLane::can_bind() const {
  return adapter_.repeats_binds ? ring_.room() == ring_.depth() : ring_.room() > 0;
}

void VerbsLane::pump_once(Failures& failures) {
  no_room_ = false;
  if (can_bind()) {
    while (!binds_.empty() && ring_.room() > 0) {
      post_bind(binds_.front());
      binds_.erase(binds_.begin());
    }
  }
  credits_ += credits_back_.exchange(0, std::memory_order_relaxed);
  return_credits();
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

void VerbsLane::pump(Failures& failures) {
  for (bool again = true; again;) {
    pump_once(failures);
    bool owing = owed_.load(std::memory_order_relaxed) >= kLaneCredits / 2;
    bool waiting = !waits_.empty() || !held_.empty() || !binds_.empty() || owing;
    // First tell the loop that something waits, then look whether what it waits for has come
    // meanwhile: the loop does the reverse.
    waiting_.store(waiting, std::memory_order_seq_cst);
    if (waiting) completions_.event_wanted();
    again = waiting && ((no_room_ && ring_.room() > kReserve) || (!binds_.empty() && can_bind()) ||
                        (!held_.empty() && credits_back_.load(std::memory_order_seq_cst) != 0));
  }
}

// Whether the operation may go out: kMore; or kWait: its grants are not known yet.
Result<VerbsLane::Step> VerbsLane::ready(Operation& op) {
  auto& work = op.scratch<Work>();
  if (work.checked || op.verb() == Verb::kMessage) return Step::kMore;
  Rights need = op.verb() == Verb::kWrite  ? Rights::kWrite
                : op.verb() == Verb::kRead ? Rights::kRead
                                           : Rights::kAtomic;
  auto look = [&](const PeerGrant* grant, std::uint64_t offset, std::uint64_t length,
                  Rights rights) -> Result<Step> {
    if (grant->state == PeerGrant::State::kAsking) return Step::kWait;
    if (!allows(grant->region.rights, rights))
      return fail(Code::kPermissionDenied, "the grant {:#x} of {} does not allow this",
                  grant->region.key, peer_name_);
    FERRY_TRY(check_range(offset, length, grant->region.length));
    return Step::kMore;
  };
  bool atomic = need == Rights::kAtomic;
  auto step = FERRY_TRY(look(work.target, work.offset, atomic ? 8 : work.length, need));
  if (step == Step::kMore && work.flag_target != nullptr)
    step = FERRY_TRY(look(work.flag_target, work.flag_offset, 8, Rights::kWrite));
  work.checked = step == Step::kMore;
  return step;
}

VerbsLane::Step VerbsLane::advance(Operation* op, Failures& failures) {
  auto can = ready(*op);
  if (!can) {
    failures.push_back({op, can.error()});
    return Step::kFailed;
  }
  if (*can == Step::kWait) return Step::kWait;
  // What has begun goes on to its end, which the bind waits for.
  if (!binds_.empty() && !op->scratch<Work>().started()) return Step::kWait;
  for (;;) {
    Burst burst;
    auto step = Step::kMore;
    while (step == Step::kMore && burst.count < kBurst) {
      no_room_ = ring_.room() <= kReserve;
      step = no_room_ ? Step::kWait : add_next(op, burst);
    }
    if (burst.count > 0 && !flush(burst)) return step == Step::kPosted ? step : Step::kWait;
    if (step != Step::kMore) return step;
  }
}

VerbsLane::Step VerbsLane::add_next(Operation* op, Burst& burst) {
  switch (op->verb()) {
    case Verb::kMessage:
      return add_message(op, burst);
    case Verb::kFetchAdd:
    case Verb::kCompareSwap:
      return add_atomic(op, burst);
    case Verb::kWrite:
    case Verb::kRead:
      break;
  }
  return op->scratch<Work>().payload_posted ? add_flag(op, burst) : add_payload(op, burst);
}

ibv_send_wr& VerbsLane::begin(Burst& burst, ibv_wr_opcode opcode) {
  auto& request = burst.requests[burst.count];
  request = {};
  if (burst.count > 0) burst.requests[burst.count - 1].next = &request;
  request.opcode = opcode;
  request.sg_list = &burst.pieces[burst.count];
  ++burst.count;
  return request;
}

void VerbsLane::number(ibv_send_wr& request, const SendSlot& slot, bool signal) {
  if (signal || ring_.must_signal()) request.send_flags |= IBV_SEND_SIGNALED;
  request.wr_id = ring_.push(slot);
}

VerbsLane::Step VerbsLane::add_payload(Operation* op, Burst& burst) {
  auto& work = op->scratch<Work>();
  bool writes = op->verb() == Verb::kWrite;
  auto piece = segment_at(work.posted, work.length, adapter_.max_segment);
  auto& request = begin(burst, writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ);
  request.wr.rdma.rkey = work.target->rkey;
  request.wr.rdma.remote_addr = work.target->region.address + work.offset + piece.offset;
  if (piece.length > 0) {
    *request.sg_list = {work.source() + piece.offset, piece.length, work.lkey};
    request.num_sge = 1;
    if (writes && work.length <= inline_bytes_) request.send_flags |= IBV_SEND_INLINE;
  }
  work.posted += piece.length;
  work.payload_posted = piece.last;
  bool last = piece.last && work.flag_target == nullptr;
  number(request, {SendSlot::Kind::kOperation, last, op}, last);
  return last ? Step::kPosted : Step::kMore;
}

VerbsLane::Step VerbsLane::add_flag(Operation* op, Burst& burst) {
  auto& work = op->scratch<Work>();
  if (work.notify && credits_ == 0) return Step::kHold;
  auto& request = begin(burst, work.notify ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE);
  request.wr.rdma.rkey = work.flag_target->rkey;
  request.wr.rdma.remote_addr = work.flag_target->region.address + work.flag_offset;
  *request.sg_list = {reinterpret_cast<std::uint64_t>(&work.flag_value), 8, 0};
  request.num_sge = 1;
  if (inline_bytes_ >= 8) {
    request.send_flags |= IBV_SEND_INLINE;
  } else {
    auto* words = reinterpret_cast<std::uint64_t*>(words_->data);
    auto& word = words[ring_.posted() % ring_.depth()];
    word = work.flag_value;
    *request.sg_list = {reinterpret_cast<std::uint64_t>(&word), 8, words_->lkey};
  }
  if (work.notify) {
    --credits_;
    request.imm_data = htonl(immediate(Immediate::Kind::kFlag));
    request.send_flags |= IBV_SEND_SOLICITED;
  }
  number(request, {SendSlot::Kind::kOperation, true, op}, true);
  return Step::kPosted;
}

VerbsLane::Step VerbsLane::add_atomic(Operation* op, Burst& burst) {
  auto& work = op->scratch<Work>();
  bool adds = op->verb() == Verb::kFetchAdd;
  auto& request = begin(burst, adds ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP);
  request.wr.atomic.rkey = work.target->rkey;
  request.wr.atomic.remote_addr = work.target->region.address + work.offset;
  request.wr.atomic.compare_add = adds ? work.operand : work.compare;
  request.wr.atomic.swap = adds ? 0 : work.operand;
  auto* words = reinterpret_cast<std::uint64_t*>(words_->data);
  *request.sg_list = {reinterpret_cast<std::uint64_t>(&words[ring_.posted() % ring_.depth()]), 8,
                      words_->lkey};
  request.num_sge = 1;
  work.payload_posted = true;
  number(request, {SendSlot::Kind::kOperation, true, op}, true);
  return Step::kPosted;
}

VerbsLane::Step VerbsLane::add_message(Operation* op, Burst& burst) {
  auto& work = op->scratch<Work>();
  if (credits_ == 0) return Step::kHold;
  --credits_;
  auto& request = begin(burst, IBV_WR_SEND_WITH_IMM);
  request.imm_data = htonl(immediate(Immediate::Kind::kMessage));
  request.send_flags |= IBV_SEND_SOLICITED;
  if (work.length > 0) {
    *request.sg_list = {work.source(), static_cast<std::uint32_t>(work.length), work.lkey};
    request.num_sge = 1;
    if (work.length <= inline_bytes_) request.send_flags |= IBV_SEND_INLINE;
  }
  work.payload_posted = true;
  number(request, {SendSlot::Kind::kOperation, true, op}, true);
  return Step::kPosted;
}

std::uint32_t VerbsLane::immediate(Immediate::Kind kind) {
  return encode(
      Immediate{kind, static_cast<std::uint16_t>(owed_.exchange(0, std::memory_order_relaxed))});
}

void VerbsLane::return_credits() {
  if (owed_.load(std::memory_order_relaxed) >= kLaneCredits / 2 && ring_.room() > 0)
    post_notice(Immediate::Kind::kCredits, SendSlot::Kind::kCredits);
}

void VerbsLane::post_notice(Immediate::Kind kind, SendSlot::Kind slot) {
  Burst burst;
  auto& request = begin(burst, IBV_WR_SEND_WITH_IMM);
  request.imm_data = htonl(immediate(kind));
  request.send_flags |= IBV_SEND_SOLICITED;
  number(request, {slot}, slot == SendSlot::Kind::kHello || adapter_.repeats_binds);
  flush(burst);
}

void VerbsLane::post_bind(const Bind& bind) {
  Burst burst;
  auto& request = begin(burst, IBV_WR_BIND_MW);
  request.bind_mw.mw = bind.window;
  request.bind_mw.rkey = bind.rkey;
  request.bind_mw.bind_info = {bind.memory, bind.grant.address, bind.grant.length,
                               static_cast<unsigned>(access_of(bind.grant.rights))};
  SendSlot slot{SendSlot::Kind::kBind};
  slot.key = bind.grant.key;
  number(request, slot, true);
  flush(burst);
}

bool VerbsLane::flush(Burst& burst) {
  ibv_send_wr* bad = nullptr;
  int error = ibv_post_send(qp_.get(), burst.requests, &bad);
  burst.count = 0;
  if (error == 0) return true;
  fail_soon(fail_errno(error, "posting to a queue pair of {} towards {}", adapter_.name, peer_name_)
                .value());
  return false;
}

}  // namespace ferry::fabric::verbs
