// Data path.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ferry/fabric/verbs/shared_internal.h"

namespace ferry::fabric::verbs {

class VerbsLane;

// The completion queue of one loop, with the shared receive queue of the lanes on it.
//
// Methods that end in _on_loop are for the holder of the loop's token; the others are thread-safe.
class Queue final : public Loop::Source {
 public:
  static Result<std::unique_ptr<Queue>> open(Shared& shared, Loop& loop, int index);
  ~Queue() override;

  int progress_on_loop() override;
  void arm_on_loop(bool poller) override;
  void ready_on_loop(std::uint64_t cookie, std::uint32_t epoll_events) override;
  void tick_on_loop(std::int64_t now) override;
  bool has_pending() const override {
    return pending_.load(std::memory_order_relaxed) != 0 || shared_.exposures.revoking();
  }

  // Room for one more lane's completions: the queue grows, or says that it cannot.
  Status reserve_on_loop();
  void add_on_loop(std::uint32_t qpn, std::shared_ptr<VerbsLane> lane);
  // Also gives back what reserve_on_loop() took.
  void remove_on_loop(std::uint32_t qpn);
  void unreserve_on_loop() { lanes_reserved_ -= 1; }

  void operation_began() { pending_.fetch_add(1, std::memory_order_relaxed); }
  void operation_ended() { pending_.fetch_sub(1, std::memory_order_relaxed); }
  // What was posted before this call has a completion that the loop must act on soon, or somebody
  // waits for room. Other completions do not wake the idle poller, which spares an interrupt and a
  // wake-up each: whoever asks for them finds them.
  void event_wanted() {
    event_wanted_.store(true, std::memory_order_seq_cst);
    if (armed_lightly_.load(std::memory_order_seq_cst) && armed_lightly_.exchange(false))
      loop_.notify();
  }
  // Some lane wants to be taken down by the loop.
  void lane_failing() {
    failing_.store(true, std::memory_order_release);
    loop_.notify();
  }

  ibv_cq* cq() const { return cq_.get(); }
  ibv_srq* srq() const { return srq_.get(); }
  Loop& loop() const { return loop_; }
  Shared& shared() const { return shared_; }

  static constexpr std::uint32_t kSendDepth = 256;

 private:
  Queue(Shared& shared, Loop& loop) : shared_(shared), loop_(loop) {}
  void received(const ibv_wc& completion);
  void top_up_receives();
  int take_failing_down();
  bool idle() const;
  VerbsLane* lane_of(std::uint32_t qpn);

  Shared& shared_;
  Loop& loop_;
  Handle<ibv_comp_channel> channel_;
  Handle<ibv_cq> cq_;
  Handle<ibv_srq> srq_;
  std::unordered_map<std::uint32_t, std::shared_ptr<VerbsLane>> lanes_;
  std::vector<std::shared_ptr<VerbsLane>> scratch_;  // lanes to look at, safe against removal
  static constexpr std::uint32_t kNoQpn = ~0U;       // numbers have 24 bits
  std::uint32_t last_qpn_ = kNoQpn;                  // lane_of() asked last, and its answer
  VerbsLane* last_lane_ = nullptr;
  std::uint32_t lanes_reserved_ = 0;
  std::uint32_t receives_ = 0;      // posted
  std::uint32_t max_receives_ = 0;  // what the receive queue holds
  std::atomic<std::uint64_t> pending_{0};
  std::atomic<bool> event_wanted_{false};
  std::atomic<bool> armed_lightly_{false};
  std::atomic<bool> failing_{false};
};

}  // namespace ferry::fabric::verbs
