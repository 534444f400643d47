#include "ferry/cli/ps.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/job_options.h"
#include "ferry/cli/common/launch_guard.h"
#include "ferry/cli/common/report_file.h"
#include "ferry/cli/common/seconds.h"
#include "ferry/cli/common/text.h"
#include "ferry/cli/doctor_peer.h"
#include "ferry/cli/ps_local.h"
#include "ferry/ps/scheduler.h"
#include "ferry/ps/server.h"

namespace ferry::cli {
namespace {

using std::chrono::milliseconds;

struct PsFlags {
  std::string role;
  std::string local;
  std::string scheduler;
  std::string listen = "127.0.0.1:0";
  std::string provider = "auto";
  std::string secret_file;
  std::string consistency = "sync";
  std::string block = "256K";
  std::string memory;
  std::string restore;
  std::string state;
  double away = 30;
  double lease = 3;
  std::string json;
  double patience = 60;
  Nanos spin = fabric::Options().spin;
  bool pslite = false;
  bool quiet = false;
  ps::JobOptions job;
  std::uint32_t shards = 1;
  std::vector<std::string> program;
};

Result<ps::JobOptions> job_of(const PsFlags& flags) {
  auto job = flags.job;
  job.block_bytes = FERRY_TRY(parse_size(flags.block));
  if (flags.consistency == "async") job.consistency = ps::Consistency::kAsync;
  if (flags.consistency == "ssp") job.consistency = ps::Consistency::kBounded;
  return job;
}

Result<fabric::Options> device_of(const PsFlags& flags) {
  const auto peer = FERRY_TRY(peer_options(flags.secret_file, flags.patience));
  auto device = device_options(peer);
  device.listen = flags.listen;
  device.provider = flags.provider;
  device.spin = flags.spin;
  return device;
}

// Waits for the end of what is open; says 130 or 143 when interrupted.
template <class Role>
Result<int> wait_for_end(Role& role) {
  for (;;) {
    const auto ended = role.wait(Deadline::after(milliseconds(200)));
    if (ended) return 0;
    // First: who is interrupted with the scheduler finds it gone.
    if (InterruptGuard::interrupted()) return InterruptGuard::exit_code();
    if (ended.error().code() != Code::kDeadlineExceeded)
      return tl::unexpected<Error>(ended.error());
  }
}

Result<int> run_scheduler(const PsFlags& flags) {
  const auto job = FERRY_TRY(job_of(flags));
  const auto device = FERRY_TRY(device_of(flags));
  auto scheduler = FERRY_TRY(
      ps::Scheduler::open({.job = job,
                           .device = device,
                           .restore = flags.restore,
                           .state = flags.state,
                           .away = Nanos(static_cast<std::int64_t>(flags.away * 1e9)),
                           .lease = Nanos(static_cast<std::int64_t>(flags.lease * 1e9))}));
  const InterruptGuard guard;  // while it waits for an etcd, a signal ends it at once
  fmt::print("scheduler at {}\n", scheduler.endpoint());
  std::fflush(stdout);
  auto code = wait_for_end(scheduler);
  const auto stats = scheduler.stats();
  if (!flags.json.empty())
    FERRY_TRY(write_report(flags.json, nlohmann::json{{"tool", "ps"},
                                                      {"role", "scheduler"},
                                                      {"servers", stats.servers},
                                                      {"servers_gone", stats.servers_gone},
                                                      {"left", stats.left},
                                                      {"dead", stats.dead},
                                                      {"tensors", stats.tensors}}
                                               .dump(2) +
                                           "\n"));
  return code;
}

Result<int> run_server(const PsFlags& flags) {
  if (flags.scheduler.empty())
    return fail(Code::kInvalidArgument, "--role server needs --scheduler HOST:PORT");
  ps::ServerOptions options{
      .scheduler = flags.scheduler, .device = FERRY_TRY(device_of(flags)), .shards = flags.shards};
  if (!flags.memory.empty()) options.memory_bytes = FERRY_TRY(parse_size(flags.memory));
  const auto patience = Nanos(static_cast<std::int64_t>(flags.patience * 1e9));
  auto server = FERRY_TRY(ps::Server::open(std::move(options), Deadline::after(patience)));
  const InterruptGuard guard;  // before it has a place, a signal ends it at once
  if (!flags.quiet) fmt::print("server {} at {}\n", server.index(), server.endpoint());
  std::fflush(stdout);
  auto code = wait_for_end(server);
  const auto stats = server.stats();
  if (!flags.quiet)
    fmt::print(
        "server {} is done: {} tensors, {} steps, {} pushed, {} of {} requests in place; waits "
        "spin "
        "for {}\n",
        server.index(), stats.tensors, stats.steps, size_text(stats.bytes), stats.in_place,
        stats.entries, stats.spin.to_text());
  if (!flags.json.empty())
    FERRY_TRY(write_report(flags.json, nlohmann::json{{"tool", "ps"},
                                                      {"role", "server"},
                                                      {"index", server.index()},
                                                      {"tensors", stats.tensors},
                                                      {"memory_bytes", stats.memory_bytes},
                                                      {"requests", stats.entries},
                                                      {"bytes", stats.bytes},
                                                      {"in_place", stats.in_place},
                                                      {"steps", stats.steps},
                                                      {"spin", spin_json(stats.spin)}}
                                               .dump(2) +
                                           "\n"));
  return code;
}

// "2x4"
Result<std::pair<std::uint32_t, std::uint32_t>> counts_of(const std::string& text) {
  unsigned servers = 0;
  unsigned workers = 0;
  int used = 0;
  const int found = std::sscanf(text.c_str(), "%4ux%4u%n", &servers, &workers, &used);
  if (found != 2 || static_cast<std::size_t>(used) != text.size() || servers == 0 || workers == 0 ||
      servers > 64 || workers > 64)
    return fail(Code::kInvalidArgument,
                "--local takes SERVERSxWORKERS, such as 2x4, each from 1 to 64; not '{}'", text);
  return std::pair(servers, workers);
}

Result<int> run_local(const PsFlags& flags) {
  if (flags.program.empty())
    return fail(Code::kInvalidArgument, "--local needs a program: ferry ps --local 2x4 -- PROGRAM");
  if (!flags.state.empty())
    return fail(Code::kInvalidArgument,
                "--state is for --role scheduler: a job of --local ends with its scheduler");
  const auto [servers, workers] = FERRY_TRY(counts_of(flags.local));
  PsLocal local{.job = FERRY_TRY(job_of(flags)),
                .device = {},
                .restore = flags.restore,
                .lease = Nanos(static_cast<std::int64_t>(flags.lease * 1e9)),
                .shards = flags.shards,
                .pslite = flags.pslite,
                .program = flags.program};
  local.job.servers = servers;
  local.job.workers = workers;
  local.device.provider = flags.provider;
  local.device.spin = flags.spin;
  FERRY_TRY(guard_launch());
  const InterruptGuard guard;
  auto outcome = run_ps_local(local);
  if (!outcome && outcome.error().code() == Code::kCancelled) return InterruptGuard::exit_code();
  const auto ended = FERRY_TRY(std::move(outcome));
  auto processes = nlohmann::json::array();
  for (const auto& process : ended.processes) {
    processes.push_back({{"name", process.name}, {"end", process.end}, {"well", process.well}});
    if (!process.well) fmt::print(stderr, "ferry ps: {} {}\n", process.name, process.end);
  }
  if (!flags.json.empty())
    FERRY_TRY(write_report(flags.json, nlohmann::json{{"tool", "ps"},
                                                      {"seconds", ended.seconds},
                                                      {"well", ended.well()},
                                                      {"spin", spin_json(ended.spin)},
                                                      {"processes", processes}}
                                               .dump(2) +
                                           "\n"));
  return ended.well() ? 0 : 1;
}

Result<int> run_ps(const PsFlags& flags) {
  if (flags.local.empty() == flags.role.empty())
    return fail(Code::kInvalidArgument, "say one of --role and --local");
  if (!flags.role.empty() && !flags.program.empty())
    return fail(Code::kInvalidArgument,
                "--role {} runs no program; start workers by themselves, with FERRY_PS_SCHEDULER "
                "set, or use --local",
                flags.role);
  if (!flags.json.empty()) FERRY_TRY(check_writable(flags.json));
  if (!flags.local.empty()) return run_local(flags);
  return flags.role == "server" ? run_server(flags) : run_scheduler(flags);
}

void add_job_of_ps(CLI::App& command, PsFlags& flags) {
  command.add_option("--workers", flags.job.workers, "Of the job (scheduler)")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--servers", flags.job.servers, "Of the job (scheduler)")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--consistency", flags.consistency, "Of the job: sync, ssp or async")
      ->check(CLI::IsMember({"sync", "ssp", "async"}))
      ->capture_default_str();
  command.add_option("--staleness", flags.job.staleness, "Steps that ssp lets a worker be ahead")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--mean", flags.job.mean, "sync: divide sums by the number of workers");
  command.add_flag("--merge", flags.job.merge,
                   "sync: add up the gradients of each host before they leave it, where servers do "
                   "not map memory");
  command.add_option("--block", flags.block, "Bytes of a block")->capture_default_str();
  command.add_option("--pool", flags.job.pool_blocks, "Blocks of a shard's pool")
      ->capture_default_str();
  command.add_option("--restore", flags.restore,
                     "Begin with the newest whole snapshot of this folder, if it has any");
  command.add_option("--state", flags.state,
                     "Keep what the scheduler knows here, so that it can be started again: a file, "
                     "a folder, or etcd://HOST:PORT/KEY");
  command
      .add_option("--away", flags.away,
                  "--state: seconds that servers and workers wait for the scheduler to be back")
      ->check(seconds_between(0.1, 86400))
      ->capture_default_str();
  command
      .add_option(
          "--lease", flags.lease,
          "--replicas 2: seconds of a server's silence after which the copies of its blocks "
          "take over")
      ->check(seconds_between(0.1, 86400))
      ->capture_default_str();
  command
      .add_option(
          "--replicas", flags.job.replicas,
          "Servers that have each block: with 2 the job goes on when one dies, and one that "
          "is started later takes its place (sync)")
      ->check(CLI::Range(1, 2))
      ->capture_default_str();
  command
      .add_option("--start-with", flags.job.start_with,
                  "Workers that the first step waits for; the others may join later (0: all)")
      ->capture_default_str();
  command.add_option("--most-dead", flags.job.most_dead,
                     "Workers that may die before the job ends");
}

}  // namespace

void add_ps(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PsFlags>();
  auto* command = app.add_subcommand("ps", "Parameter server: one role, or a job on this machine");
  command->add_option("--role", flags->role, "scheduler or server")
      ->check(CLI::IsMember({"scheduler", "server"}));
  command->add_option("--local", flags->local, "SERVERSxWORKERS on this machine, such as 2x4");
  command->add_flag("--pslite", flags->pslite,
                    "--local: the program plays all roles, told by DMLC_ROLE, as ps-lite's do");
  command->add_option("--scheduler", flags->scheduler, "Where the scheduler is (server)");
  command->add_option("--listen", flags->listen, "Where to be found")->capture_default_str();
  command->add_option("--provider", flags->provider, "auto, shm, tcp, verbs, or a list")
      ->capture_default_str();
  add_spin_option(*command, flags->spin);
  command->add_option("--secret-file", flags->secret_file,
                      "The cluster's secret (or FERRY_SECRET in the environment)");
  command->add_option("--shards", flags->shards, "Threads of a server that own blocks")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--memory", flags->memory, "Most bytes that a server's tensors may take");
  command
      ->add_option("--patience", flags->patience,
                   "Seconds to wait for the scheduler, and for a place in the job (server)")
      ->check(seconds_between(0.1, 86400))
      ->capture_default_str();
  command->add_flag("--quiet", flags->quiet, "Say nothing unless something fails");
  command->add_option("--json", flags->json, "Write a report to this file; - for stdout");
  add_job_of_ps(*command, *flags);
  command->add_option("program", flags->program, "After --: the program of the workers");
  command->footer(
      "Programs of --local find FERRY_PS_SCHEDULER, FERRY_PS_RANK, FERRY_PROVIDER, FERRY_SPIN and "
      "FERRY_SECRET in the environment\n(see ferry/interop/launched.h); a worker that is started "
      "by hand needs "
      "FERRY_PS_SCHEDULER and\nthe secret. The exit status is 1 when any process "
      "fails; the others are ended then.");
  command->callback([flags, &exit_code] {
    const auto status = run_ps(*flags);
    if (!status) fmt::print(stderr, "ferry ps: {}\n", status.error().message());
    exit_code = status ? *status : kCannotRun;
  });
}

}  // namespace ferry::cli
