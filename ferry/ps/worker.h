#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/fabric/options.h"
#include "ferry/mail/wait_spin.h"
#include "ferry/ps/options.h"
#include "ferry/ps/update.h"
#include "ferry/tensor/tensor.h"

namespace ferry::ps {

class Puller;
class WorkerCore;

// What becomes of a gradient with a value that is not finite.
enum class NotFinite : std::uint8_t {
  kIgnore,  // nobody looks
  kCount,   // WorkerStats::not_finite counts such gradients
  kReject,  // push() fails, and sends nothing
};

struct WorkerOptions {
  std::string scheduler;                // its endpoint
  fabric::Options device{};             // of the data
  std::optional<std::uint32_t> rank{};  // none: the next that is free
  NotFinite not_finite = NotFinite::kIgnore;
  // Workers of one host merge their gradients (JobOptions::merge). Empty: this machine.
  std::string host{};
};

struct WorkerStats {
  std::uint64_t pushes = 0;
  std::uint64_t pushed_in_place = 0;  // parts that a server reads here
  std::uint64_t pushed_blocks = 0;    // blocks that went through the pool
  std::uint64_t pushed_bytes = 0;     // of these
  std::uint64_t merged = 0;           // gradients that another worker of the host pushed
  std::uint64_t sums = 0;             // that were pushed for several workers of the host
  std::uint64_t pulls = 0;
  std::uint64_t pulled_in_place = 0;   // parts that were leased
  std::uint64_t pulled_copies = 0;     // parts that were copied or read
  std::uint64_t pulled_with_push = 0;  // tensors that servers sent back on their own
  std::uint64_t torn_reads = 0;        // blocks that were read again
  std::uint64_t not_finite = 0;
  std::uint64_t begun_anew = 0;    // steps that were pushed once more because somebody died
  std::uint64_t servers_gone = 0;  // that the job goes on without
  // Of waits for servers: what is kept for the paths to them, unless Options::spin says one.
  mail::SpinInUse spin = {};
};

// A tensor of the job, as this worker knows it.
using Parameter = std::uint32_t;

// A piece of a tensor, contiguous.
struct View {
  std::uint64_t offset = 0;  // in bytes of the tensor
  std::span<const std::byte> bytes;
  std::uint64_t version = 0;  // of its first block
};

// Weights: in the server's memory under a lease where the path allows it, else in memory of this
// worker. Let go of it before the next push of the step: servers keep the version meanwhile.
// Move-only; must not outlive its worker, and one thread uses both.
class Pulled {
 public:
  Pulled() = default;
  Pulled(Pulled&& other) noexcept { *this = std::move(other); }
  Pulled& operator=(Pulled&& other) noexcept;
  ~Pulled() { (void)release(); }

  // The whole tensor, in order, in as few pieces as there are.
  std::span<const View> views() const { return views_; }
  // The whole tensor, if it is in one piece; else empty.
  std::span<const std::byte> bytes() const {
    return views_.size() == 1 ? views_.front().bytes : std::span<const std::byte>();
  }
  void copy_to(std::span<std::byte> out) const;
  bool in_place() const { return in_place_; }
  // kUnavailable: a server has ended the lease, and what was read cannot be trusted; it believed
  // this worker to be dead, or it was closed itself.
  Status release();

 private:
  friend class Puller;
  // Of one part, in the seat where it was taken: the part may have another server by now.
  struct Lease {
    std::uint32_t part = 0;
    std::byte* seat = nullptr;
    std::uint64_t begin = 0;
  };
  Puller* puller_ = nullptr;
  Parameter parameter_ = 0;
  bool in_place_ = false;
  std::vector<Lease> leases_;
  std::vector<View> views_;
  std::shared_ptr<std::vector<std::byte>> own_;
};

// A gradient that servers may still be reading where it is. The memory is the program's again when
// release() has said so, or when this object is gone; in kSync the step is ended before that.
// Move-only; must not outlive its worker, and one thread uses both.
class [[nodiscard]] Loan {
 public:
  Loan() = default;
  Loan(Loan&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)),
        parameter_(other.parameter_),
        step_(other.step_) {}
  Loan& operator=(Loan&& other) noexcept;
  // Waits for the end of the loan. A server that does not answer for long is logged: it may read
  // what comes to lie there. So is, at once, a loan that goes before its step was ended (kSync).
  ~Loan();

  // Waits until no server reads the memory any more, in kSync until the step is applied.
  // kDeadlineExceeded: the loan goes on; and so it does with kFailedPrecondition, which says that
  // end_step() comes first (kSync).
  Status release(Deadline deadline);

 private:
  friend class WorkerCore;
  Loan(WorkerCore* core, Parameter parameter, std::uint64_t step)
      : core_(core), parameter_(parameter), step_(step) {}
  WorkerCore* core_ = nullptr;
  Parameter parameter_ = 0;
  std::uint64_t step_ = 0;  // kSync
};

// One worker of a training job. One thread at a time, but for kAsync: there pull_to() and version()
// may run on one thread while another one pushes (with two replicas they take turns). Every call
// that waits has a deadline.
//
// Whose a gradient is: when push() or push_pull() returns, the program may write the next one to
// the same memory. With kAsync and kBounded, push() waits until it was read. In step with others
// (kSync) nobody can wait for that before the step has ended, and a step may be pushed anew: there
// push() copies the gradient, to memory that the worker keeps. lend_gradient() does neither, and
// returns a Loan. After an error of push_pull(), lend_gradient() or, but for kSync, push(), the
// gradient is the library's until flush() has succeeded.
class Worker {
 public:
  // Joins the job; waits until all servers are there.
  static Result<Worker> open(WorkerOptions options, Deadline deadline);
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;
  // Leaves the job.
  ~Worker();

  std::uint32_t rank() const;
  const JobOptions& job() const;

  // Makes a tensor of f32, f16 or bf16, with these first values, unless it is there already:
  // kAlreadyExists if it is another one. Without values it is zero.
  Result<Parameter> init(std::string_view name, const tensor::Spec& spec,
                         std::span<const std::byte> values, const Update& update,
                         Deadline deadline);
  // kNotFound if nobody has made it.
  Result<Parameter> find(std::string_view name, Deadline deadline);
  // kNotFound for a number that init() and find() have not given.
  Result<tensor::Spec> spec(Parameter parameter) const;
  Result<Update> update(Parameter parameter) const;
  // How often its first block was published; 0 before its first values are there.
  Result<std::uint64_t> version(Parameter parameter, Deadline deadline) const;
  // Of all tensors that anybody has made.
  Result<std::vector<std::string>> names(Deadline deadline);

  // Memory for gradients, which servers on this host read where it is. It is the worker's until its
  // end.
  Result<tensor::Tensor> allocate(const tensor::Spec& spec, Deadline deadline);

  // Once a step for each tensor (kSync). If the deadline of this or another call passes when a part
  // of the step is sent (kSync), the step cannot be ended: what follows is kFailedPrecondition, and
  // the worker has to leave() and be opened anew.
  Status push(Parameter parameter, std::span<const std::byte> gradient, Deadline deadline);
  // The same without a copy, and without waiting for servers to have read it, for programs that
  // have something else to do or to push meanwhile. In kSync the loan ends when the step is
  // applied.
  Result<Loan> lend_gradient(Parameter parameter, std::span<const std::byte> gradient,
                             Deadline deadline);
  // Rows of the outermost dimension, in any order; of equal ones the sum counts.
  Status push_rows(Parameter parameter, std::span<const std::uint64_t> rows,
                   std::span<const std::byte> values, Deadline deadline);
  // This worker has pushed all it has in this step. Where gradients are merged, waits for the other
  // workers of the host to say so, too.
  Status end_step(Deadline deadline);
  std::uint64_t step() const;  // how many it has ended
  // Waits until all that was pushed, in steps that were ended, is applied.
  Status flush(Deadline deadline);

  // Weights that are as new as the job's consistency asks for. A block is never torn. kUnavailable:
  // a server that alone has a part of them is gone, also where its memory is mapped.
  Result<Pulled> pull(Parameter parameter, Deadline deadline);
  Status pull_to(Parameter parameter, std::span<std::byte> out, Deadline deadline);
  Status pull_rows(Parameter parameter, std::span<const std::uint64_t> rows,
                   std::span<std::byte> out, Deadline deadline);
  // push(), end_step() and pull() in one: this gradient is part of what comes back, which is good
  // until the next one of this tensor.
  Result<Pulled> push_pull(Parameter parameter, std::span<const std::byte> gradient,
                           Deadline deadline);

  // Waits for all workers. kAborted if the job has ended.
  Status barrier(Deadline deadline);
  // The ranks of those who are there: how to share the data from now on.
  Result<std::vector<std::uint32_t>> members(Deadline deadline);
  // Servers save what they have to a folder that all of them see: the path of the snapshot. All
  // workers are at rest meanwhile, at a barrier say: kFailedPrecondition if a step is open.
  // kResourceExhausted for a full disk; earlier snapshots stay.
  Result<std::string> snapshot(const std::string& folder, Deadline deadline);
  // Waits for what was pushed, and leaves the job.
  Status leave(Deadline deadline);
  WorkerStats stats() const;

 private:
  explicit Worker(std::unique_ptr<WorkerCore> core);
  std::unique_ptr<WorkerCore> core_;
};

}  // namespace ferry::ps
