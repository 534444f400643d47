// Data path.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "ferry/fabric/verbs/shared_internal.h"

namespace ferry::fabric::verbs {

// The completion queue of one loop, the shared receive queue of the lanes on it, and what these
// lanes tell the loop.
//
// Methods that end in _on_loop are for the holder of the loop's token; the others are thread-safe.
class CompletionQueue {
 public:
  static constexpr std::uint32_t kSendDepth = 256;

  static Result<std::unique_ptr<CompletionQueue>> open(Shared& shared, Loop& loop, int index);

  // Room for one more lane's completions: the queue grows, or says that it cannot.
  Status reserve_on_loop();
  void unreserve_on_loop() { lanes_reserved_ -= 1; }

  // Takes what has completed; returns how many.
  int poll_on_loop(std::span<ibv_wc> completions);
  // The buffer of a completed receive, with its length; nullptr for the completion of a send.
  Buffer* take_received_on_loop(const ibv_wc& completion);
  void top_up_receives_on_loop();

  // Asks for an event at the next completion; for the poller only at one that somebody waits for.
  // `idle` tells whether the lanes have nothing under way.
  template <class Idle>
  void arm_on_loop(bool poller, Idle idle) {
    armed_lightly_.store(poller, std::memory_order_seq_cst);
    // Forgotten first: whoever wants one after the look at the lanes says so again.
    if (event_wanted_.exchange(false, std::memory_order_seq_cst) && !idle())
      event_wanted_.store(true, std::memory_order_seq_cst);
    request_event_on_loop(poller && !event_wanted_.load(std::memory_order_seq_cst));
  }
  void take_events_on_loop();

  void operation_began() { pending_.fetch_add(1, std::memory_order_relaxed); }
  void operation_ended() { pending_.fetch_sub(1, std::memory_order_relaxed); }
  bool has_operations() const { return pending_.load(std::memory_order_relaxed) != 0; }
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
  bool any_failing() const { return failing_.load(std::memory_order_acquire); }
  void forget_failing_on_loop() { failing_.store(false, std::memory_order_relaxed); }

  ibv_cq* cq() const { return cq_.get(); }
  ibv_srq* srq() const { return srq_.get(); }
  int event_fd() const { return channel_->fd; }
  Loop& loop() const { return loop_; }

 private:
  CompletionQueue(Shared& shared, Loop& loop) : shared_(shared), loop_(loop) {}
  void request_event_on_loop(bool solicited_only);

  Shared& shared_;
  Loop& loop_;
  Handle<ibv_comp_channel> channel_;
  Handle<ibv_cq> cq_;
  Handle<ibv_srq> srq_;
  std::uint32_t lanes_reserved_ = 0;
  std::uint32_t receives_ = 0;      // posted
  std::uint32_t max_receives_ = 0;  // what the receive queue holds
  std::atomic<std::uint64_t> pending_{0};
  std::atomic<bool> event_wanted_{false};
  std::atomic<bool> armed_lightly_{false};
  std::atomic<bool> failing_{false};
};

}  // namespace ferry::fabric::verbs
