#include <sys/random.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "ferry/fabric/verbs/lane_internal.h"

namespace ferry::fabric::verbs {

namespace {

constexpr std::uint32_t kInlineBytes = 220;
constexpr std::uint8_t kMaxReadDepth = 128;
constexpr std::uint8_t kRetries = 7;
constexpr std::uint8_t kReceiverRetries = 6;  // 7 would mean for ever
constexpr std::uint8_t kReceiverTimer = 24;   // 41 ms
constexpr std::uint8_t kAckTimeout = 14;      // 67 ms, doubled with every doubling of the patience
constexpr std::uint8_t kHopLimit = 64;

std::uint8_t ack_timeout(double patience) {
  double doublings = std::ceil(std::log2(std::max(patience, 1.0)));
  return static_cast<std::uint8_t>(std::min(kAckTimeout + doublings, 21.0));
}

}  // namespace

VerbsLane::VerbsLane(Shared& shared, CompletionQueue& completions, Dispatcher& dispatcher,
                     std::shared_ptr<PeerSession> peer)
    : Lane(completions.loop()),
      shared_(shared),
      completions_(completions),
      dispatcher_(dispatcher),
      adapter_(*shared_.adapter),
      session_number_(peer->number()),
      peer_name_(peer->identity().endpoint),
      ring_(CompletionQueue::kSendDepth),
      session_(std::move(peer)) {}

Result<std::shared_ptr<VerbsLane>> VerbsLane::make(Shared& shared, CompletionQueue& completions,
                                                   Dispatcher& dispatcher,
                                                   std::shared_ptr<PeerSession> peer) {
  std::shared_ptr<VerbsLane> lane(new VerbsLane(shared, completions, dispatcher, std::move(peer)));
  lane->words_ = FERRY_TRY(shared.buffers.take());
  FERRY_TRY(lane->create_queue_pair());
  FERRY_TRY(lane->to_init());
  lane->capabilities_ = {true, false, false, lane->adapter_.atomics, kMaxMessage};
  lane->capabilities_.tail_flag =
      ibv_query_qp_data_in_order(lane->qp_.get(), IBV_WR_RDMA_WRITE, 0) != 0;
  return lane;
}

VerbsLane::~VerbsLane() {
  FERRY_ASSERT(qp_ == nullptr, "a lane is closed before it is dropped");
  if (words_ != nullptr) shared_.buffers.give(words_);
  LockGuard<SpinLock> guard(inbox_lock_);
  while (oldest_ != nullptr) shared_.buffers.give(std::exchange(oldest_, oldest_->next));
}

Status VerbsLane::create_queue_pair() {
  ibv_qp_init_attr attr{};
  attr.send_cq = completions_.cq();
  attr.recv_cq = completions_.cq();
  attr.srq = completions_.srq();
  attr.qp_type = IBV_QPT_RC;
  // Devices differ in how much inline data they take; less is slower, not wrong.
  for (std::uint32_t inlined : {kInlineBytes, 64U, 0U}) {
    attr.cap = {};
    attr.cap.max_send_wr = CompletionQueue::kSendDepth;
    attr.cap.max_send_sge = 1;
    attr.cap.max_inline_data = inlined;
    qp_.reset(ibv_create_qp(adapter_.pd.get(), &attr));
    if (qp_ != nullptr) break;
  }
  if (qp_ == nullptr)
    return fail_errno(errno, "a queue pair on {} towards {}", adapter_.name, peer_name_);
  qpn_ = qp_->qp_num;
  inline_bytes_ = std::min<std::uint32_t>(attr.cap.max_inline_data, kMaxMessage);
  if (getrandom(&psn_, sizeof psn_, 0) != sizeof psn_) psn_ = qpn_;
  psn_ &= 0xffffff;
  return {};
}

Status VerbsLane::to_init() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = adapter_.port;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  if (adapter_.atomics) attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (int error = ibv_modify_qp(qp_.get(), &attr, mask)) {
    qp_.reset();
    return fail_errno(error, "setting a queue pair of {} up", adapter_.name);
  }
  return {};
}

LaneHello VerbsLane::hello() const {
  LaneHello hello;
  hello.address = adapter_.address;
  hello.qpn = qpn_;
  hello.psn = psn_;
  hello.read_depth =
      static_cast<std::uint8_t>(std::min<int>(adapter_.limits.max_qp_rd_atom, kMaxReadDepth));
  hello.credits = kLaneCredits;
  return hello;
}

Status VerbsLane::to_ready_to_receive(const LaneHello& peer) {
  const auto& options = *shared_.context.options;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(std::min(adapter_.address.mtu, peer.address.mtu));
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = hello().read_depth;
  attr.min_rnr_timer = kReceiverTimer;
  attr.ah_attr.port_num = adapter_.port;
  attr.ah_attr.sl = static_cast<std::uint8_t>(options.service_level);
  attr.ah_attr.dlid = peer.address.lid;
  bool same_subnet = std::equal(peer.address.gid.begin(), peer.address.gid.begin() + 8,
                                adapter_.address.gid.begin());
  if (peer.address.ethernet || !same_subnet || peer.address.lid == 0) {
    attr.ah_attr.is_global = 1;
    std::memcpy(attr.ah_attr.grh.dgid.raw, peer.address.gid.data(), peer.address.gid.size());
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(adapter_.gid.index);
    attr.ah_attr.grh.hop_limit = kHopLimit;
    attr.ah_attr.grh.traffic_class = static_cast<std::uint8_t>(options.traffic_class);
  }
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (int error = ibv_modify_qp(qp_.get(), &attr, mask))
    return fail_errno(error, "connecting a queue pair of {} to {} ({}); is there a route to it?",
                      adapter_.name, peer_name_, to_string(peer.address.gid));
  return {};
}

Status VerbsLane::to_ready_to_send(const LaneHello& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = psn_;
  attr.timeout = ack_timeout(shared_.context.options->patience);
  attr.retry_cnt = kRetries;
  attr.rnr_retry = kReceiverRetries;
  attr.max_rd_atomic = static_cast<std::uint8_t>(
      std::min<int>({adapter_.limits.max_qp_init_rd_atom, peer.read_depth, kMaxReadDepth}));
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC;
  if (int error = ibv_modify_qp(qp_.get(), &attr, mask))
    return fail_errno(error, "making a queue pair of {} to {} ready to send", adapter_.name,
                      peer_name_);
  return {};
}

Status VerbsLane::meet(const LaneHello& peer) {
  FERRY_TRY(to_ready_to_receive(peer));
  FERRY_TRY(to_ready_to_send(peer));
  LockGuard<SpinLock> guard(lock_);
  peer_qpn_ = peer.qpn;
  credits_ = peer.credits;
  if (state_.load(std::memory_order_relaxed) == State::kDown)
    return fail(Code::kUnavailable, "the lane was closed while it was connecting");
  state_.store(State::kUp, std::memory_order_release);
  return {};
}

Status VerbsLane::greet(Deadline deadline) {
  {
    LockGuard<SpinLock> guard(lock_);
    if (up()) post_notice(Immediate::Kind::kHello, SendSlot::Kind::kHello);
  }
  auto settled = [this] { return greeted_.load(std::memory_order_acquire) || !up(); };
  if (loop().wait_until(settled, deadline, WaitMode::kAdaptive) && up()) return {};
  if (!up()) return tl::unexpected(down_error());
  return fail(Code::kDeadlineExceeded, "{} does not answer over {} ({}); are both on one network?",
              peer_name_, adapter_.name, to_string(adapter_.address.gid));
}

}  // namespace ferry::fabric::verbs
