// Data path.
#pragma once

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ferry/base/waiting.h"
#include "ferry/fabric/loop_internal.h"

namespace ferry::fabric::tcp {

// What a source keeps in each of its lanes. Of the token's holder, but for the atomics.
template <class LaneType>
struct SourceEntry {
  std::uint64_t cookie = 0;
  unsigned idle = 0;             // looks in a row that found nothing
  std::atomic<bool> hot{false};  // written by the token's holder, read by whoever posts
  // Whether the lane is in the source's stack of lanes to look at, which keeps it alive meanwhile.
  std::atomic<bool> called{false};
  std::shared_ptr<LaneType> called_self;
  LaneType* next_called = nullptr;
};

// The sockets of one loop.
//
// Every socket is watched by the loop's epoll, edge-triggered, so that a sleeping loop costs
// nothing per idle lane. A spinning one that has few lanes does not ask epoll: it tries the hot
// ones, those with recent traffic, directly, and the others one at a time now and then. With many
// lanes it asks epoll at every iteration, and with many hot ones it tries none that epoll did not
// name.
//
// A template, so that the loop calls lanes without a virtual call and this file knows nothing of
// them: a lane has fd(), in_source(), wait_until_quiet() and the methods on the loop that are
// called here.
template <class LaneType>
class SocketSource final : public Loop::Source {
 public:
  explicit SocketSource(Loop& loop) : loop_(loop) { loop_.add(this); }
  ~SocketSource() override;

  Loop& loop() { return loop_; }
  std::span<std::byte> dump() { return dump_; }
  std::atomic<std::int64_t>& pending() { return pending_; }

  int progress_on_loop() override;
  void arm_on_loop(bool poller) override;
  void ready_on_loop(std::uint64_t cookie, std::uint32_t epoll_events) override;
  void tick_on_loop(std::int64_t now) override;
  bool has_pending() const override { return pending_.load(std::memory_order_relaxed) > 0; }

  // With the token.
  Status add(std::shared_ptr<LaneType> lane);
  void remove(LaneType& lane);
  void heat(LaneType& lane);
  std::vector<std::shared_ptr<LaneType>> lanes() const;

  // Any thread, also one that holds the token: calls `quiet` once no thread uses the memory of a
  // grant that was removed before.
  void when_quiet(std::function<void()> quiet);

  // Any thread: this lane has work of which no event will tell.
  void call(LaneType& lane);

 private:
  void tell_loop();
  void answer_calls();
  int try_a_cold_one();
  void answer_quiet();

  Loop& loop_;
  std::map<std::uint64_t, std::shared_ptr<LaneType>> lanes_;  // by cookie
  std::vector<LaneType*> hot_;
  std::uint64_t next_cookie_ = 1;
  std::uint64_t next_cold_ = 0;
  unsigned idle_ = 0;
  std::atomic<LaneType*> called_{nullptr};
  std::atomic<std::int64_t> pending_{0};
  Mutex quiet_lock_;
  std::vector<std::function<void()>> quiet_ FERRY_GUARDED_BY(quiet_lock_);
  std::atomic<bool> quiet_asked_{false};
  std::array<std::byte, 65536> dump_;
};

template <class LaneType>
SocketSource<LaneType>::~SocketSource() {
  loop_.remove(this);
  answer_calls();
  answer_quiet();
}

template <class LaneType>
Status SocketSource<LaneType>::add(std::shared_ptr<LaneType> lane) {
  lane->in_source().cookie = next_cookie_++;
  FERRY_TRY(loop_.watch(lane->fd(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, this,
                        lane->in_source().cookie));
  heat(*lane);
  lanes_.emplace(lane->in_source().cookie, std::move(lane));
  tell_loop();
  return {};
}

template <class LaneType>
void SocketSource<LaneType>::remove(LaneType& lane) {
  answer_calls();  // it may be in the stack
  loop_.unwatch(lane.fd());
  std::replace(hot_.begin(), hot_.end(), &lane, static_cast<LaneType*>(nullptr));
  lanes_.erase(lane.in_source().cookie);
  tell_loop();
}

template <class LaneType>
void SocketSource<LaneType>::tell_loop() {
  loop_.costly_iterations_on_loop(!lanes_.empty());
  loop_.ask_always_on_loop(lanes_.size() > waiting::kLanesTried);
}

template <class LaneType>
void SocketSource<LaneType>::heat(LaneType& lane) {
  lane.in_source().idle = 0;
  if (lane.in_source().hot || lane.is_shut_on_loop()) return;
  lane.in_source().hot = true;
  hot_.push_back(&lane);
}

template <class LaneType>
std::vector<std::shared_ptr<LaneType>> SocketSource<LaneType>::lanes() const {
  std::vector<std::shared_ptr<LaneType>> all;
  for (const auto& [cookie, lane] : lanes_) all.push_back(lane);
  return all;
}

template <class LaneType>
void SocketSource<LaneType>::call(LaneType& lane) {
  if (lane.in_source().called.load(std::memory_order_relaxed) ||
      lane.in_source().called.exchange(true, std::memory_order_acq_rel))
    return;
  lane.in_source().called_self = lane.shared_from_this();
  auto* head = called_.load(std::memory_order_relaxed);
  do {
    lane.in_source().next_called = head;
  } while (!called_.compare_exchange_weak(head, &lane, std::memory_order_acq_rel));
}

template <class LaneType>
void SocketSource<LaneType>::answer_calls() {
  if (called_.load(std::memory_order_relaxed) == nullptr) return;
  auto* lane = called_.exchange(nullptr, std::memory_order_acq_rel);
  while (lane != nullptr) {
    auto* next = lane->in_source().next_called;
    auto self = std::move(lane->in_source().called_self);
    lane->in_source().called.store(false, std::memory_order_release);
    heat(*lane);
    lane = next;
  }
}

template <class LaneType>
void SocketSource<LaneType>::when_quiet(std::function<void()> quiet) {
  {
    LockGuard<Mutex> guard(quiet_lock_);
    quiet_.push_back(std::move(quiet));
    quiet_asked_.store(true, std::memory_order_release);
  }
  loop_.try_progress();
  // Somebody else holds the token, or this thread does: whoever is next answers.
  if (quiet_asked_.load(std::memory_order_acquire)) loop_.notify();
}

template <class LaneType>
void SocketSource<LaneType>::answer_quiet() {
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

template <class LaneType>
int SocketSource<LaneType>::progress_on_loop() {
  if (quiet_asked_.load(std::memory_order_relaxed)) answer_quiet();
  answer_calls();
  int work = 0;
  std::size_t kept = 0;
  bool few = hot_.size() <= waiting::kLanesTried;
  for (std::size_t i = 0; i < hot_.size(); ++i) {  // callbacks may make more lanes hot
    LaneType* lane = hot_[i];
    if (lane == nullptr) continue;
    int done = lane->progress_on_loop(few);
    if (hot_[i] == nullptr) continue;  // it was shut
    work += done;
    lane->in_source().idle = done != 0 ? 0 : lane->in_source().idle + 1;
    lane->in_source().hot = lane->in_source().idle < waiting::kHotTries || lane->has_work_on_loop();
    if (lane->in_source().hot) hot_[kept++] = lane;
  }
  hot_.resize(kept);
  if (work == 0 && lanes_.size() <= waiting::kLanesTried && ++idle_ % waiting::kColdTryEvery == 0)
    work += try_a_cold_one();
  return work;
}

template <class LaneType>
int SocketSource<LaneType>::try_a_cold_one() {
  if (hot_.size() == lanes_.size() || lanes_.empty()) return 0;
  auto found = lanes_.lower_bound(next_cold_);
  if (found == lanes_.end()) found = lanes_.begin();
  next_cold_ = found->first + 1;
  if (found->second->in_source().hot) return 0;
  auto lane = found->second;
  int done = lane->progress_on_loop(true);
  if (done != 0) heat(*lane);
  return done;
}

template <class LaneType>
void SocketSource<LaneType>::arm_on_loop(bool) {
  answer_calls();
  for (std::size_t i = 0; i < hot_.size(); ++i)
    if (hot_[i] != nullptr) hot_[i]->arm_on_loop();
}

template <class LaneType>
void SocketSource<LaneType>::ready_on_loop(std::uint64_t cookie, std::uint32_t epoll_events) {
  auto found = lanes_.find(cookie);
  if (found == lanes_.end()) return;
  found->second->ready_on_loop(epoll_events);
  heat(*found->second);
}

template <class LaneType>
void SocketSource<LaneType>::tick_on_loop(std::int64_t now) {
  // A tick may shut lanes.
  for (const auto& lane : lanes()) lane->tick_on_loop(now);
}

}  // namespace ferry::fabric::tcp
