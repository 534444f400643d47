#include "ferry/cli/common/job_options.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ferry/cli/common/text.h"

namespace ferry::cli {
namespace {

constexpr int kMostTasks = 64;  // of a kind, on one machine: each has its own data and memory

Result<graph::Optimizer> optimizer_named(const std::string& name) {
  if (name == "sgd") return graph::Optimizer::sgd();
  if (name == "momentum") return graph::Optimizer::with_momentum();
  if (name == "adam") return graph::Optimizer::adam();
  return fail(Code::kInvalidArgument, "there is no optimizer '{}'; there are sgd, momentum, adam",
              name);
}

}  // namespace

void add_spin_option(CLI::App& command, Nanos& spin) {
  command
      .add_option_function<double>(
          "--spin", [&spin](double us) { spin = mail::spin_of_user(us); },
          "Microseconds that a wait spins before it sleeps; else what is kept for the path, or "
          "50")
      ->check(CLI::Range(0.0, 10000.0));
}

void add_job_options(CLI::App& command, JobFlags& flags) {
  auto& job = flags.job;
  command
      .add_option("--model", job.model,
                  fmt::format("One of {}; or FILE.onnx, made with PyTorch or others",
                              fmt::join(models::model_names(), ", ")))
      ->capture_default_str();
  command.add_option("--batch", job.batch, "Samples of each worker in a step")
      ->capture_default_str();
  command
      .add_option("--compute", flags.compute,
                  "real, or emulate: computation is replaced by waiting as long as a GPU took")
      ->check(CLI::IsMember({"real", "emulate"}))
      ->capture_default_str();
  command
      .add_option("--transport", flags.transports,
                  fmt::format("How tensors travel: {}; several, to compare them",
                              fmt::join(train::transport_names(), ", ")))
      ->capture_default_str();
  command.add_option("--provider", job.provider, "Of the ferry transports: auto, shm, tcp, verbs")
      ->check(CLI::IsMember({"auto", "shm", "tcp", "verbs"}))
      ->capture_default_str();
  add_spin_option(command, job.spin);
  command.add_option("--optimizer", flags.optimizer, "sgd, momentum or adam")
      ->capture_default_str();
  command.add_flag(
      "--async", [&job](std::int64_t) { job.synchronous = false; },
      "Apply each worker's gradients as they come, instead of their mean in each step");
  command.add_option("--rate", job.rate, "Learning rate")
      ->check([](const std::string& text) -> std::string {
        double rate = 0;
        const bool fine = CLI::detail::lexical_cast(text, rate) && rate > 0 && std::isfinite(rate);
        return fine ? "" : fmt::format("{} is no rate above 0", text);
      })
      ->capture_default_str();
}

void add_task_counts(CLI::App& command, JobFlags& flags) {
  auto& job = flags.job;
  command.add_option("--workers", job.workers, "Worker processes")
      ->check(CLI::Range(1, kMostTasks))
      ->capture_default_str();
  command.add_option("--ps", job.servers, "Parameter server processes; 0: the first worker is one")
      ->check(CLI::Range(0, kMostTasks))
      ->capture_default_str();
}

nlohmann::json spin_json(const std::optional<mail::SpinInUse>& spin) {
  if (!spin) return {};
  return {{"us", static_cast<double>(spin->spin.count()) / 1000},
          {"source", name_of(spin->source)}};
}

std::string counted(std::uint64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string tasks_text(const train::JobOptions& job) {
  return fmt::format("{}, {}", counted(job.workers, "worker"), counted(job.servers, "server"));
}

Result<std::vector<train::JobOptions>> jobs_of(const JobFlags& flags) {
  std::vector<train::JobOptions> jobs;
  for (const auto& name : split_list(flags.transports)) {
    auto job = flags.job;
    job.emulate = flags.compute == "emulate";
    job.transport = FERRY_TRY(train::transport_named(name));
    job.optimizer = FERRY_TRY(optimizer_named(flags.optimizer));
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace ferry::cli
