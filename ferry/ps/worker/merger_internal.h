#pragma once

#include "ferry/ps/worker/merge_internal.h"
#include "ferry/ps/worker/poster_internal.h"

namespace ferry::ps {

// Gradients of one host that leave it as one: see the design note. The worker with the lowest rank
// leads: it adds up what the others offer, and posts the sums. Used by the thread that calls the
// worker.
//
// Between calls: holds_back() says whether the pushes of the open step wait for its end. A step
// that is restarted is pushed by each alone.
class Merger {
 public:
  Merger(WorkerContext& context, Membership& members, TensorTable& tensors, MemoryTable& memories,
         StepLog& log, Waiter& waiter, Poster& poster)
      : context_(context),
        members_(members),
        tensors_(tensors),
        memories_(memories),
        log_(log),
        waiter_(waiter),
        poster_(poster) {}

  // Once connected to the servers; merges nothing where the job, or the path, does not want it.
  Status open();
  bool is_on() const { return on_; }

  // Once for each step: decides how this worker takes part in the open one.
  void begin_step();
  bool holds_back() const { return step_ == log_.open() && mode_ != Mode::kAlone; }
  // Whether the gradients of the step are out of its hands: others may have read what there was.
  bool has_handed_over() const;
  // holds_back() says afterwards whether the next push of this tensor may wait for the end of the
  // step.
  Result<WaitOutcome> hold_back(const TensorLink& tensor, std::span<const std::byte> gradient,
                                Deadline deadline);
  // Posts what was held back, as if nothing had been.
  Result<WaitOutcome> push_alone(Deadline deadline);
  // At the end of the step: posts the sums, or waits until the leader has.
  Result<WaitOutcome> merge(Deadline deadline);
  // Before this worker's END of the step, when all has landed: nobody can have begun the next one.
  void before_end(std::uint64_t step, Deadline deadline);
  void restart_step(std::uint64_t step);

 private:
  enum class Mode : std::uint8_t { kAlone, kLeads, kFollows };
  struct HostSum {
    Parameter parameter = 0;
    std::vector<const float*> sources;
  };

  // Stores the step into a word of the own block, and wakes who looks at it.
  void publish_step(std::size_t word);
  void go_alone();
  Result<WaitOutcome> follow(Deadline deadline);
  Result<Offer> offer(const PushRecord& pushed);
  Result<WaitOutcome> lead(Deadline deadline);
  Result<WaitOutcome> post_sum(const HostSum& sum, Deadline deadline);
  Result<WaitOutcome> give_up_merging(const Error& why, Deadline deadline);
  Result<std::vector<HostSum>> gather();
  Result<Parameter> offered_tensor(const Offer& offer);
  Result<std::span<const std::byte>> offered_bytes(Follower& follower, const Offer& offer,
                                                   std::uint64_t bytes);
  // How long a neighbour may take to show what it has.
  Deadline meeting() const;
  Status connect_neighbours(Deadline deadline);

  WorkerContext& context_;
  Membership& members_;
  TensorTable& tensors_;
  MemoryTable& memories_;
  StepLog& log_;
  Waiter& waiter_;
  Poster& poster_;

  bool on_ = false;
  fabric::Region block_;                  // OfferBlock
  std::vector<fabric::Channel> callers_;  // who has mapped it
  std::vector<Follower> followers_;       // by rank
  std::uint32_t known_ = ~0U;             // the attempt of which these are the neighbours
  std::uint64_t invitation_ = 0;          // that they were given last
  std::uint64_t step_ = 0;                // of the mode
  Mode mode_ = Mode::kAlone;
  bool merged_ = false;                 // what there is to be merged in the step is
  std::vector<const Follower*> taken_;  // whose gradients are in the sums of the step
};

}  // namespace ferry::ps
