#include "ferry/cli/common/job_time.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/cli/common/interrupt_guard.h"

namespace ferry::cli {

void StepClock::note(const train::StepReport& step) {
  if (first_ == 0) first_ = step.step;  // others than 1 after --resume
  if (step.step < first_ + kWarmSteps) warm_ = std::max(warm_, step.seconds);
  end_ = std::max(end_, step.seconds);
}

double StepClock::step_seconds(std::uint64_t steps) const {
  if (steps <= kWarmSteps) return end_ / static_cast<double>(steps);
  return (end_ - warm_) / static_cast<double>(steps - kWarmSteps);
}

train::JobOptions alone_job(train::JobOptions job) {
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  if (job.threads == 0) job.threads = std::max(1U, cores / (job.workers + job.servers));
  job.workers = 1;
  job.servers = 0;
  return job;
}

Result<JobTime> time_job(const train::JobOptions& options) {
  StepClock clock;
  auto report = FERRY_TRY(train::run_job(
      options, [&clock](const train::StepReport& step) { clock.note(step); },
      [] { return InterruptGuard::interrupted(); }));
  return JobTime{clock.step_seconds(options.steps), std::move(report)};
}

std::uint64_t variable_bytes(const train::JobPlan& plan) {
  std::uint64_t bytes = 0;
  for (const auto id : plan.program.trained)
    bytes += plan.program.graph.spec({id, 0}).bytes().value_or(0);
  return bytes;
}

std::uint64_t least_memory_bytes(std::uint64_t variable_bytes, std::uint32_t workers) {
  return (2 * std::uint64_t{workers} + 2) * variable_bytes;
}

double memory_speed() {
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  static constexpr Nanos kTime = std::chrono::milliseconds(400);
  std::vector<double> speeds(std::max(1U, std::thread::hardware_concurrency()));
  {
    std::vector<std::jthread> threads;
    threads.reserve(speeds.size());
    for (auto& speed : speeds)
      threads.emplace_back([&speed] {
        const std::vector<std::byte> from(kBytes, std::byte{1});
        std::vector<std::byte> to(kBytes, std::byte{2});
        const auto until = Deadline::after(kTime);
        const auto begun = now_ns();
        double bytes = 0;
        for (; !until.expired(); bytes += 2 * kBytes) std::memcpy(to.data(), from.data(), kBytes);
        speed = bytes / static_cast<double>(now_ns() - begun) * 1e9;
      });
  }
  double sum = 0;
  for (const auto speed : speeds) sum += speed;
  return sum;
}

}  // namespace ferry::cli
