#include "ferry/ps/exchange.h"

#include <array>
#include <condition_variable>
#include <optional>
#include <thread>

#include "ferry/base/spin.h"
#include "ferry/ps/pull_pace_internal.h"

namespace ferry::ps {

// Round n is what the threads do during step n + 1: they push the gradients of step n, and pull
// weights into the buffers that it used.
class Exchange::Core {
 public:
  Core(Worker worker, std::span<const Parameter> parameters, const ExchangeOptions& options)
      : worker_(std::move(worker)),
        parameters_(parameters.begin(), parameters.end()),
        options_(options) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core() { stop(); }

  Status begin(Deadline deadline);
  const ModelBuffers& front() const { return buffers_[front_]; }
  Status end_step(Deadline deadline);
  Result<Worker> close(Deadline deadline);
  ExchangeStats stats() const {
    const LockGuard<Mutex> guard(lock_);
    return stats_;
  }

 private:
  // What is known of the weights in a set of buffers.
  struct Pulled {
    std::uint64_t version = 0;
    std::int64_t at = 0;  // when the pull began
  };

  void stop();
  void push_rounds();
  void pull_rounds();
  Status push(const ModelBuffers& from);
  Result<Pulled> pull(const ModelBuffers& into, Deadline deadline);
  // False: there is no such round any more.
  bool await_round(std::uint64_t round);
  bool await_turn_to_pull(std::uint64_t round);
  Status await_rest(Deadline deadline) FERRY_REQUIRES(lock_);
  void failed(const Error& error);
  Deadline patience() const { return Deadline::after(options_.patience); }

  Worker worker_;
  const std::vector<Parameter> parameters_;
  const ExchangeOptions options_;
  std::array<ModelBuffers, 2> buffers_;
  std::vector<Loan> loans_;  // of the gradients of a round; the pushing thread's
  std::size_t front_ = 0;    // the caller's thread's

  mutable Mutex lock_;
  std::condition_variable_any changed_;
  std::uint64_t round_ FERRY_GUARDED_BY(lock_) = 0;
  std::uint64_t pushed_ FERRY_GUARDED_BY(lock_) = 0;  // rounds
  std::uint64_t pulled_ FERRY_GUARDED_BY(lock_) = 0;
  std::int64_t step_began_ FERRY_GUARDED_BY(lock_) = 0;
  bool awaited_ FERRY_GUARDED_BY(lock_) = false;  // the step has ended before the round
  bool stopping_ FERRY_GUARDED_BY(lock_) = false;
  Status failure_ FERRY_GUARDED_BY(lock_);
  std::array<Pulled, 2> known_ FERRY_GUARDED_BY(lock_);
  PullPace pace_ FERRY_GUARDED_BY(lock_);
  ExchangeStats stats_ FERRY_GUARDED_BY(lock_);

  std::thread pusher_;
  std::thread puller_;
};

Status Exchange::Core::begin(Deadline deadline) {
  if (worker_.job().consistency != Consistency::kAsync)
    return fail(Code::kFailedPrecondition,
                "an exchange in the background needs a job that was begun with kAsync: workers in "
                "step wait for each other");
  if (parameters_.empty()) return fail(Code::kInvalidArgument, "an exchange of no parameters");
  for (auto& buffers : buffers_) {
    for (const auto parameter : parameters_) {
      const auto spec = FERRY_TRY(worker_.spec(parameter));
      buffers.weights.push_back(FERRY_TRY(worker_.allocate(spec, deadline)));
      buffers.gradients.push_back(FERRY_TRY(worker_.allocate(spec, deadline)));
    }
  }
  loans_.resize(parameters_.size());
  const LockGuard<Mutex> guard(lock_);
  for (std::size_t each = 0; each < buffers_.size(); ++each)
    known_[each] = FERRY_TRY(pull(buffers_[each], deadline));
  step_began_ = now_ns();
  pusher_ = std::thread([this] { push_rounds(); });
  puller_ = std::thread([this] { pull_rounds(); });
  return {};
}

void Exchange::Core::stop() {
  {
    const LockGuard<Mutex> guard(lock_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (pusher_.joinable()) pusher_.join();
  if (puller_.joinable()) puller_.join();
}

void Exchange::Core::failed(const Error& error) {
  {
    const LockGuard<Mutex> guard(lock_);
    if (failure_) failure_ = tl::unexpected<Error>(error);
  }
  changed_.notify_all();
}

// Until the threads have nothing to do.
Status Exchange::Core::await_rest(Deadline deadline) {
  if (stopping_) return fail(Code::kFailedPrecondition, "the exchange is closed");
  awaited_ = true;
  changed_.notify_all();
  while (failure_ && (pushed_ < round_ || pulled_ < round_) && !deadline.expired())
    changed_.wait_for(lock_, deadline.left());
  awaited_ = false;
  FERRY_TRY(failure_);
  if (pushed_ < round_ || pulled_ < round_)
    return fail(Code::kDeadlineExceeded, "worker {} waited in vain for {} of the step before",
                worker_.rank(), pushed_ < round_ ? "the push" : "the pull");
  return {};
}

Status Exchange::Core::end_step(Deadline deadline) {
  const auto ended = now_ns();
  const LockGuard<Mutex> guard(lock_);
  FERRY_TRY(await_rest(deadline));
  const auto computed = Nanos(ended - step_began_);
  front_ = 1 - front_;
  ++round_;
  step_began_ = now_ns();
  pace_.computed(computed);
  ++stats_.steps;
  stats_.computed += computed;
  stats_.stalled += Nanos(step_began_ - ended);
  stats_.staleness += Nanos(step_began_ - known_[front_].at);
  changed_.notify_all();
  return {};
}

Result<Worker> Exchange::Core::close(Deadline deadline) {
  {
    const LockGuard<Mutex> guard(lock_);
    FERRY_TRY(await_rest(deadline));
  }
  stop();
  return std::move(worker_);
}

bool Exchange::Core::await_round(std::uint64_t round) {
  const LockGuard<Mutex> guard(lock_);
  while (round_ < round && !stopping_) changed_.wait(lock_);
  return !stopping_ && failure_;
}

Status Exchange::Core::push(const ModelBuffers& from) {
  const auto deadline = patience();
  for (std::size_t each = 0; each < parameters_.size(); ++each)
    loans_[each] =
        FERRY_TRY(worker_.lend_gradient(parameters_[each], from.gradients[each].bytes(), deadline));
  FERRY_TRY(worker_.end_step(deadline));
  FERRY_TRY(worker_.flush(deadline));
  for (auto& loan : loans_) FERRY_TRY(loan.release(deadline));
  return {};
}

void Exchange::Core::push_rounds() {
  for (std::uint64_t round = 1; await_round(round); ++round) {
    const auto begin = now_ns();
    const auto pushed = push(buffers_[(round - 1) % 2]);
    if (!pushed) return failed(pushed.error());
    {
      const LockGuard<Mutex> guard(lock_);
      pushed_ = round;
      pace_.pushed(Nanos(now_ns() - begin));
    }
    changed_.notify_all();
  }
}

Result<Exchange::Core::Pulled> Exchange::Core::pull(const ModelBuffers& into, Deadline deadline) {
  Pulled pulled;
  pulled.at = now_ns();
  pulled.version = FERRY_TRY(worker_.version(parameters_.front(), deadline));
  for (std::size_t each = 0; each < parameters_.size(); ++each)
    FERRY_TRY(worker_.pull_to(parameters_[each], into.weights[each].bytes(), deadline));
  return pulled;
}

// After the push, unless that makes it late; then the bubble, which ends with the step at the
// latest.
bool Exchange::Core::await_turn_to_pull(std::uint64_t round) {
  const LockGuard<Mutex> guard(lock_);
  const bool both = pace_.push_is_in_the_way();
  if (both) ++stats_.on_two_threads;
  while (!both && pushed_ < round && !stopping_ && failure_) changed_.wait(lock_);
  const auto begin = now_ns();
  const auto turn = Deadline::at_ns(step_began_ + pace_.pull_after().count());
  while (options_.adaptive && !awaited_ && !stopping_ && failure_ && !turn.expired())
    changed_.wait_for(lock_, turn.left());
  stats_.bubbles += Nanos(now_ns() - begin);
  return !stopping_ && failure_;
}

void Exchange::Core::pull_rounds() {
  for (std::uint64_t round = 1; await_round(round); ++round) {
    const auto newest = worker_.version(parameters_.front(), patience());
    if (!newest) return failed(newest.error());
    if (!await_turn_to_pull(round)) return;
    const auto back = (round - 1) % 2;
    const auto begin = now_ns();
    const auto pulled = pull(buffers_[back], patience());
    if (!pulled) return failed(pulled.error());
    {
      const LockGuard<Mutex> guard(lock_);
      stats_.stale_versions += *newest - known_[1 - back].version;
      known_[back] = *pulled;
      pulled_ = round;
      pace_.pulled(Nanos(now_ns() - begin));
    }
    changed_.notify_all();
  }
}

Exchange::Exchange(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Exchange::Exchange(Exchange&&) noexcept = default;
Exchange& Exchange::operator=(Exchange&&) noexcept = default;
Exchange::~Exchange() = default;

Result<Exchange> Exchange::open(Worker worker, std::span<const Parameter> parameters,
                                const ExchangeOptions& options, Deadline deadline) {
  auto core = std::make_unique<Core>(std::move(worker), parameters, options);
  FERRY_TRY(core->begin(deadline));
  return Exchange(std::move(core));
}

const ModelBuffers& Exchange::buffers() const { return core_->front(); }
Status Exchange::end_step(Deadline deadline) { return core_->end_step(deadline); }
Result<Worker> Exchange::close(Deadline deadline) { return core_->close(deadline); }
ExchangeStats Exchange::stats() const { return core_->stats(); }

}  // namespace ferry::ps
