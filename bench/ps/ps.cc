#include "bench/ps/ps.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "bench/ps/json.h"
#include "bench/report/html.h"
#include "bench/report/table.h"
#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/launch_guard.h"
#include "ferry/cli/common/programs.h"
#include "ferry/cli/common/report_file.h"
#include "ferry/cli/common/setup.h"
#include "ferry/cli/common/svg.h"
#include "ferry/cli/common/table.h"
#include "ferry/cli/common/text.h"
#include "ferry/fabric/device.h"
#include "ferry/ps/scheduler.h"
#include "ferry/ps/server.h"

namespace ferry::bench {
namespace {

struct BenchPsFlags {
  int repeat = 0;
  bool quick = false;
  bool check = false;
  bool fio = false;
  std::vector<std::string> parts = {"training", "core", "recovery", "speed"};
  std::string json;
  std::string html;
};

std::string figures_table(const std::vector<PsFigure>& figures) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& figure : figures) {
    const bool judged = figure.skipped.empty();
    rows.push_back(
        {figure.sentence, fmt::format("{:.4g} {}", cli::median(figure.ours), figure.unit),
         judged && figure.is_compared() ? fmt::format("{:.4g}", cli::median(figure.other)) : "-",
         judged ? ratio_text(figure.ratio()) : "-",
         fmt::format("{} {:.4g}", figure.at_most ? "<=" : ">=", figure.bound), figure.verdict()});
  }
  return cli::render_table({"what", "ours", "other", "ratio (95 %)", "target", "verdict"}, rows);
}

std::string speeds_table(const std::vector<PsSpeed>& speeds) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(speeds.size());
  for (const auto& speed : speeds)
    rows.push_back({speed.way, cli::size_text(speed.block), fmt::format("{}", speed.workers),
                    fmt::format("{:.3g} GB/s", speed.gb_per_second)});
  return rows.empty() ? "" : cli::render_table({"steps", "block", "workers", "gradients"}, rows);
}

std::vector<cli::Series> named_lines(std::map<std::string, cli::Series> all) {
  std::vector<cli::Series> series;
  for (auto& [name, one] : all) {
    one.name = name;
    if (one.points.size() > 1) series.push_back(std::move(one));
  }
  return series;
}

// A line for each way, of one number of workers and over the block sizes, or the other way round.
std::string speeds_plots(const std::vector<PsSpeed>& speeds) {
  std::map<std::string, cli::Series> by_block;
  std::map<std::string, cli::Series> by_workers;
  for (const auto& speed : speeds) {
    auto& blocks = by_block[fmt::format("{}, {} workers", speed.way, speed.workers)];
    blocks.points.push_back({static_cast<double>(speed.block), speed.gb_per_second});
    auto& workers = by_workers[fmt::format("{}, {}", speed.way, cli::size_text(speed.block))];
    workers.points.push_back({static_cast<double>(speed.workers), speed.gb_per_second});
  }
  const auto speed_text = [](double speed) { return fmt::format("{:.3g} GB/s", speed); };
  const auto count_text = [](double count) { return fmt::format("{:.0f}", count); };
  std::string plots;
  if (const auto series = named_lines(std::move(by_block)); !series.empty())
    plots += cli::log_log_plot("gradients pushed, by block size", series, speed_text);
  if (const auto series = named_lines(std::move(by_workers)); !series.empty())
    plots +=
        cli::line_plot("gradients pushed, by number of workers", series, count_text, speed_text);
  return plots;
}

std::string trainings_table(const std::vector<PsTraining>& trainings) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(trainings.size());
  for (const auto& one : trainings) {
    const bool alone = one.workers == 0;
    rows.push_back({one.way, alone ? "-" : fmt::format("{}", one.workers),
                    fmt::format("{:.4g}", one.images_per_second),
                    fmt::format("{:.3g} ms", one.step_seconds * 1e3),
                    alone ? "-" : fmt::format("{:.0f} %", one.communicating * 100),
                    fmt::format("{:.2f}", one.of_alone), fmt::format("{:.5f}", one.loss),
                    fmt::format("{:.3f}", one.accuracy)});
  }
  return rows.empty() ? ""
                      : cli::render_table({"training", "workers", "images/s", "step",
                                           "communicating", "of alone", "loss", "accuracy"},
                                          rows);
}

std::string trainings_plot(const std::vector<PsTraining>& trainings) {
  std::map<std::string, cli::Series> ways;
  for (const auto& one : trainings) {
    if (one.workers == 0) continue;
    ways[one.way].points.push_back({static_cast<double>(one.workers), one.of_alone});
  }
  const auto series = named_lines(std::move(ways));
  if (series.empty()) return "";
  return cli::line_plot(
      "images per second by number of workers, 1 is one process alone", series,
      [](double count) { return fmt::format("{:.0f}", count); },
      [](double ratio) { return fmt::format("{:.2f}", ratio); });
}

std::string ps_page(const PsResults& results, const cli::Setup& setup) {
  return html_page(
      "ferry bench ps", setup,
      html_section("Figures", html_block(figures_table(results.figures))) +
          html_section("Speed",
                       speeds_plots(results.speeds) + html_block(speeds_table(results.speeds))) +
          html_section("Training", trainings_plot(results.trainings) +
                                       html_block(trainings_table(results.trainings))));
}

Result<PsResults> measure(const BenchPsFlags& flags, const PsPlan& plan) {
  PsResults results;
  if (flags.fio) {
    results.figures = FERRY_TRY(measure_files(plan));
    return results;
  }
  const auto wanted = [&](const char* part) {
    return std::find(flags.parts.begin(), flags.parts.end(), part) != flags.parts.end();
  };
  // First, since it needs data that may not be there.
  if (wanted("training")) results.trainings = FERRY_TRY(measure_training(plan));
  if (wanted("core")) results.figures = FERRY_TRY(measure_ps(plan));
  if (wanted("recovery"))
    for (auto& figure : FERRY_TRY(measure_recovery(plan)))
      results.figures.push_back(std::move(figure));
  if (wanted("speed")) results.speeds = FERRY_TRY(measure_speeds(plan));
  return results;
}

Result<int> run_bench_ps(const BenchPsFlags& flags) {
  FERRY_TRY(cli::guard_launch());
  for (const auto& path : {flags.json, flags.html})
    if (!path.empty()) FERRY_TRY(cli::check_writable(path));
  PsPlan plan;
  plan.self = FERRY_TRY(cli::running_program());
  plan.ferry = cli::program_beside(plan.self, "ferry");
  if (plan.ferry.empty())
    return fail(Code::kNotFound, "there is no ferry beside {}, which plays servers", plan.self);
  plan.zeromq = cli::program_beside(plan.self, "ferry-peer-zeromq");
  plan.fuse_ram = cli::program_beside(plan.self, "ferry-peer-fuse-ram");
  plan.quick = flags.quick;
  plan.turns = flags.repeat > 0 ? flags.repeat : flags.quick ? 2 : 6;
  auto* out = flags.json == "-" ? stderr : stdout;
  const auto setup = cli::read_setup();
  for (const auto& line : cli::setup_lines(setup)) fmt::print(out, "{}\n", line);
  ::setenv("FERRY_SECRET", kPsSecret, 1);
  cli::InterruptGuard guard;
  const auto measured = measure(flags, plan);
  if (!measured && cli::InterruptGuard::interrupted()) return cli::InterruptGuard::exit_code();
  if (!measured) return tl::unexpected<Error>(measured.error());
  if (!measured->figures.empty()) fmt::print(out, "\n{}", figures_table(measured->figures));
  if (!measured->speeds.empty()) fmt::print(out, "\n{}", speeds_table(measured->speeds));
  if (!measured->trainings.empty()) fmt::print(out, "\n{}", trainings_table(measured->trainings));
  if (!flags.json.empty()) FERRY_TRY(cli::write_report(flags.json, ps_json(*measured, setup)));
  if (!flags.html.empty()) FERRY_TRY(cli::write_report(flags.html, ps_page(*measured, setup)));
  int missed = 0;
  for (const auto& figure : measured->figures) {
    if (!flags.check || (figure.skipped.empty() && figure.outcome() != Outcome::kMissed)) continue;
    ++missed;
    fmt::print(stderr, "MISSED {}: {}; {}\n", figure.id, figure.sentence,
               figure.skipped.empty() ? ratio_text(figure.ratio()) : figure.skipped);
  }
  return missed > 0 ? 1 : 0;
}

struct PsServerFlags {
  std::string provider = "shm";
  std::uint64_t block = 256 << 10;
  std::uint32_t workers = 1;
  bool async = false;
};

// Says where scheduler and sink are and who it is, and leaves when the driver does.
Status serve_bench(const PsServerFlags& flags) {
  constexpr std::size_t kSink = std::size_t{16} << 20;
  fabric::Options device;
  device.provider = flags.provider;
  if (const char* secret = std::getenv("FERRY_SECRET")) device.secret = secret;
  ps::JobOptions job{.workers = flags.workers, .block_bytes = flags.block};
  if (flags.async) job.consistency = ps::Consistency::kAsync;
  if (flags.block > (std::size_t{1} << 20)) job.pool_blocks = std::max(flags.workers, 16U);
  auto scheduler = FERRY_TRY(ps::Scheduler::open({job, device}));
  auto server = FERRY_TRY(ps::Server::open({.scheduler = scheduler.endpoint(), .device = device},
                                           Deadline::after(std::chrono::seconds(10))));
  auto sink = FERRY_TRY(fabric::Device::open(device));
  auto region = FERRY_TRY(sink.allocate(kSink));
  const auto grant = FERRY_TRY(sink.grant(region, fabric::Rights::kReadWrite));
  FERRY_TRY(sink.publish("sink", grant));
  fmt::print("{} {} {}\n", scheduler.endpoint(), sink.endpoint(), getpid());
  std::fflush(stdout);
  std::vector<fabric::Channel> channels;  // of writers
  char some = 0;
  std::thread acceptor([&] {
    if (auto channel = sink.accept(Deadline::after(std::chrono::seconds(60))))
      channels.push_back(std::move(*channel));
  });
  while (read(STDIN_FILENO, &some, 1) > 0) {
  }
  _exit(0);
}

}  // namespace

void add_bench_ps(CLI::App& bench_command, int& exit_code) {
  auto flags = std::make_shared<BenchPsFlags>();
  auto* command =
      bench_command.add_subcommand("ps", "The parameter server, beside its limits and ZeroMQ");
  command->add_option("--repeat", flags->repeat, "Turns (6; 2 with --quick)")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--quick", flags->quick, "About a minute, too short for verdicts");
  command->add_flag("--check", flags->check, "Exit with 1 and name every target that was missed");
  command->add_flag("--fio", flags->fio,
                    "Instead: the mounted model, driven by fio, beside a plain file of FUSE");
  command
      ->add_option("--parts", flags->parts,
                   "core: beside limits and peers; recovery: after a kill; speed: by block size, "
                   "workers and servers; training: MLP-2048 on Fashion-MNIST, beside one process "
                   "alone")
      ->delimiter(',')
      ->check(CLI::IsMember({"core", "recovery", "speed", "training"}))
      ->capture_default_str();
  command->add_option("--json", flags->json, "Write the figures to this file; - is stdout");
  command->add_option("--html", flags->html, "Write a report with plots to this file");
  command->callback([flags, &exit_code] {
    const auto status = run_bench_ps(*flags);
    if (!status) fmt::print(stderr, "ferry bench ps: {}\n", status.error().message());
    exit_code = status ? *status : cli::kCannotRun;
  });
}

void add_bench_ps_server(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PsServerFlags>();
  auto* command = app.add_subcommand("ps-server", "The servers of `bench ps`");
  command->group("");  // not in --help: the driver starts it
  command->add_option("--provider", flags->provider);
  command->add_option("--block", flags->block);
  command->add_option("--workers", flags->workers);
  command->add_flag("--async,!--sync", flags->async);
  command->callback([flags, &exit_code] {
    const auto status = serve_bench(*flags);
    if (!status) fmt::print("error {}\n", status.error().message());
    exit_code = status ? 0 : 1;
  });
}

}  // namespace ferry::bench
