#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/base/thread_annotations.h"
#include "ferry/ps/loan.h"
#include "ferry/ps/pulled.h"
#include "ferry/ps/update.h"
#include "ferry/ps/worker/puller_internal.h"
#include "ferry/ps/worker/pusher_internal.h"

namespace ferry::ps {

// A worker: its parts, and the questions that it asks the scheduler. One thread at a time, but for
// kAsync: see `Worker`.
//
//   Worker -> WorkerCore -> Pusher -> Merger -> Poster -> Waiter -> StepLog
//                        -> Puller -------------------------------> TensorTable, MemoryTable
//                                                                    -> Membership -> ShardLink
class WorkerCore {
 public:
  static Result<std::unique_ptr<WorkerCore>> open(WorkerOptions options, Deadline deadline);
  // Leaves the job.
  ~WorkerCore();
  WorkerCore(const WorkerCore&) = delete;
  WorkerCore& operator=(const WorkerCore&) = delete;

  // Asks the scheduler.
  Result<Parameter> init(std::string_view name, const tensor::Spec& spec,
                         std::span<const std::byte> values, const Update& update,
                         Deadline deadline);
  Result<Parameter> find(std::string_view name, Deadline deadline);
  Result<std::vector<std::string>> names(Deadline deadline);
  Status barrier(Deadline deadline);
  Result<std::vector<std::uint32_t>> members(Deadline deadline);
  Result<std::string> snapshot(const std::string& folder, Deadline deadline);
  Status leave(Deadline deadline);

  // The gradient's memory is the program's again when it returns, also after a failure (kSync).
  Status push_own(Parameter parameter, std::span<const std::byte> gradient, Deadline deadline);
  Result<Loan> lend_gradient(Parameter parameter, std::span<const std::byte> gradient,
                             Deadline deadline);
  Status push_rows(Parameter parameter, std::span<const std::uint64_t> rows,
                   std::span<const std::byte> values, Deadline deadline);
  Result<Pulled> push_pull(Parameter parameter, std::span<const std::byte> gradient,
                           Deadline deadline);

  // Two threads may use a kAsync worker; where servers may be lost their calls exclude each other,
  // since either finds it out for both.
  using CallLock = std::unique_ptr<WorkerCore, void (*)(WorkerCore*)>;
  Result<CallLock> lock(Deadline deadline);

  Pusher& pusher() { return pusher_; }
  Puller& puller() { return puller_; }
  MemoryTable& memories() { return memories_; }
  Result<TensorLink*> tensor(Parameter parameter) { return tensors_.at(parameter); }
  std::uint32_t rank() const { return context_.rank; }
  const JobOptions& job() const { return context_.job; }
  std::uint64_t step() const { return log_.ended(); }
  const WorkerStats& stats() const { return context_.stats; }

 private:
  WorkerCore();
  // Asks the scheduler for a rank and for the job, connects to the servers, and enters.
  Status join(Deadline deadline);
  // Opens the device anew with shared memory where workers of a host merge: that is how neighbours
  // are reached, whatever leads to the servers.
  Status open_for_neighbours();
  // From now on steps wait for this worker, if they have not from the beginning.
  Status enter(Deadline deadline);
  // Asks the scheduler what is answered when others have done something, and so may be asked twice.
  // They may be waiting for a step that this worker has to post again meanwhile.
  Result<Bytes> ask_and_resend(Ask what, const Bytes& body, Nanos slice, Deadline deadline);

  Mutex mutex_;
  std::condition_variable_any call_ended_;
  bool in_call_ FERRY_GUARDED_BY(mutex_) = false;
  WorkerContext context_;
  StepLog log_;
  Membership members_;
  TensorTable tensors_;
  MemoryTable memories_;
  Pusher pusher_;
  Puller puller_;
  std::uint64_t barriers_ = 0;  // that were asked for
  bool left_ = false;
};

}  // namespace ferry::ps
