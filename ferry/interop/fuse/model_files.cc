#include <algorithm>
#include <chrono>
#include <cstring>

#include "ferry/base/log.h"
#include "ferry/interop/fuse/model_files_internal.h"

namespace ferry::interop {
namespace {

constexpr std::chrono::milliseconds kTurn{200};

// The part of a span that lies in [offset, offset + length), if any.
void add_overlap(std::uint64_t begin, std::span<const std::byte> bytes, std::uint64_t offset,
                 std::uint64_t length, Piece& piece) {
  const auto from = std::max(begin, offset);
  const auto to = std::min(begin + bytes.size(), offset + length);
  if (from >= to) return;
  piece.spans.push_back(bytes.subspan(from - begin, to - from));
  piece.bytes += to - from;
}

}  // namespace

PulledWeights::~PulledWeights() {
  const std::lock_guard hold(files_.worker_mutex_);
  if (const auto let_go = pulled_.release(); !let_go)
    logger().warn("mount: {}", let_go.error().message());
}

ModelFiles::ModelFiles(ps::Worker worker, Nanos patience, std::function<bool()> stop)
    : patience_(patience), stop_(std::move(stop)), worker_(std::move(worker)) {}

ModelFiles::~ModelFiles() {
  for (auto& [name, tensor] : known_) {
    tensor->weights.reset();
    tensor->loan = {};  // must not outlive the worker
  }
}

Status ModelFiles::in_turns(const std::function<Status(Deadline)>& call) {
  const auto end = soon();
  for (;;) {
    auto done = call(std::min(end, Deadline::after(kTurn)));
    if (done || done.error().code() != Code::kDeadlineExceeded || end.expired()) return done;
    if (stop_()) return fail(Code::kCancelled, "unmounted while waiting");
  }
}

Result<std::shared_ptr<TensorFile>> ModelFiles::open_tensor(const std::string& name,
                                                            ps::Parameter parameter) {
  auto file = std::make_shared<TensorFile>();
  file->name = name;
  file->parameter = parameter;
  {
    const std::lock_guard hold(worker_mutex_);
    file->spec = FERRY_TRY(worker_.spec(parameter));
    file->update = FERRY_TRY(worker_.update(parameter));
  }
  file->bytes = FERRY_TRY(file->spec.bytes());
  const std::lock_guard hold(known_mutex_);
  return known_.emplace(name, std::move(file)).first->second;
}

Result<std::shared_ptr<TensorFile>> ModelFiles::find(const std::string& name) {
  {
    const std::lock_guard hold(known_mutex_);
    if (const auto found = known_.find(name); found != known_.end()) return found->second;
  }
  Result<ps::Parameter> parameter = 0;
  {
    const std::lock_guard hold(worker_mutex_);
    parameter = worker_.find(name, soon());
  }
  if (!parameter && parameter.error().code() == Code::kNotFound)
    return std::shared_ptr<TensorFile>();
  return open_tensor(name, FERRY_TRY(std::move(parameter)));
}

Result<ModelFiles::Tensors> ModelFiles::list() {
  std::vector<std::string> names;
  {
    const std::lock_guard hold(worker_mutex_);
    names = FERRY_TRY(worker_.names(soon()));
  }
  Tensors tensors;
  for (const auto& name : names)
    if (auto tensor = FERRY_TRY(find(name)); tensor != nullptr)
      tensors.push_back(std::move(tensor));
  return tensors;
}

Result<std::shared_ptr<TensorFile>> ModelFiles::make(const std::string& name,
                                                     const tensor::Spec& spec,
                                                     std::span<const std::byte> values,
                                                     const ps::Update& update) {
  ps::Parameter parameter = 0;
  {
    const std::lock_guard hold(worker_mutex_);
    parameter = FERRY_TRY(worker_.init(name, spec, values, update, soon()));
  }
  return open_tensor(name, parameter);
}

void ModelFiles::drop_cached(TensorFile& tensor) {
  std::shared_ptr<const PulledWeights> old;  // dies when no lock is held
  const std::lock_guard hold(tensor.mutex);
  old = std::move(tensor.weights);
}

void ModelFiles::drop_cached_if_unused(TensorFile& tensor) {
  {
    const std::lock_guard hold(tensor.mutex);
    if (tensor.weights.use_count() > 1) return;
  }
  drop_cached(tensor);
}

Result<std::shared_ptr<const PulledWeights>> ModelFiles::pull_weights(TensorFile& tensor) {
  const std::lock_guard one(tensor.pulling);
  {
    const std::lock_guard hold(tensor.mutex);
    if (tensor.weights != nullptr) return tensor.weights;
  }
  std::optional<ps::Pulled> pulled;
  const auto pull = [&](Deadline deadline) -> Status {
    const std::lock_guard hold(worker_mutex_);
    pulled = FERRY_TRY(worker_.pull(tensor.parameter, deadline));
    return {};
  };
  FERRY_TRY(in_turns(pull));
  std::shared_ptr<const PulledWeights> now =
      std::make_shared<PulledWeights>(*this, *std::move(pulled));
  std::shared_ptr<const PulledWeights> old;  // dies when no lock is held
  const std::lock_guard hold(tensor.mutex);
  old = std::exchange(tensor.weights, now);
  return now;
}

Status ModelFiles::read_value(TensorFile& tensor, std::uint64_t offset, std::uint64_t length,
                              Piece& piece) {
  if (tensor.assigned() && has_written(tensor)) return read_staged(tensor, offset, length, piece);
  auto weights = FERRY_TRY(pull_weights(tensor));
  for (const auto& view : weights->views())
    add_overlap(view.offset, view.bytes, offset, length, piece);
  piece.keep.push_back(std::move(weights));
  return {};
}

Status ModelFiles::read_staged(TensorFile& tensor, std::uint64_t offset, std::uint64_t length,
                               Piece& piece) {
  if (!has_written(tensor)) {
    const auto from = std::min(offset, tensor.bytes);
    const auto zeros =
        std::make_shared<std::vector<std::byte>>(std::min(length, tensor.bytes - from));
    piece.spans.emplace_back(*zeros);
    piece.bytes += zeros->size();
    piece.keep.push_back(zeros);
    return {};
  }
  FERRY_TRY(open_for_writing(tensor));
  FERRY_TRY(fill_gaps(tensor));
  // What is sent is copied first: a write may come before the reader has it.
  const std::shared_lock open(tensor.gate);
  const auto staged = tensor.staged->bytes();
  const auto from = std::min<std::uint64_t>(offset, staged.size());
  const auto bytes = staged.subspan(from, std::min<std::uint64_t>(length, staged.size() - from));
  auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  piece.spans.emplace_back(*copy);
  piece.bytes += copy->size();
  piece.keep.push_back(std::move(copy));
  return {};
}

Status ModelFiles::open_for_writing(TensorFile& tensor) {
  const std::lock_guard once(tensor.mutex);
  if (tensor.staged) return {};
  const std::lock_guard hold(worker_mutex_);
  tensor.staged = FERRY_TRY(worker_.allocate(tensor.spec, soon()));
  return {};
}

bool ModelFiles::has_written(TensorFile& tensor) {
  const std::lock_guard hold(tensor.mutex);
  return !tensor.written.empty() || tensor.emptied;
}

Status ModelFiles::write(TensorFile& tensor, std::uint64_t offset,
                         std::span<const std::byte> bytes) {
  if (offset > tensor.bytes || bytes.size() > tensor.bytes - offset)
    return fail(Code::kOutOfRange, "'{}' has {} bytes; {} were to be written from {} on",
                tensor.name, tensor.bytes, bytes.size(), offset);
  FERRY_TRY(open_for_writing(tensor));
  for (;;) {
    {
      const std::shared_lock open(tensor.gate);
      std::unique_lock hold(tensor.mutex);
      if (!tensor.in_flight) {
        hold.unlock();
        std::memcpy(tensor.staged->bytes().data() + offset, bytes.data(), bytes.size());
        hold.lock();
        tensor.written.add(offset, bytes.size());
        return {};
      }
      const auto* staged = tensor.staged->bytes().data() + offset;
      if (failed_ && std::memcmp(staged, bytes.data(), bytes.size()) == 0) {
        tensor.repeated.add(offset, bytes.size());
        return {};
      }
    }
    const std::lock_guard one(commit_mutex_);
    FERRY_TRY(finish_step());
    adopt_repeats();
  }
}

Status ModelFiles::forget(TensorFile& tensor) {
  const std::unique_lock alone(tensor.gate);
  const std::lock_guard hold(tensor.mutex);
  tensor.written.clear();
  tensor.repeated.clear();
  (tensor.in_flight ? tensor.repeated_empty : tensor.emptied) = tensor.assigned();
  return {};
}

// Gradients are 0 where nothing was written; assigned weights stay as they are.
Status ModelFiles::fill_gaps(TensorFile& tensor) {
  std::shared_ptr<const PulledWeights> weights;
  bool keeps = false;
  {
    const std::lock_guard hold(tensor.mutex);
    if (tensor.written.gaps(tensor.bytes).empty()) return {};
    keeps = tensor.assigned() && !tensor.emptied;
  }
  if (keeps) {
    drop_cached(tensor);
    weights = FERRY_TRY(pull_weights(tensor));
  }
  const std::unique_lock alone(tensor.gate);
  const std::lock_guard hold(tensor.mutex);
  auto* staged = tensor.staged->bytes().data();
  for (const auto& [offset, length] : tensor.written.gaps(tensor.bytes)) {
    if (weights == nullptr) {
      std::memset(staged + offset, 0, length);
      continue;
    }
    for (const auto& view : weights->views()) {
      const auto from = std::max(offset, view.offset);
      const auto to = std::min(offset + length, view.offset + view.bytes.size());
      if (from < to)
        std::memcpy(staged + from, view.bytes.data() + (from - view.offset), to - from);
    }
  }
  tensor.written.add(0, tensor.bytes);
  return {};
}

// In jobs without steps in common, Worker::push() waits until servers have read the gradient, and
// may run out of time when all of it is posted: so the gradient is lent, and flush() waits.
Status ModelFiles::post_staged(TensorFile& tensor, Status& partly) {
  const std::lock_guard hold(worker_mutex_);
  const auto bytes = tensor.staged->bytes();
  if (!commits_on_close()) return worker_.push(tensor.parameter, bytes, soon());
  const auto posted = [this] {
    const auto stats = worker_.stats();
    return stats.pushed_in_place + stats.pushed_blocks;
  };
  const auto before = posted();
  auto lent = worker_.lend_gradient(tensor.parameter, bytes, soon());
  if (lent) {
    tensor.loan = *std::move(lent);
    return {};
  }
  if (posted() == before) return tl::unexpected<Error>(lent.error());
  logger().error("mount: a part of what was written to '{}' was pushed, and the rest is lost: {}",
                 tensor.name, lent.error().message());
  partly = tl::unexpected<Error>(lent.error());
  return {};
}

// From then on servers may read what is staged, and nobody writes there.
Status ModelFiles::push(const std::shared_ptr<TensorFile>& tensor) {
  FERRY_TRY(open_for_writing(*tensor));
  FERRY_TRY(fill_gaps(*tensor));
  std::shared_ptr<const PulledWeights> old;  // dies when no lock is held
  const std::unique_lock alone(tensor->gate);
  Status partly;
  FERRY_TRY(post_staged(*tensor, partly));
  in_flight_.push_back(tensor);
  const std::lock_guard hold(tensor->mutex);
  old = std::move(tensor->weights);
  tensor->in_flight = true;
  tensor->written.clear();
  tensor->emptied = false;
  return partly;
}

Status ModelFiles::finish_step() {
  if (!begun_) return {};
  while (!to_push_.empty()) {
    const auto next = to_push_.back();
    auto pushed = push(next);
    // What servers may read is never pushed again, also where the push has failed half-way.
    if (!in_flight_.empty() && in_flight_.back() == next) to_push_.pop_back();
    FERRY_TRY(std::move(pushed));
  }
  if (!ended_) {
    const std::lock_guard hold(worker_mutex_);
    FERRY_TRY(worker_.end_step(soon()));
    ended_ = true;
  }
  FERRY_TRY(in_turns([this](Deadline deadline) {
    const std::lock_guard hold(worker_mutex_);
    return worker_.flush(deadline);
  }));
  for (const auto& tensor : std::exchange(in_flight_, {})) {
    drop_cached(*tensor);
    {
      const std::lock_guard hold(worker_mutex_);
      tensor->loan = {};  // servers have read it: this does not wait
    }
    const std::lock_guard hold(tensor->mutex);
    tensor->in_flight = false;
  }
  begun_ = ended_ = failed_ = false;
  return {};
}

ModelFiles::Tensors ModelFiles::written_tensors() {
  Tensors written;
  const std::lock_guard hold(known_mutex_);
  for (const auto& [name, tensor] : known_)
    if (has_written(*tensor)) written.push_back(tensor);
  // All workers push in one order, which keeps sums in a fixed one.
  std::reverse(written.begin(), written.end());
  return written;
}

Status ModelFiles::run_step() {
  if (!ended_) to_push_ = written_tensors();
  if (!begun_ && to_push_.empty() && commits_on_close()) return {};
  begun_ = true;
  return finish_step();
}

void ModelFiles::adopt_repeats() {
  const std::lock_guard all(known_mutex_);
  for (const auto& [name, tensor] : known_) {
    const std::lock_guard hold(tensor->mutex);
    tensor->written.add(std::exchange(tensor->repeated, {}));
    if (std::exchange(tensor->repeated_empty, false)) tensor->emptied = true;
  }
}

bool ModelFiles::has_more_than_repeats() {
  const std::lock_guard all(known_mutex_);
  const auto differs = [](const auto& each) {
    auto& tensor = *each.second;
    const std::lock_guard hold(tensor.mutex);
    return !tensor.written.empty() || tensor.emptied ||
           (tensor.repeated_empty && !tensor.repeated.gaps(tensor.bytes).empty());
  };
  if (std::any_of(known_.begin(), known_.end(), differs)) return true;
  for (const auto& [name, tensor] : known_) {
    const std::lock_guard hold(tensor->mutex);
    tensor->repeated.clear();
    tensor->repeated_empty = false;
  }
  return false;
}

Status ModelFiles::commit() {
  const std::lock_guard one(commit_mutex_);
  const bool retried = begun_;
  failed_ = false;
  auto done = run_step();
  const bool more = done && (!retried || has_more_than_repeats());
  if (more) adopt_repeats();
  if (more && retried) done = run_step();
  failed_ = begun_;
  return done;
}

bool ModelFiles::commits_on_close() const {
  return worker_.job().consistency != ps::Consistency::kSync;
}

ps::WorkerStats ModelFiles::stats() {
  const std::lock_guard hold(worker_mutex_);
  return worker_.stats();
}

Status ModelFiles::leave() {
  {
    const std::lock_guard hold(known_mutex_);
    for (auto& [name, tensor] : known_) tensor->weights.reset();
  }
  const std::lock_guard hold(worker_mutex_);
  return worker_.leave(soon());
}

}  // namespace ferry::interop
