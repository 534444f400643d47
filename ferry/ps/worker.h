#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/ps/loan.h"
#include "ferry/ps/options.h"
#include "ferry/ps/parameter.h"
#include "ferry/ps/pulled.h"
#include "ferry/ps/update.h"
#include "ferry/ps/worker_options.h"
#include "ferry/ps/worker_stats.h"
#include "ferry/tensor/tensor.h"

namespace ferry::ps {

class WorkerCore;

// One worker of a training job. One thread at a time, but for kAsync: there pull_to() and version()
// may run on one thread while another one pushes (with two replicas they take turns). Every call
// that waits has a deadline.
//
// Whose a gradient is: when push() or push_pull() returns, the program may write the next one to
// the same memory. With kAsync and kBounded, push() waits until it was read. In step with others
// (kSync) nobody can wait for that before the step has ended, and a step may be pushed anew: there
// push() copies the gradient, to memory that the worker keeps. lend_gradient() does neither, and
// returns a Loan. After an error of push_pull(), lend_gradient() or, but for kSync, push(), the
// gradient is the library's until flush() has succeeded. When the job is over for this worker
// before what it pushed is applied, flush() does not succeed any more: the gradient is the
// library's until the worker is destroyed.
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
