// Data path.
#include <arpa/inet.h>

#include "ferry/fabric/verbs/send_queue_internal.h"

namespace ferry::fabric::verbs {

namespace {
// Work requests handed to the device at a time.
constexpr int kBurst = 8;
// Room that operations leave for credits and binds.
constexpr std::uint32_t kReserve = 8;
}  // namespace

struct SendQueue::Burst {
  ibv_send_wr requests[kBurst];
  ibv_sge pieces[kBurst];
  int count = 0;
};

bool SendQueue::has_room() const { return parts_.ring.room() > kReserve; }

bool SendQueue::can_bind() const {
  const auto& ring = parts_.ring;
  return parts_.adapter.repeats_binds ? ring.room() == ring.depth() : ring.room() > 0;
}

SendQueue::Outcome SendQueue::post(Operation* op) {
  for (;;) {
    Burst burst;
    auto outcome = Outcome::kMore;
    while (outcome == Outcome::kMore && burst.count < kBurst)
      outcome = has_room() ? add_next(op, burst) : Outcome::kNoRoom;
    if (burst.count > 0 && !flush(burst))
      return outcome == Outcome::kPosted || outcome == Outcome::kNoRoom ? outcome
                                                                        : Outcome::kRefused;
    if (outcome != Outcome::kMore) return outcome;
  }
}

SendQueue::Outcome SendQueue::add_next(Operation* op, Burst& burst) {
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

ibv_send_wr& SendQueue::begin(Burst& burst, ibv_wr_opcode opcode) {
  auto& request = burst.requests[burst.count];
  request = {};
  if (burst.count > 0) burst.requests[burst.count - 1].next = &request;
  request.opcode = opcode;
  request.sg_list = &burst.pieces[burst.count];
  ++burst.count;
  return request;
}

void SendQueue::add_immediate(ibv_send_wr& request, Immediate::Kind kind) {
  request.imm_data = htonl(encode(Immediate{kind, parts_.credits.take_owed()}));
  request.send_flags |= IBV_SEND_SOLICITED;
}

void SendQueue::number(ibv_send_wr& request, const SendSlot& slot, bool signal) {
  if (signal || parts_.ring.must_signal()) request.send_flags |= IBV_SEND_SIGNALED;
  request.wr_id = parts_.ring.push(slot);
}

SendQueue::Outcome SendQueue::add_payload(Operation* op, Burst& burst) {
  auto& work = op->scratch<Work>();
  bool writes = op->verb() == Verb::kWrite;
  auto piece = segment_at(work.posted, work.length, parts_.adapter.max_segment);
  auto& request = begin(burst, writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ);
  request.wr.rdma.rkey = work.target->rkey;
  request.wr.rdma.remote_addr = work.target->region.address + work.offset + piece.offset;
  if (piece.length > 0) {
    *request.sg_list = {work.source() + piece.offset, piece.length, work.lkey};
    request.num_sge = 1;
    if (writes && work.length <= parts_.pair.inline_bytes()) request.send_flags |= IBV_SEND_INLINE;
  }
  work.posted += piece.length;
  work.payload_posted = piece.last;
  bool last = piece.last && work.flag_target == nullptr;
  number(request, {SendSlot::Kind::kOperation, last, op}, last);
  return last ? Outcome::kPosted : Outcome::kMore;
}

SendQueue::Outcome SendQueue::add_flag(Operation* op, Burst& burst) {
  auto& work = op->scratch<Work>();
  if (work.notify && !parts_.credits.has_left()) return Outcome::kNoCredits;
  auto& request = begin(burst, work.notify ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE);
  request.wr.rdma.rkey = work.flag_target->rkey;
  request.wr.rdma.remote_addr = work.flag_target->region.address + work.flag_offset;
  *request.sg_list = {reinterpret_cast<std::uint64_t>(&work.flag_value), 8, 0};
  request.num_sge = 1;
  if (parts_.pair.inline_bytes() >= 8) {
    request.send_flags |= IBV_SEND_INLINE;
  } else {
    parts_.words.store(parts_.ring.posted(), work.flag_value);
    *request.sg_list = parts_.words.piece(parts_.ring.posted());
  }
  if (work.notify) {
    parts_.credits.spend();
    add_immediate(request, Immediate::Kind::kFlag);
  }
  number(request, {SendSlot::Kind::kOperation, true, op}, true);
  return Outcome::kPosted;
}

SendQueue::Outcome SendQueue::add_atomic(Operation* op, Burst& burst) {
  auto& work = op->scratch<Work>();
  bool adds = op->verb() == Verb::kFetchAdd;
  auto& request = begin(burst, adds ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP);
  request.wr.atomic.rkey = work.target->rkey;
  request.wr.atomic.remote_addr = work.target->region.address + work.offset;
  request.wr.atomic.compare_add = adds ? work.operand : work.compare;
  request.wr.atomic.swap = adds ? 0 : work.operand;
  *request.sg_list = parts_.words.piece(parts_.ring.posted());
  request.num_sge = 1;
  work.payload_posted = true;
  number(request, {SendSlot::Kind::kOperation, true, op}, true);
  return Outcome::kPosted;
}

SendQueue::Outcome SendQueue::add_message(Operation* op, Burst& burst) {
  auto& work = op->scratch<Work>();
  if (!parts_.credits.has_left()) return Outcome::kNoCredits;
  parts_.credits.spend();
  auto& request = begin(burst, IBV_WR_SEND_WITH_IMM);
  add_immediate(request, Immediate::Kind::kMessage);
  if (work.length > 0) {
    *request.sg_list = {work.source(), static_cast<std::uint32_t>(work.length), work.lkey};
    request.num_sge = 1;
    if (work.length <= parts_.pair.inline_bytes()) request.send_flags |= IBV_SEND_INLINE;
  }
  work.payload_posted = true;
  number(request, {SendSlot::Kind::kOperation, true, op}, true);
  return Outcome::kPosted;
}

void SendQueue::post_hello() { post_notice(Immediate::Kind::kHello, SendSlot::Kind::kHello); }

void SendQueue::return_credits() {
  if (parts_.credits.due() && parts_.ring.room() > 0)
    post_notice(Immediate::Kind::kCredits, SendSlot::Kind::kCredits);
}

void SendQueue::post_notice(Immediate::Kind kind, SendSlot::Kind slot) {
  Burst burst;
  auto& request = begin(burst, IBV_WR_SEND_WITH_IMM);
  add_immediate(request, kind);
  number(request, {slot}, slot == SendSlot::Kind::kHello || parts_.adapter.repeats_binds);
  flush(burst);
}

void SendQueue::post_bind(const Bind& bind) {
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

bool SendQueue::flush(Burst& burst) {
  int error = parts_.pair.post(burst.requests);
  burst.count = 0;
  if (error == 0) return true;
  parts_.teardown.request(fail_errno(error, "posting to a queue pair of {} towards {}",
                                     parts_.adapter.name, parts_.peer.name())
                              .value());
  return false;
}

}  // namespace ferry::fabric::verbs
