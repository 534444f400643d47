#include "bench/ps/crew.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

namespace ferry::bench {
namespace {

struct PsWorkerFlags {
  std::string provider;
  std::string scheduler;
};

Status step_for_ever(const PsWorkerFlags& flags) {
  auto worker = FERRY_TRY(
      ps::Worker::open({.scheduler = flags.scheduler, .device = bench_device(flags.provider)},
                       BenchCrew::in_time()));
  const auto spec = FERRY_TRY(BenchCrew::model());
  const auto parameter =
      FERRY_TRY(worker.init("w", spec, {}, {ps::UpdateKind::kSum}, BenchCrew::in_time()));
  const auto gradient = FERRY_TRY(worker.allocate(spec, BenchCrew::in_time()));
  fmt::print("ready\n");
  std::fflush(stdout);
  for (;;) FERRY_TRY(worker.push_pull(parameter, gradient.bytes(), BenchCrew::in_time()));
}

}  // namespace

fabric::Options bench_device(const std::string& provider) {
  fabric::Options options;
  options.provider = provider;
  options.secret = kPsSecret;
  return options;
}

Deadline BenchCrew::in_time() { return Deadline::after(std::chrono::seconds(60)); }

Result<tensor::Spec> BenchCrew::model() {
  return tensor::Spec{tensor::ElementType::kF32, FERRY_TRY(tensor::Shape::of({1 << 20}))};
}

Result<BenchCrew> BenchCrew::start(const PsPlan& plan, const std::string& provider,
                                   const ps::JobOptions& job) {
  auto scheduler = FERRY_TRY(ps::Scheduler::open({job, bench_device(provider)}));
  BenchCrew crew(plan.self, provider, std::move(scheduler));
  for (std::uint32_t each = 0; each < job.servers; ++each) {
    crew.servers_.push_back(FERRY_TRY(cli::ChildProgram::start(
        plan.ferry, {"ps", "--role", "server", "--scheduler", crew.scheduler_.endpoint(),
                     "--provider", provider, "--listen", "127.0.0.1:0"})));
    const auto line = FERRY_TRY(crew.servers_.back().read_line(in_time()));
    if (!line.starts_with("server")) return fail(Code::kInternal, "a server says '{}'", line);
  }
  return crew;
}

Result<ps::Worker> BenchCrew::worker() const {
  return ps::Worker::open({.scheduler = scheduler_.endpoint(), .device = bench_device(provider_)},
                          in_time());
}

Result<cli::ChildProgram> BenchCrew::start_worker() const {
  return cli::ChildProgram::start(
      self_, {"ps-worker", "--provider", provider_, "--scheduler", scheduler_.endpoint()});
}

void add_bench_ps_worker(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PsWorkerFlags>();
  auto* command = app.add_subcommand("ps-worker", "A worker that `bench ps` kills");
  command->group("");  // not in --help: the driver starts it
  command->add_option("--provider", flags->provider);
  command->add_option("--scheduler", flags->scheduler);
  command->callback([flags, &exit_code] {
    const auto status = step_for_ever(*flags);
    if (!status) fmt::print("error {}\n", status.error().message());
    exit_code = status ? 0 : 1;
  });
}

}  // namespace ferry::bench
