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

  // Decides how this worker takes part in the open step. Only the first call of a step does
  // anything.
  void begin_step();
  // Whether pushes of the open step wait for its end.
  bool holds_back() const { return step_ == log_.open() && mode_ != Mode::kAlone; }
  // Whether the gradients of the step are out of its hands: others may have read what there was.
  bool has_handed_over() const;
  // Before a push of this tensor is recorded: if the gradient cannot be merged, pushes the step
  // alone from now on, beginning with what was held back. holds_back() says afterwards whether the
  // push waits for the end of the step.
  Result<WaitOutcome> push_alone_unless_mergeable(const TensorLink& tensor,
                                                  std::span<const std::byte> gradient,
                                                  Deadline deadline);
  // Posts what was held back; the open step is pushed alone from now on.
  Result<WaitOutcome> push_alone(Deadline deadline);
  // At the end of the step: posts the sums, or waits until the leader has.
  Result<WaitOutcome> merge(Deadline deadline);
  // Before this worker's END of the step, when all has landed: nobody can have begun the next one.
  void before_end(std::uint64_t step, Deadline deadline);
  // The step is posted again, by each worker alone.
  void restart_step(std::uint64_t step);

 private:
  enum class Mode : std::uint8_t { kAlone, kLeads, kFollows };
  // The gradients of one tensor that become one sum.
  struct HostSum {
    Parameter parameter = 0;
    std::vector<const float*> sources;
  };

  // Stores the step into a word of the own block, and wakes the neighbours that look at it.
  void publish_step(std::size_t word);
  // The worker takes no part in the step's merging any more: tells its neighbours so.
  void go_alone();
  // Offers the step's gradients to the leader, and waits until it has pushed them, or says that it
  // does not; then pushes them alone.
  Result<WaitOutcome> follow(Deadline deadline);
  // Where the leader finds this gradient: in memory that neighbours map. What lies elsewhere is
  // copied there.
  Result<Offer> offer(const PushRecord& pushed);
  // Waits until each follower has offered its gradients or goes alone, and posts the sums.
  Result<WaitOutcome> lead(Deadline deadline);
  // Adds up the gradients of one tensor, and posts the sum.
  Result<WaitOutcome> post_sum(const HostSum& sum, Deadline deadline);
  // Logs why, and pushes the step alone.
  Result<WaitOutcome> give_up_merging(const Error& why, Deadline deadline);
  // What there is to be added up, own gradients first, then those of followers by rank, whom it
  // notes in taken_. Posts nothing: until it returns each worker can still push alone.
  Result<std::vector<HostSum>> gather();
  // The tensor of an offer. kNotFound: this worker has not opened it, or it is not of f32.
  Result<Parameter> offered_tensor(const Offer& offer);
  // The gradient of an offer, in the follower's memory, which is mapped if it is not yet.
  Result<std::span<const std::byte>> offered_bytes(Follower& follower, const Offer& offer,
                                                   std::uint64_t bytes);
  // How long a neighbour may take to show what it has.
  Deadline meeting() const;
  // Asks the scheduler who else is on this host. The lowest rank leads, and connects to the others;
  // all who ask in one attempt are told the same.
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
