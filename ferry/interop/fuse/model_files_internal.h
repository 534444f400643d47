#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/interop/fuse/coverage_internal.h"
#include "ferry/ps/worker.h"

namespace ferry::interop {

class ModelFiles;

// Weights as they were pulled. Given back to the worker when nobody looks at them any more.
class PulledWeights {
 public:
  PulledWeights(ModelFiles& files, ps::Pulled pulled) : files_(files), pulled_(std::move(pulled)) {}
  PulledWeights(const PulledWeights&) = delete;
  PulledWeights& operator=(const PulledWeights&) = delete;
  ~PulledWeights();
  std::span<const ps::View> views() const { return pulled_.views(); }

 private:
  ModelFiles& files_;
  ps::Pulled pulled_;
};

// One tensor, and what was written for it and not committed yet.
struct TensorFile {
  std::string name;
  ps::Parameter parameter = 0;
  tensor::Spec spec;
  ps::Update update;
  std::uint64_t bytes = 0;

  bool assigned() const { return update.kind == ps::UpdateKind::kAssign; }

  // Whoever writes or reads what is staged has it shared; a commit has it alone.
  std::shared_mutex gate;
  std::mutex pulling;  // one at a time: a second lease of the same weights would be a copy
  std::mutex mutex;    // of what follows
  std::optional<tensor::Tensor> staged;  // none until it is first opened for writing
  Coverage written;
  bool emptied = false;    // by O_TRUNC: what was not written is 0, also of an assigned tensor
  bool in_flight = false;  // servers may still read what is staged
  ps::Loan loan;           // of what is staged, in jobs without steps in common; worker_mutex_
  // Of a step whose fsync failed: bytes that were written once more, as they are in the step.
  Coverage repeated;
  bool repeated_empty = false;  // O_TRUNC came before them; of an assigned tensor
  std::shared_ptr<const PulledWeights> weights;
};

// Bytes to read, and what keeps them.
struct Piece {
  std::vector<std::span<const std::byte>> spans;
  std::vector<std::shared_ptr<const void>> keep;
  std::uint64_t bytes = 0;
};

// What is read, written and committed when files of a model are. Thread-safe. Knows no file system.
class ModelFiles {
 public:
  using Tensors = std::vector<std::shared_ptr<TensorFile>>;

  // `stop` is looked at during long waits; true ends them with kCancelled.
  ModelFiles(ps::Worker worker, Nanos patience, std::function<bool()> stop);
  ~ModelFiles();

  // All tensors there are, by name; asks the scheduler.
  Result<Tensors> list();
  // Null if there is none of that name.
  Result<std::shared_ptr<TensorFile>> find(const std::string& name);
  Result<std::shared_ptr<TensorFile>> make(const std::string& name, const tensor::Spec& spec,
                                           std::span<const std::byte> values,
                                           const ps::Update& update);

  // Bytes of the weights, as they were at the first of these since drop_cached().
  Status read_value(TensorFile& tensor, std::uint64_t offset, std::uint64_t length, Piece& piece);
  // The next read pulls the weights anew.
  void drop_cached(TensorFile& tensor);
  // The same, unless others are reading: then they all go on with what they see.
  void drop_cached_if_unused(TensorFile& tensor);
  // Bytes that were written and not committed.
  Status read_staged(TensorFile& tensor, std::uint64_t offset, std::uint64_t length, Piece& piece);
  Status open_for_writing(TensorFile& tensor);
  // kOutOfRange behind the tensor's end.
  Status write(TensorFile& tensor, std::uint64_t offset, std::span<const std::byte> bytes);
  // O_TRUNC: forgets what was written.
  Status forget(TensorFile& tensor);

  // Pushes all that was written since the last time as one step, and waits until it is applied.
  // After a commit that failed, the next one goes on with the same step: nothing is pushed twice,
  // and another step is begun only if something else was written since. Bytes that are written
  // again as they are in the step are nothing else. A gradient of which only a part could be posted
  // before the patience ended (jobs without steps in common) is not posted again, either.
  Status commit();
  // Whether closing a file commits too: in jobs without steps in common.
  bool commits_on_close() const;
  bool has_written(TensorFile& tensor);
  ps::WorkerStats stats();
  Status leave();

 private:
  friend class PulledWeights;
  Deadline soon() const { return Deadline::after(patience_); }
  // Repeats a call that waits, in short turns, until it ends well, fails, or `stop` or patience
  // ends it.
  Status in_turns(const std::function<Status(Deadline)>& call);
  // These need the commit's mutex.
  // Pushes what was written as the step that is begun, or as a new one, and finishes it.
  Status run_step();
  // Finishes the step that was begun, if any.
  Status finish_step();
  // Counts repeated bytes as written for the next step.
  void adopt_repeats();
  // After a failed step was finished: whether something else was written since. If not, the
  // repeated bytes were those of the step, and are forgotten.
  bool has_more_than_repeats();
  Tensors written_tensors();

  Status push(const std::shared_ptr<TensorFile>& tensor);
  // Posts what is staged. An error: nothing was posted. `partly` is an error if only a part was.
  Status post_staged(TensorFile& tensor, Status& partly);
  // The cached weights; pulls them if there are none.
  Result<std::shared_ptr<const PulledWeights>> pull_weights(TensorFile& tensor);
  Status fill_gaps(TensorFile& tensor);
  Result<std::shared_ptr<TensorFile>> open_tensor(const std::string& name, ps::Parameter parameter);

  const Nanos patience_;
  const std::function<bool()> stop_;
  std::mutex known_mutex_;
  std::map<std::string, std::shared_ptr<TensorFile>> known_;
  std::mutex commit_mutex_;  // one commit at a time; before all other mutexes
  bool begun_ = false;       // a step, and it is not known to be applied
  bool ended_ = false;
  std::atomic<bool> failed_{false};  // the step that was begun: no commit is at work on it
  Tensors to_push_;                  // of this step
  Tensors in_flight_;
  std::mutex worker_mutex_;
  ps::Worker worker_;
};

}  // namespace ferry::interop
