#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ferry/ps/worker.h"

namespace ferry::ps {

// One of the two sets of memory that a model is computed in, tensor by tensor.
struct ModelBuffers {
  std::vector<tensor::Tensor> weights;
  std::vector<tensor::Tensor> gradients;
};

struct ExchangeOptions {
  // A pause before the pull, so that weights are there just in time and as new as can be. Else it
  // begins as soon as the gradients are pushed.
  bool adaptive = true;
  Nanos patience = std::chrono::seconds(30);  // with each push and pull in the background
};

// Sums over all steps that were ended.
struct ExchangeStats {
  std::uint64_t steps = 0;
  std::uint64_t on_two_threads = 0;  // steps in which push and pull went at the same time
  Nanos computed{};
  Nanos stalled{};    // waited at the end of a step, for the pull and the push of the one before
  Nanos bubbles{};    // pauses before pulls
  Nanos staleness{};  // from the beginning of a pull to that of the step that uses it
  std::uint64_t stale_versions = 0;  // that servers published meanwhile, of the first block
};

// Computation and communication at the same time, for workers that are not in step (kAsync). There
// are two sets of buffers. While one is computed with, threads of this object push the gradients of
// the other one, and pull weights into it; at the end of a step they are switched. Nothing is
// copied between them. A step uses weights that have all gradients of this worker but the last two
// (three where push and pull go at the same time).
//
// One thread at a time.
class Exchange {
 public:
  // Takes the worker over, also if it fails, and pulls these parameters. kFailedPrecondition if the
  // job is not kAsync.
  static Result<Exchange> open(Worker worker, std::span<const Parameter> parameters,
                               const ExchangeOptions& options, Deadline deadline);
  Exchange(Exchange&&) noexcept;
  Exchange& operator=(Exchange&&) noexcept;
  // What was handed over and not pushed yet may be lost: close() waits for it.
  ~Exchange();

  // Those of the step, in the order of the parameters: weights to read, gradients to write. They
  // are this object's again with end_step().
  const ModelBuffers& buffers() const;
  // The gradients are written: hands them over, and switches to the other buffers. Waits until
  // these are there. Fails with what went wrong in the background, and from then on always.
  // kDeadlineExceeded: nothing was handed over; it can be called again.
  Status end_step(Deadline deadline);

  // Waits until all gradients are with the servers, and gives the worker back. After it only
  // stats() can be called.
  Result<Worker> close(Deadline deadline);
  ExchangeStats stats() const;

 private:
  class Core;
  explicit Exchange(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace ferry::ps
