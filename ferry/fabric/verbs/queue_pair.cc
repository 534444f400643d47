#include <sys/random.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "ferry/fabric/verbs/queue_pair_internal.h"

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

Result<QueuePair> QueuePair::open(const Adapter& adapter, const CompletionQueue& completions,
                                  const std::string& peer_name) {
  QueuePair pair(adapter);
  FERRY_TRY(pair.create(completions, peer_name));
  FERRY_TRY(pair.to_init());
  return pair;
}

Status QueuePair::create(const CompletionQueue& completions, const std::string& peer_name) {
  ibv_qp_init_attr attr{};
  attr.send_cq = completions.cq();
  attr.recv_cq = completions.cq();
  attr.srq = completions.srq();
  attr.qp_type = IBV_QPT_RC;
  // Devices differ in how much inline data they take; less is slower, not wrong.
  for (std::uint32_t inlined : {kInlineBytes, 64U, 0U}) {
    attr.cap = {};
    attr.cap.max_send_wr = CompletionQueue::kSendDepth;
    attr.cap.max_send_sge = 1;
    attr.cap.max_inline_data = inlined;
    handle_.reset(ibv_create_qp(adapter_.pd.get(), &attr));
    if (handle_ != nullptr) break;
  }
  if (handle_ == nullptr)
    return fail_errno(errno, "a queue pair on {} towards {}", adapter_.name, peer_name);
  number_ = handle_->qp_num;
  inline_bytes_ = std::min<std::uint32_t>(attr.cap.max_inline_data, kMaxMessage);
  if (getrandom(&psn_, sizeof psn_, 0) != sizeof psn_) psn_ = number_;
  psn_ &= 0xffffff;
  return {};
}

Status QueuePair::to_init() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = adapter_.port;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  if (adapter_.atomics) attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (int error = ibv_modify_qp(handle_.get(), &attr, mask)) {
    handle_.reset();
    return fail_errno(error, "setting a queue pair of {} up", adapter_.name);
  }
  return {};
}

LaneHello QueuePair::hello() const {
  LaneHello hello;
  hello.address = adapter_.address;
  hello.qpn = number_;
  hello.psn = psn_;
  hello.read_depth =
      static_cast<std::uint8_t>(std::min<int>(adapter_.limits.max_qp_rd_atom, kMaxReadDepth));
  hello.credits = kLaneCredits;
  return hello;
}

Status QueuePair::to_ready_to_receive(const LaneHello& peer, const Options& options,
                                      const std::string& peer_name) {
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
  if (int error = ibv_modify_qp(handle_.get(), &attr, mask))
    return fail_errno(error, "connecting a queue pair of {} to {} ({}); is there a route to it?",
                      adapter_.name, peer_name, to_string(peer.address.gid));
  return {};
}

Status QueuePair::to_ready_to_send(const LaneHello& peer, const Options& options,
                                   const std::string& peer_name) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = psn_;
  attr.timeout = ack_timeout(options.patience);
  attr.retry_cnt = kRetries;
  attr.rnr_retry = kReceiverRetries;
  attr.max_rd_atomic = static_cast<std::uint8_t>(
      std::min<int>({adapter_.limits.max_qp_init_rd_atom, peer.read_depth, kMaxReadDepth}));
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC;
  if (int error = ibv_modify_qp(handle_.get(), &attr, mask))
    return fail_errno(error, "making a queue pair of {} to {} ready to send", adapter_.name,
                      peer_name);
  return {};
}

Status QueuePair::connect(const LaneHello& peer, const Options& options,
                          const std::string& peer_name) {
  FERRY_TRY(to_ready_to_receive(peer, options, peer_name));
  return to_ready_to_send(peer, options, peer_name);
}

}  // namespace ferry::fabric::verbs
