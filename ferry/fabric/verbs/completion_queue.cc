// Data path.
#include <fcntl.h>

#include <algorithm>

#include "ferry/base/log.h"
#include "ferry/fabric/verbs/completion_queue_internal.h"

namespace ferry::fabric::verbs {

namespace {

constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;
constexpr int kFirstCompletions = 4096;
constexpr std::uint32_t kMaxReceives = 4096;
constexpr std::uint32_t kSpareReceives = 32;

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::open(Shared& shared, Loop& loop,
                                                               int index) {
  std::unique_ptr<CompletionQueue> queue(new CompletionQueue(shared, loop));
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
  return queue;
}

Status CompletionQueue::reserve_on_loop() {
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
  top_up_receives_on_loop();
  return {};
}

int CompletionQueue::poll_on_loop(std::span<ibv_wc> completions) {
  return ibv_poll_cq(cq_.get(), static_cast<int>(completions.size()), completions.data());
}

Buffer* CompletionQueue::take_received_on_loop(const ibv_wc& completion) {
  if ((completion.wr_id & kReceiveBit) == 0) return nullptr;
  --receives_;
  auto* buffer = reinterpret_cast<Buffer*>(completion.wr_id & ~kReceiveBit);
  buffer->length = completion.status == IBV_WC_SUCCESS ? completion.byte_len : 0;
  return buffer;
}

void CompletionQueue::top_up_receives_on_loop() {
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

void CompletionQueue::request_event_on_loop(bool solicited_only) {
  if (int error = ibv_req_notify_cq(cq_.get(), solicited_only ? 1 : 0))
    logger().error("verbs: arming a completion queue: {}", text_of_errno(error));
}

void CompletionQueue::take_events_on_loop() {
  ibv_cq* cq = nullptr;
  void* unused = nullptr;
  unsigned events = 0;
  while (ibv_get_cq_event(channel_.get(), &cq, &unused) == 0) ++events;
  if (events != 0) ibv_ack_cq_events(cq_.get(), events);
}

}  // namespace ferry::fabric::verbs
