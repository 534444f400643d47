// Data path.
#include <algorithm>
#include <thread>

#include "ferry/runtime/executor_internal.h"

namespace ferry::runtime {

Result<std::unique_ptr<Executor>> Executor::open(const graph::Graph& graph, Variables& variables,
                                                 Rendezvous* rendezvous, ExecutorOptions options) {
  auto program = FERRY_TRY(make_program(graph, variables, rendezvous, options.fetches));
  auto core = std::make_unique<Core>(std::move(program), variables, rendezvous, std::move(options));
  return std::unique_ptr<Executor>(new Executor(std::move(core)));
}

Executor::Executor(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Executor::~Executor() = default;

Result<std::vector<tensor::Tensor>> Executor::run(std::uint64_t step, std::span<const Feed> feeds,
                                                  Deadline deadline) {
  return core_->run(step, feeds, deadline);
}

ExecutorStats Executor::stats() const { return core_->stats(); }

Result<std::vector<tensor::Tensor>> Executor::Core::run(std::uint64_t step,
                                                        std::span<const Feed> feeds,
                                                        Deadline deadline) {
  if (broken_)
    return fail(Code::kFailedPrecondition, "an earlier step failed; begin again from a checkpoint");
  broken_ = true;
  FERRY_TRY(begin(step, feeds, deadline));
  while (done_ < program_.items.size()) FERRY_TRY(advance());
  allocation_.end_step();
  ++stats_.steps;
  stats_.operators += program_.items.size();
  broken_ = false;
  return fetch();
}

Status Executor::Core::begin(std::uint64_t step, std::span<const Feed> feeds, Deadline deadline) {
  step_ = step;
  feeds_ = feeds;
  deadline_ = deadline;
  done_ = 0;
  allocation_.begin_step();
  stats_.traced_steps += allocation_.tracing() ? 1 : 0;
  for (ValueId value_id = 0; value_id < values_.size(); ++value_id)
    values_[value_id].uses_left = program_.uses[value_id];
  for (std::size_t at = 0; at < program_.items.size(); ++at) {
    waits_for_[at] = program_.items[at].waits_for;
    if (auto* end = program_.items[at].receive) FERRY_TRY(end->expect(step));
  }
  for (const auto at : program_.first) make_ready(at);
  return {};
}

void Executor::Core::make_ready(std::uint32_t at) {
  const bool polls = program_.items[at].kind != Kind::kCompute;
  (polls ? polls_ : ready_).push_back(at);
}

// One operator, and a look at one of those that poll; or at all of them if there is nothing else.
Status Executor::Core::advance() {
  bool any = !ready_.empty();
  auto looks = any ? std::min<std::size_t>(polls_.size(), 1) : polls_.size();
  if (any) {
    const auto at = ready_.front();
    ready_.pop_front();
    FERRY_TRY(compute(at));
    finish(at);
  }
  for (; looks > 0; --looks) {
    const auto at = polls_.front();
    polls_.pop_front();
    if (FERRY_TRY(try_poll(at))) {
      any = true;
      finish(at);
    } else {
      ++stats_.polls;
      polls_.push_back(at);
    }
  }
  return any ? Status() : wait_for_polls();
}

// True: the operator has ended.
Result<bool> Executor::Core::try_poll(std::uint32_t at) {
  const auto& item = program_.items[at];
  if (item.kind == Kind::kSend) return poll_send(at);
  item_ = &item;
  const auto yes =
      item.kind == Kind::kReceive ? item.receive->ready(step_) : item.kernel->poll(*this);
  if (!yes) return named(yes.error(), item);
  if (!*yes) return false;
  if (item.kind == Kind::kPoll) {
    FERRY_TRY(compute(at));
    return true;
  }
  auto taken = item.receive->take();
  if (!taken) return named(taken.error(), item);
  values_[item.first_output].tensor = *std::move(taken);
  return true;
}

Result<bool> Executor::Core::poll_send(std::uint32_t at) {
  const auto& item = program_.items[at];
  const auto& tensor = values_[item.inputs[0]].tensor;
  if (!sending_[at]) {
    allocation_.see_send(at, tensor);
    const auto started = item.send->start(tensor, step_);
    if (!started) return named(started.error(), item);
    if (!*started) return false;
    sending_[at] = true;
  }
  const auto finished = item.send->finished();
  if (!finished) return named(finished.error(), item);
  if (!*finished) return false;
  sending_[at] = false;
  // The receiver may be using this very memory.
  values_[item.inputs[0]].writable = false;
  return true;
}

Status Executor::Core::compute(std::uint32_t at) {
  item_ = &program_.items[at];
  at_ = at;
  if (item_->updated != nullptr) FERRY_TRY(begin_update());
  auto done = item_->kernel->run(*this);
  for (auto& tensor : scratch_in_use_) scratch_.give(std::move(tensor));
  scratch_in_use_.clear();
  if (updating_) {
    updating_ = false;
    next_value_ = {};
    const auto kept = item_->updated->end_update(done.has_value());
    if (done && !kept) done = kept;
  }
  return done ? Status() : Status(named(done.error(), *item_));
}

void Executor::Core::finish(std::uint32_t at) {
  const auto& item = program_.items[at];
  ++done_;
  for (const auto value_id : item.inputs) drop_use(value_id);
  for (ValueId value_id = item.first_output;
       value_id < item.first_output + item.node->outputs.size(); ++value_id)
    if (program_.uses[value_id] == 0) drop(value_id);
  for (const auto next : item.next)
    if (--waits_for_[next] == 0) make_ready(next);
}

Status Executor::Core::wait_for_polls() {
  FERRY_ASSERT(!polls_.empty(), "a step that is not over has something to wait for");
  ++stats_.waits;
  auto until = deadline_;
  for (const auto at : polls_)
    if (program_.items[at].kind == Kind::kPoll)
      until = std::min(until, Deadline::at_ns(program_.items[at].kernel->poll_again_ns()));
  if (rendezvous_ != nullptr) {
    (void)rendezvous_->wait_until([this] { return any_may_be_ready(); }, until);
  } else {
    std::this_thread::sleep_for(until.left());
  }
  if (!deadline_.expired()) return {};
  return fail(Code::kDeadlineExceeded, "step {} has not ended in time: it waits for {}", step_,
              waiting_for());
}

bool Executor::Core::any_may_be_ready() const {
  return std::any_of(polls_.begin(), polls_.end(), [this](std::uint32_t at) {
    const auto& item = program_.items[at];
    if (item.kind == Kind::kSend) return item.send->may_be_ready();
    return item.kind == Kind::kReceive && item.receive->may_be_ready(step_);
  });
}

// The first few of those that it waits for.
std::string Executor::Core::waiting_for() const {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t index = 0; index < std::min(polls_.size(), kShown); ++index)
    text += fmt::format("{}'{}'", index == 0 ? "" : ", ", program_.items[polls_[index]].node->name);
  if (polls_.size() > kShown) text += fmt::format(" and {} more", polls_.size() - kShown);
  return text;
}

tl::unexpected<Error> Executor::Core::named(const Error& error, const Item& item) const {
  return tl::unexpected(Error(error.code(),
                              fmt::format("step {}, node '{}' ({}): {}", step_, item.node->name,
                                          item.node->op->name, error.message()),
                              error.os_code(), error.file(), error.line()));
}

std::vector<tensor::Tensor> Executor::Core::fetch() {
  std::vector<tensor::Tensor> fetched;
  for (const auto value_id : program_.fetches) {
    fetched.push_back(values_[value_id].tensor);
    drop_use(value_id);
  }
  return fetched;
}

ExecutorStats Executor::Core::stats() const {
  auto stats = stats_;
  stats.sites_in_place = allocation_.sites(OutputAllocation::Memory::kEnd);
  stats.sites_registered = allocation_.sites(OutputAllocation::Memory::kRegistered);
  stats.blocks = ordinary_.made() + registered_.made() + scratch_.made();
  return stats;
}

}  // namespace ferry::runtime
