// Data path.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ferry/fabric/verbs/completion_queue_internal.h"
#include "ferry/fabric/verbs/lane_internal.h"

namespace ferry::fabric::verbs {

// The lanes of one loop: polls its completion queue, hands what has completed to the lane that it
// belongs to, and takes down the lanes that ask for it. The loop's source.
//
// Methods that end in _on_loop are for the holder of the loop's token; the others are thread-safe.
class Queue final : public Loop::Source, public Dispatcher {
 public:
  static Result<std::unique_ptr<Queue>> open(Shared& shared, Loop& loop, int index);
  ~Queue() override;

  // A lane on this loop, with room for its completions. Not with the token.
  Result<std::shared_ptr<VerbsLane>> make_lane(std::shared_ptr<PeerSession> peer);

  int progress_on_loop() override;
  void arm_on_loop(bool poller) override;
  void ready_on_loop(std::uint64_t cookie, std::uint32_t epoll_events) override;
  void tick_on_loop(std::int64_t now) override;
  bool has_pending() const override {
    return completions_->has_operations() || shared_.exposures.revoking();
  }
  void remove_on_loop(std::uint32_t qpn) override;

  Loop& loop() const { return completions_->loop(); }

 private:
  Queue(Shared& shared, std::unique_ptr<CompletionQueue> completions)
      : shared_(shared), completions_(std::move(completions)) {}
  void received(const ibv_wc& completion, Buffer* buffer);
  int take_failing_down();
  bool idle() const;
  VerbsLane* lane_of(std::uint32_t qpn);

  Shared& shared_;
  const std::unique_ptr<CompletionQueue> completions_;
  std::unordered_map<std::uint32_t, std::shared_ptr<VerbsLane>> lanes_;
  std::vector<std::shared_ptr<VerbsLane>> scratch_;  // lanes to look at, safe against removal
  static constexpr std::uint32_t kNoQpn = ~0U;       // numbers have 24 bits
  std::uint32_t last_qpn_ = kNoQpn;                  // lane_of() asked last, and its answer
  VerbsLane* last_lane_ = nullptr;
};

}  // namespace ferry::fabric::verbs
