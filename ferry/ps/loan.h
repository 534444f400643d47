#pragma once

#include <cstdint>
#include <utility>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/ps/parameter.h"

namespace ferry::ps {

class WorkerCore;

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
  // end_step() comes first (kSync). Any other error (the job is over, a server is lost) ends the
  // loan; a server that is left, or a write to it that is under way, may still read the memory, at
  // the latest until the worker is destroyed.
  Status release(Deadline deadline);

 private:
  friend class WorkerCore;
  Loan(WorkerCore* core, Parameter parameter, std::uint64_t step)
      : core_(core), parameter_(parameter), step_(step) {}
  WorkerCore* core_ = nullptr;
  Parameter parameter_ = 0;
  std::uint64_t step_ = 0;  // kSync
};

}  // namespace ferry::ps
