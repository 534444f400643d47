// Data path.
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>

#include "ferry/base/log.h"
#include "ferry/fabric/verbs/lane_internal.h"
#include "ferry/fabric/verbs/queue_internal.h"

namespace ferry::fabric::verbs {

namespace {

constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;
constexpr int kFirstCompletions = 4096;
constexpr std::uint32_t kMaxReceives = 4096;
constexpr std::uint32_t kSpareReceives = 32;
constexpr int kBatch = 32;

}  // namespace

Result<std::unique_ptr<Queue>> Queue::open(Shared& shared, Loop& loop, int index) {
  std::unique_ptr<Queue> queue(new Queue(shared, loop));
  auto& adapter = *shared.adapter;
  auto* context = adapter.context.get();
  queue->channel_.reset(ibv_create_comp_channel(context));
  if (queue->channel_ == nullptr)
    return fail_errno(errno, "a completion channel on {}", adapter.name);
  int fd = queue->channel_->fd;
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
    return fail_errno(errno, "making the completion channel of {} non-blocking", adapter.name);
  int size = std::min(kFirstCompletions, adapter.limits.max_cqe);
  int vector = index % std::max(context->num_comp_vectors, 1);
  queue->cq_.reset(ibv_create_cq(context, size, nullptr, queue->channel_.get(), vector));
  if (queue->cq_ == nullptr)
    return fail_errno(errno, "a queue of {} completions on {}", size, adapter.name);
  ibv_srq_init_attr srq{};
  queue->max_receives_ =
      std::min(kMaxReceives, static_cast<std::uint32_t>(adapter.limits.max_srq_wr));
  srq.attr.max_wr = queue->max_receives_;
  srq.attr.max_sge = 1;
  queue->srq_.reset(ibv_create_srq(adapter.pd.get(), &srq));
  if (queue->srq_ == nullptr)
    return fail_errno(errno, "a shared queue of {} receives on {}", srq.attr.max_wr, adapter.name);
  loop.add(queue.get());
  FERRY_TRY(loop.watch(fd, EPOLLIN, queue.get(), 0));
  return queue;
}

Queue::~Queue() {
  if (channel_ != nullptr) loop_.unwatch(channel_->fd);
  loop_.remove(this);
  FERRY_ASSERT(lanes_.empty(), "lanes are closed before their provider");
}

Status Queue::reserve_on_loop() {
  // Every request of every lane, and every receive, may complete before anybody polls.
  auto& adapter = *shared_.adapter;
  auto need = static_cast<std::uint64_t>(lanes_reserved_ + 1) * kSendDepth + max_receives_;
  if (need > static_cast<std::uint64_t>(cq_->cqe)) {
    auto limit = static_cast<std::uint64_t>(adapter.limits.max_cqe);
    if (need > limit)
      return fail(Code::kResourceExhausted,
                  "{} lanes are all that a completion queue of {} can hold ({} entries); open the "
                  "device with more completion queues",
                  lanes_reserved_, adapter.name, limit);
    int size = static_cast<int>(std::min(limit, need * 2));
    if (int error = ibv_resize_cq(cq_.get(), size))
      return fail_errno(error, "growing a completion queue of {} to {}", adapter.name, size);
  }
  lanes_reserved_ += 1;
  top_up_receives();
  return {};
}

void Queue::add_on_loop(std::uint32_t qpn, std::shared_ptr<VerbsLane> lane) {
  lanes_.emplace(qpn, std::move(lane));
  last_qpn_ = kNoQpn;
}

void Queue::remove_on_loop(std::uint32_t qpn) {
  lanes_.erase(qpn);
  lanes_reserved_ -= 1;
  last_qpn_ = kNoQpn;
}

VerbsLane* Queue::lane_of(std::uint32_t qpn) {
  if (qpn != last_qpn_) {
    auto found = lanes_.find(qpn);
    last_lane_ = found == lanes_.end() ? nullptr : found->second.get();
    last_qpn_ = qpn;
  }
  return last_lane_;
}

void Queue::top_up_receives() {
  auto wanted = std::min(max_receives_, lanes_reserved_ * (kLaneCredits + 4u) + kSpareReceives);
  while (receives_ < wanted) {
    auto buffer = shared_.buffers.take();
    if (!buffer) {
      logger().error("verbs: {}", buffer.error().to_string());
      return;
    }
    ibv_sge sge{reinterpret_cast<std::uint64_t>((*buffer)->data), kMaxMessage, (*buffer)->lkey};
    ibv_recv_wr request{};
    request.wr_id = reinterpret_cast<std::uint64_t>(*buffer) | kReceiveBit;
    request.sg_list = &sge;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (int error = ibv_post_srq_recv(srq_.get(), &request, &bad)) {
      logger().error("verbs: posting a receive: {}", text_of_errno(error));
      shared_.buffers.give(*buffer);
      return;
    }
    ++receives_;
  }
}

int Queue::progress_on_loop() {
  ibv_wc completions[kBatch];
  int count = ibv_poll_cq(cq_.get(), kBatch, completions);
  if (count <= 0) return failing_.load(std::memory_order_acquire) ? take_failing_down() : 0;
  for (int i = 0; i < count; ++i) {
    const auto& completion = completions[i];
    if ((completion.wr_id & kReceiveBit) != 0) {
      received(completion);
    } else if (auto* lane = lane_of(completion.qp_num)) {
      lane->sent_on_loop(completion);
    }
  }
  // Room and credits have come: post what waited for them. A lane may be gone by now, and
  // completions of a queue pair that was destroyed may still be here.
  for (int i = 0; i < count; ++i)
    if (auto* lane = lane_of(completions[i].qp_num); lane != nullptr && lane->wants_pump())
      lane->pump_on_loop();
  top_up_receives();
  return count;
}

void Queue::received(const ibv_wc& completion) {
  --receives_;
  auto* buffer = reinterpret_cast<Buffer*>(completion.wr_id & ~kReceiveBit);
  buffer->length = completion.status == IBV_WC_SUCCESS ? completion.byte_len : 0;
  VerbsLane* lane = lane_of(completion.qp_num);
  if (lane == nullptr || completion.status != IBV_WC_SUCCESS ||
      lane->received_on_loop(completion, buffer) == VerbsLane::Received::kDone)
    shared_.buffers.give(buffer);
}

bool Queue::idle() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
    return lane.second->nothing_posted() && !lane.second->wants_pump();
  });
}

void Queue::arm_on_loop(bool poller) {
  armed_lightly_.store(poller, std::memory_order_seq_cst);
  // Forgotten first: whoever wants one after the look at the lanes says so again.
  if (event_wanted_.exchange(false, std::memory_order_seq_cst) && !idle())
    event_wanted_.store(true, std::memory_order_seq_cst);
  bool lightly = poller && !event_wanted_.load(std::memory_order_seq_cst);
  if (int error = ibv_req_notify_cq(cq_.get(), lightly ? 1 : 0))
    logger().error("verbs: arming a completion queue: {}", text_of_errno(error));
}

void Queue::ready_on_loop(std::uint64_t, std::uint32_t) {
  ibv_cq* cq = nullptr;
  void* unused = nullptr;
  unsigned events = 0;
  while (ibv_get_cq_event(channel_.get(), &cq, &unused) == 0) ++events;
  if (events != 0) ibv_ack_cq_events(cq_.get(), events);
}

int Queue::take_failing_down() {
  failing_.store(false, std::memory_order_relaxed);
  std::vector<std::shared_ptr<VerbsLane>> lanes;
  for (auto& [qpn, lane] : lanes_)
    if (lane->failing()) lanes.push_back(lane);
  for (auto& lane : lanes) lane->take_down_on_loop();
  return static_cast<int>(lanes.size());
}

void Queue::tick_on_loop(std::int64_t now) {
  if (shared_.exposures.revoking()) shared_.exposures.tick(now);
  scratch_.clear();
  for (auto& [qpn, lane] : lanes_) scratch_.push_back(lane);
  for (auto& lane : scratch_) lane->tick_on_loop(now);
  scratch_.clear();
  if (failing_.load(std::memory_order_acquire)) take_failing_down();
}

}  // namespace ferry::fabric::verbs
