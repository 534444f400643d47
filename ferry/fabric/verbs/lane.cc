// Data path.
#include <arpa/inet.h>

#include "ferry/fabric/verbs/lane_internal.h"

namespace ferry::fabric::verbs {

VerbsLane::VerbsLane(Shared& shared, CompletionQueue& completions, Dispatcher& dispatcher,
                     std::shared_ptr<PeerSession> session, QueuePair pair, Buffer* words)
    : Lane(completions.loop()),
      shared_(shared),
      completions_(completions),
      dispatcher_(dispatcher),
      adapter_(*shared.adapter),
      peer_(std::move(session)),
      pair_(std::move(pair)),
      capabilities_{true, false, pair_.writes_in_order(), adapter_.atomics, kMaxMessage},
      ring_(CompletionQueue::kSendDepth),
      words_(shared.buffers, words, CompletionQueue::kSendDepth),
      teardown_(completions, peer_.name()),
      backlog_(completions, {adapter_, peer_, pair_, ring_, credits_, words_, teardown_}),
      inbox_(shared.buffers) {}

Result<std::shared_ptr<VerbsLane>> VerbsLane::make(Shared& shared, CompletionQueue& completions,
                                                   Dispatcher& dispatcher,
                                                   std::shared_ptr<PeerSession> session) {
  auto pair =
      FERRY_TRY(QueuePair::open(*shared.adapter, completions, session->identity().endpoint));
  auto* words = FERRY_TRY(shared.buffers.take());
  return std::shared_ptr<VerbsLane>(
      new VerbsLane(shared, completions, dispatcher, std::move(session), std::move(pair), words));
}

VerbsLane::~VerbsLane() {
  FERRY_ASSERT(pair_.destroyed(), "a lane is closed before it is dropped");
}

Status VerbsLane::meet(const LaneHello& peer) {
  FERRY_TRY(pair_.connect(peer, *shared_.context.options, peer_.name()));
  peer_.set_qpn(peer.qpn);
  if (!backlog_.open(peer.credits))
    return fail(Code::kUnavailable, "the lane was closed while it was connecting");
  return {};
}

Status VerbsLane::greet(Deadline deadline) {
  backlog_.post_hello();
  auto settled = [this] { return greeted_.load(std::memory_order_acquire) || !up(); };
  if (loop().wait_until(settled, deadline, WaitMode::kAdaptive) && up()) return {};
  if (!up()) return tl::unexpected(teardown_.cause());
  return fail(Code::kDeadlineExceeded, "{} does not answer over {} ({}); are both on one network?",
              peer_.name(), adapter_.name, to_string(adapter_.address.gid));
}

Transfer VerbsLane::post(Request& request) {
  if (!up()) return Transfer::failed(teardown_.cause());
  if (!adapter_.atomics && (request.verb == Verb::kFetchAdd || request.verb == Verb::kCompareSwap))
    return Transfer::failed(
        fail(Code::kUnimplemented, "{} has no atomics; use tcp or shm", adapter_.name).value());
  bool told = static_cast<bool>(request.callback);
  Operation* op = shared_.context.operations->make(request, loop());
  auto& work = begin_work(*op, request);
  completions_.operation_began();
  if (auto mapped = map_local(shared_, pair_.inline_bytes(), request.verb, work); !mapped) {
    end(op, std::move(mapped));
    return Transfer::pending(op);
  }
  Failures failures;
  Backlog::Asks asks;
  if (!backlog_.add(op, request, asks, failures)) failures.push_back({op, teardown_.cause()});
  if (told) completions_.event_wanted();
  for (int i = 0; i < asks.count; ++i) tell_owner(Notice::Kind::kResolve, asks.regions[i]);
  end_all(failures);
  return Transfer::pending(op);
}

void VerbsLane::end(Operation* op, Status status, std::uint64_t value) {
  auto& work = op->scratch<Work>();
  unmap_local(shared_, status && op->verb() == Verb::kRead, work);
  drop_user(work.target);
  drop_user(work.flag_target);
  completions_.operation_ended();
  op->finish(std::move(status), value);
}

void VerbsLane::end_all(const Failures& failures) {
  for (const auto& failure : failures) end(failure.op, tl::unexpected(failure.error));
}

void VerbsLane::drop_user(PeerGrant* grant) {
  if (grant == nullptr) return;
  const RemoteRegion region = grant->region;
  if (backlog_.drop_user(*grant, region)) tell_owner(Notice::Kind::kForgotten, region);
}

void VerbsLane::tell_owner(Notice::Kind kind, const RemoteRegion& region) {
  Notice notice;
  notice.kind = kind;
  notice.region = region;
  tell(std::move(notice));
}

Result<std::size_t> VerbsLane::take_message(std::span<std::byte> into) {
  auto length = inbox_.take(into);
  if (length && credits_.owe()) backlog_.return_credits();
  return length;
}

void VerbsLane::resolved(const Notice& notice) {
  Failures failures;
  std::unique_ptr<PeerGrant> unknown;  // until its users have ended
  if (!backlog_.resolve(notice, unknown, failures)) return;
  end_all(failures);
  loop().notify();
}

void VerbsLane::forget(const RemoteRegion& region) {
  Failures failures;
  if (backlog_.forget(region, failures)) tell_owner(Notice::Kind::kForgotten, region);
  if (failures.empty()) return;
  end_all(failures);
  loop().notify();
}

void VerbsLane::bind(const Bind& bind) {
  Failures failures;
  if (!backlog_.add_bind(bind, failures)) return;
  completions_.event_wanted();
  end_all(failures);
}

void VerbsLane::pump_on_loop() {
  Failures failures;
  backlog_.pump_on_loop(failures);
  end_all(failures);
}

void VerbsLane::complete_on_loop(const SendSlot& slot, std::uint64_t number) {
  switch (slot.kind) {
    case SendSlot::Kind::kOperation: {
      if (!slot.last) return;
      auto verb = slot.op->verb();
      bool atomic = verb == Verb::kFetchAdd || verb == Verb::kCompareSwap;
      end(slot.op, {}, atomic ? words_.load(number) : 0);
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
  if (immediate->credits != 0) credits_.add_returned(immediate->credits);
  switch (immediate->kind) {
    case Immediate::Kind::kMessage:
      if (!inbox_.put(buffer))
        protocol_broken(
            fail(Code::kInvalidArgument, "more than {} messages without credit", kLaneCredits)
                .value());
      return Received::kHeld;
    case Immediate::Kind::kFlag:
      if (credits_.owe()) backlog_.ask_for_pump();
      return Received::kDone;
    case Immediate::Kind::kCredits:
    case Immediate::Kind::kHello:
      break;
  }
  return Received::kDone;
}

}  // namespace ferry::fabric::verbs
