// Data path.
#include <sys/epoll.h>

#include <algorithm>

#include "ferry/fabric/verbs/queue_internal.h"

namespace ferry::fabric::verbs {

namespace {
constexpr int kBatch = 32;
}  // namespace

Result<std::unique_ptr<Queue>> Queue::open(Shared& shared, Loop& loop, int index) {
  auto completions = FERRY_TRY(CompletionQueue::open(shared, loop, index));
  int fd = completions->event_fd();
  std::unique_ptr<Queue> queue(new Queue(shared, std::move(completions)));
  loop.add(queue.get());
  FERRY_TRY(loop.watch(fd, EPOLLIN, queue.get(), 0));
  return queue;
}

Queue::~Queue() {
  loop().unwatch(completions_->event_fd());
  loop().remove(this);
  FERRY_ASSERT(lanes_.empty(), "lanes are closed before their provider");
}

Result<std::shared_ptr<VerbsLane>> Queue::make_lane(std::shared_ptr<PeerSession> peer) {
  FERRY_TRY(loop().with_token([&] { return completions_->reserve_on_loop(); }));
  auto lane = VerbsLane::make(shared_, *completions_, *this, std::move(peer));
  loop().with_token([&] {
    if (!lane) return completions_->unreserve_on_loop();
    lanes_.emplace((*lane)->qpn(), *lane);
    last_qpn_ = kNoQpn;
  });
  return lane;
}

void Queue::remove_on_loop(std::uint32_t qpn) {
  lanes_.erase(qpn);
  completions_->unreserve_on_loop();
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

int Queue::progress_on_loop() {
  ibv_wc completions[kBatch];
  int count = completions_->poll_on_loop(completions);
  if (count <= 0) return completions_->any_failing() ? take_failing_down() : 0;
  for (int i = 0; i < count; ++i) {
    const auto& completion = completions[i];
    if (auto* buffer = completions_->take_received_on_loop(completion)) {
      received(completion, buffer);
    } else if (auto* lane = lane_of(completion.qp_num)) {
      lane->sent_on_loop(completion);
    }
  }
  // Room and credits have come: post what waited for them. A lane may be gone by now, and
  // completions of a queue pair that was destroyed may still be here.
  for (int i = 0; i < count; ++i)
    if (auto* lane = lane_of(completions[i].qp_num); lane != nullptr && lane->wants_pump())
      lane->pump_on_loop();
  completions_->top_up_receives_on_loop();
  return count;
}

void Queue::received(const ibv_wc& completion, Buffer* buffer) {
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
  completions_->arm_on_loop(poller, [this] { return idle(); });
}

void Queue::ready_on_loop(std::uint64_t, std::uint32_t) { completions_->take_events_on_loop(); }

int Queue::take_failing_down() {
  completions_->forget_failing_on_loop();
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
  if (completions_->any_failing()) take_failing_down();
}

}  // namespace ferry::fabric::verbs
