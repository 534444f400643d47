#include "ferry/ps/worker.h"

#include "ferry/ps/worker/core_internal.h"

namespace ferry::ps {

Result<Worker> Worker::open(WorkerOptions options, Deadline deadline) {
  return Worker(FERRY_TRY(WorkerCore::open(std::move(options), deadline)));
}
Worker::Worker(std::unique_ptr<WorkerCore> core) : core_(std::move(core)) {}
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;
Worker::~Worker() = default;
std::uint32_t Worker::rank() const { return core_->rank(); }
const JobOptions& Worker::job() const { return core_->job(); }
Result<Parameter> Worker::init(std::string_view name, const tensor::Spec& spec,
                               std::span<const std::byte> values, const Update& update,
                               Deadline deadline) {
  return core_->init(name, spec, values, update, deadline);
}
Result<Parameter> Worker::find(std::string_view name, Deadline deadline) {
  return core_->find(name, deadline);
}
Result<tensor::Spec> Worker::spec(Parameter parameter) const {
  return FERRY_TRY(core_->tensor(parameter))->info.spec;
}
Result<Update> Worker::update(Parameter parameter) const {
  return FERRY_TRY(core_->tensor(parameter))->info.update;
}
Result<std::uint64_t> Worker::version(Parameter parameter, Deadline deadline) const {
  const auto lock = FERRY_TRY(core_->lock(deadline));
  return core_->puller().version(parameter, deadline);
}
Result<std::vector<std::string>> Worker::names(Deadline deadline) { return core_->names(deadline); }
Result<tensor::Tensor> Worker::allocate(const tensor::Spec& spec, Deadline deadline) {
  return core_->memories().allocate(spec, deadline);
}
Status Worker::push(Parameter parameter, std::span<const std::byte> gradient, Deadline deadline) {
  const auto lock = FERRY_TRY(core_->lock(deadline));
  return core_->push_own(parameter, gradient, deadline);
}
Result<Loan> Worker::lend_gradient(Parameter parameter, std::span<const std::byte> gradient,
                                   Deadline deadline) {
  const auto lock = FERRY_TRY(core_->lock(deadline));
  return core_->lend_gradient(parameter, gradient, deadline);
}
Status Worker::push_rows(Parameter parameter, std::span<const std::uint64_t> rows,
                         std::span<const std::byte> values, Deadline deadline) {
  const auto lock = FERRY_TRY(core_->lock(deadline));
  return core_->push_rows(parameter, rows, values, deadline);
}
Status Worker::end_step(Deadline deadline) {
  const auto lock = FERRY_TRY(core_->lock(deadline));
  return core_->pusher().end_step(deadline);
}
std::uint64_t Worker::step() const { return core_->step(); }
Status Worker::flush(Deadline deadline) {
  const auto lock = FERRY_TRY(core_->lock(deadline));
  return core_->pusher().flush(deadline);
}
Result<Pulled> Worker::pull(Parameter parameter, Deadline deadline) {
  return core_->puller().pull(parameter, deadline);
}
Status Worker::pull_to(Parameter parameter, std::span<std::byte> out, Deadline deadline) {
  const auto lock = FERRY_TRY(core_->lock(deadline));
  return core_->puller().pull_to(parameter, out, deadline);
}
Status Worker::pull_rows(Parameter parameter, std::span<const std::uint64_t> rows,
                         std::span<std::byte> out, Deadline deadline) {
  return core_->puller().pull_rows(parameter, rows, out, deadline);
}
Result<Pulled> Worker::push_pull(Parameter parameter, std::span<const std::byte> gradient,
                                 Deadline deadline) {
  return core_->push_pull(parameter, gradient, deadline);
}
Status Worker::barrier(Deadline deadline) { return core_->barrier(deadline); }
Result<std::vector<std::uint32_t>> Worker::members(Deadline deadline) {
  return core_->members(deadline);
}
Result<std::string> Worker::snapshot(const std::string& folder, Deadline deadline) {
  return core_->snapshot(folder, deadline);
}
Status Worker::leave(Deadline deadline) { return core_->leave(deadline); }
WorkerStats Worker::stats() const { return core_->stats(); }

}  // namespace ferry::ps
