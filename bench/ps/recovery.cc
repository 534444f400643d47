#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "bench/ps/crew.h"
#include "bench/ps/ps.h"
#include "ferry/base/clock.h"
#include "ferry/cli/common/child.h"
#include "ferry/cli/common/interrupt_guard.h"

// How long a step takes in which somebody is killed.

namespace ferry::bench {
namespace {

using std::chrono::milliseconds;

constexpr double kMostMs = 1000;

// A worker that steps on a thread, and knows its longest step.
class Stepping {
 public:
  Stepping(ps::Worker& worker, ps::Parameter parameter, const tensor::Tensor& gradient)
      : thread_([this, &worker, parameter, &gradient] { run(worker, parameter, gradient); }) {}
  ~Stepping() { finish(); }
  Stepping(const Stepping&) = delete;
  Stepping& operator=(const Stepping&) = delete;

  std::uint64_t steps() const { return steps_; }
  void forget() { longest_ns_ = 0; }
  double longest_ms() const { return static_cast<double>(longest_ns_) / 1e6; }
  Status finish() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return problem_ ? Status(tl::unexpected<Error>(*problem_)) : Status();
  }
  bool failed() const { return ended_; }

 private:
  void run(ps::Worker& worker, ps::Parameter parameter, const tensor::Tensor& gradient) {
    while (!stop_) {
      const auto begin = now_ns();
      const auto pulled = worker.push_pull(parameter, gradient.bytes(), BenchCrew::in_time());
      if (!pulled) {
        problem_ = pulled.error();
        break;
      }
      longest_ns_ = std::max(longest_ns_.load(), now_ns() - begin);
      ++steps_;
    }
    ended_ = true;
  }

  std::atomic<bool> stop_{false};
  std::atomic<bool> ended_{false};
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<std::int64_t> longest_ns_{0};
  std::optional<Error> problem_;  // after the thread has ended
  std::thread thread_;
};

// Some steps, a kill, and some more: the longest of these in ms.
Result<double> longest_after(Stepping& stepping, const std::function<void()>& kill) {
  const auto go = [&](std::uint64_t steps) {
    const auto until = stepping.steps() + steps;
    const auto limit = BenchCrew::in_time();
    while (stepping.steps() < until && !stepping.failed() && !limit.expired() &&
           !cli::InterruptGuard::interrupted())
      std::this_thread::sleep_for(milliseconds(1));
  };
  go(20);
  stepping.forget();
  kill();
  go(100);
  const auto longest = stepping.longest_ms();
  FERRY_TRY(stepping.finish());
  if (cli::InterruptGuard::interrupted()) return fail(Code::kCancelled, "interrupted");
  return longest;
}

Result<double> after_a_kill(const PsPlan& plan, const std::string& provider, bool server) {
  const ps::JobOptions job{
      .servers = server ? 3U : 1U, .workers = server ? 1U : 2U, .replicas = server ? 2U : 1U};
  auto crew = FERRY_TRY(BenchCrew::start(plan, provider, job));
  std::optional<cli::ChildProgram> other;
  if (!server) other.emplace(FERRY_TRY(crew.start_worker()));
  auto worker = FERRY_TRY(crew.worker());
  const auto spec = FERRY_TRY(BenchCrew::model());
  const auto parameter =
      FERRY_TRY(worker.init("w", spec, {}, {ps::UpdateKind::kSum}, BenchCrew::in_time()));
  const auto gradient = FERRY_TRY(worker.allocate(spec, BenchCrew::in_time()));
  Stepping stepping(worker, parameter, gradient);
  return longest_after(stepping, [&] {
    if (server)
      crew.kill_server(1);
    else
      other->kill_now();
  });
}

}  // namespace

Result<std::vector<PsFigure>> measure_recovery(const PsPlan& plan) {
  std::vector<PsFigure> figures;
  for (const auto* provider : {"shm", "tcp"})
    for (const bool server : {false, true})
      figures.push_back(
          {fmt::format("{}-killed-{}", server ? "server" : "worker", provider),
           fmt::format("longest step when a {} is killed, {}{}", server ? "server" : "worker",
                       provider, server ? ", two copies" : ""),
           "ms",
           kMostMs,
           true,
           {},
           {},
           {}});
  for (int turn = 1; turn <= plan.turns; ++turn) {
    fmt::print(stderr, "kills, turn {} of {}\n", turn, plan.turns);
    std::size_t next = 0;
    for (const auto* provider : {"shm", "tcp"})
      for (const bool server : {false, true}) {
        figures[next].ours.push_back(FERRY_TRY(after_a_kill(plan, provider, server)));
        figures[next++].other.push_back(1);
      }
  }
  return figures;
}

}  // namespace ferry::bench
