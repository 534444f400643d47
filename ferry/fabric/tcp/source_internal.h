// Data path.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ferry/fabric/loop_internal.h"
#include "ferry/fabric/tcp/lane_internal.h"

namespace ferry::fabric::tcp {

// The sockets of one loop.
//
// Every socket is watched by the loop's epoll, edge-triggered, so that a sleeping loop costs
// nothing per idle lane. A spinning one that has few lanes does not ask epoll: it tries the hot
// ones, those with recent traffic, directly, and the others one at a time now and then. With many
// lanes it asks epoll at every iteration, and with many hot ones it tries none that epoll did not
// name.
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
  Status add(std::shared_ptr<TcpLane> lane);
  void remove(TcpLane& lane);
  void heat(TcpLane& lane);
  std::vector<std::shared_ptr<TcpLane>> lanes() const;

  // Any thread, also one that holds the token: calls `quiet` once no thread uses the memory of a
  // grant that was removed before.
  void when_quiet(std::function<void()> quiet);

  // Any thread: this lane has work of which no event will tell.
  void call(TcpLane& lane);

 private:
  void tell_loop();
  void answer_calls();
  int try_a_cold_one();
  void answer_quiet();

  Loop& loop_;
  std::map<std::uint64_t, std::shared_ptr<TcpLane>> lanes_;  // by cookie
  std::vector<TcpLane*> hot_;
  std::uint64_t next_cookie_ = 1;
  std::uint64_t next_cold_ = 0;
  unsigned idle_ = 0;
  std::atomic<TcpLane*> called_{nullptr};
  std::atomic<std::int64_t> pending_{0};
  Mutex quiet_lock_;
  std::vector<std::function<void()>> quiet_ FERRY_GUARDED_BY(quiet_lock_);
  std::atomic<bool> quiet_asked_{false};
  std::array<std::byte, 65536> dump_;
};

}  // namespace ferry::fabric::tcp
