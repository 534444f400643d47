// Data path.
#include <sys/epoll.h>

#include <algorithm>

#include "ferry/base/waiting.h"
#include "ferry/fabric/tcp/source_internal.h"

namespace ferry::fabric::tcp {

SocketSource::~SocketSource() {
  loop_.remove(this);
  answer_calls();
  answer_quiet();
}

Status SocketSource::add(std::shared_ptr<TcpLane> lane) {
  lane->cookie_ = next_cookie_++;
  FERRY_TRY(loop_.watch(lane->socket_.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, this,
                        lane->cookie_));
  heat(*lane);
  lanes_.emplace(lane->cookie_, std::move(lane));
  tell_loop();
  return {};
}

void SocketSource::remove(TcpLane& lane) {
  answer_calls();  // it may be in the stack
  loop_.unwatch(lane.socket_.get());
  std::replace(hot_.begin(), hot_.end(), &lane, static_cast<TcpLane*>(nullptr));
  lanes_.erase(lane.cookie_);
  tell_loop();
}

void SocketSource::tell_loop() {
  loop_.costly_iterations_on_loop(!lanes_.empty());
  loop_.ask_always_on_loop(lanes_.size() > waiting::kLanesTried);
}

void SocketSource::heat(TcpLane& lane) {
  lane.idle_ = 0;
  if (lane.hot_ || lane.shut_) return;
  lane.hot_ = true;
  hot_.push_back(&lane);
}

std::vector<std::shared_ptr<TcpLane>> SocketSource::lanes() const {
  std::vector<std::shared_ptr<TcpLane>> all;
  for (const auto& [cookie, lane] : lanes_) all.push_back(lane);
  return all;
}

void SocketSource::call(TcpLane& lane) {
  if (lane.called_.load(std::memory_order_relaxed) ||
      lane.called_.exchange(true, std::memory_order_acq_rel))
    return;
  lane.called_self_ = lane.shared_from_this();
  auto* head = called_.load(std::memory_order_relaxed);
  do {
    lane.next_called_ = head;
  } while (!called_.compare_exchange_weak(head, &lane, std::memory_order_acq_rel));
}

void SocketSource::answer_calls() {
  if (called_.load(std::memory_order_relaxed) == nullptr) return;
  auto* lane = called_.exchange(nullptr, std::memory_order_acq_rel);
  while (lane != nullptr) {
    auto* next = lane->next_called_;
    auto self = std::move(lane->called_self_);
    lane->called_.store(false, std::memory_order_release);
    heat(*lane);
    lane = next;
  }
}

void SocketSource::when_quiet(std::function<void()> quiet) {
  {
    LockGuard<Mutex> guard(quiet_lock_);
    quiet_.push_back(std::move(quiet));
    quiet_asked_.store(true, std::memory_order_release);
  }
  loop_.try_progress();
  // Somebody else holds the token, or this thread does: whoever is next answers.
  if (quiet_asked_.load(std::memory_order_acquire)) loop_.notify();
}

void SocketSource::answer_quiet() {
  std::vector<std::function<void()>> asked;
  {
    LockGuard<Mutex> guard(quiet_lock_);
    asked.swap(quiet_);
    quiet_asked_.store(false, std::memory_order_release);
  }
  // Bytes are placed under the token only, and sent by one thread at a time: when that one has
  // paused once, whoever sends next finds the grant gone.
  for (const auto& [cookie, lane] : lanes_) lane->wait_until_quiet();
  for (auto& quiet : asked) quiet();
}

int SocketSource::progress_on_loop() {
  if (quiet_asked_.load(std::memory_order_relaxed)) answer_quiet();
  answer_calls();
  int work = 0;
  std::size_t kept = 0;
  bool few = hot_.size() <= waiting::kLanesTried;
  for (std::size_t i = 0; i < hot_.size(); ++i) {  // callbacks may make more lanes hot
    TcpLane* lane = hot_[i];
    if (lane == nullptr) continue;
    int done = lane->progress_on_loop(few);
    if (hot_[i] == nullptr) continue;  // it was shut
    work += done;
    lane->idle_ = done != 0 ? 0 : lane->idle_ + 1;
    lane->hot_ = lane->idle_ < waiting::kHotTries || lane->has_work_on_loop();
    if (lane->hot_) hot_[kept++] = lane;
  }
  hot_.resize(kept);
  if (work == 0 && lanes_.size() <= waiting::kLanesTried && ++idle_ % waiting::kColdTryEvery == 0)
    work += try_a_cold_one();
  return work;
}

int SocketSource::try_a_cold_one() {
  if (hot_.size() == lanes_.size() || lanes_.empty()) return 0;
  auto found = lanes_.lower_bound(next_cold_);
  if (found == lanes_.end()) found = lanes_.begin();
  next_cold_ = found->first + 1;
  if (found->second->hot_) return 0;
  auto lane = found->second;
  int done = lane->progress_on_loop(true);
  if (done != 0) heat(*lane);
  return done;
}

void SocketSource::arm_on_loop(bool) {
  answer_calls();
  for (std::size_t i = 0; i < hot_.size(); ++i)
    if (hot_[i] != nullptr) hot_[i]->arm_on_loop();
}

void SocketSource::ready_on_loop(std::uint64_t cookie, std::uint32_t epoll_events) {
  auto found = lanes_.find(cookie);
  if (found == lanes_.end()) return;
  found->second->ready_on_loop(epoll_events);
  heat(*found->second);
}

void SocketSource::tick_on_loop(std::int64_t now) {
  // A tick may shut lanes.
  for (const auto& lane : lanes()) lane->tick_on_loop(now);
}

}  // namespace ferry::fabric::tcp
