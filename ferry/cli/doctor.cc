#include "ferry/cli/doctor.h"

#include <fmt/format.h>

#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/seconds.h"
#include "ferry/cli/doctor_host.h"
#include "ferry/cli/doctor_peer.h"
#include "ferry/cli/doctor_report.h"

namespace ferry::cli {
namespace {

struct DoctorFlags {
  std::string peer;
  std::string listen;
  std::string secret_file;
  std::string report;
  double seconds = 60;
  bool json = false;
};

Result<int> run(const DoctorFlags& flags) {
  if (!flags.report.empty()) return write_doctor_report(flags.report);
  if (!flags.listen.empty()) {
    auto options = FERRY_TRY(peer_options(flags.secret_file, flags.seconds));
    FERRY_TRY(serve_probes(flags.listen, options));
    return 0;
  }
  nlohmann::json all;
  auto findings = examine_host();
  if (flags.json) {
    all["host"] = to_json(findings);
  } else {
    fmt::print("{}", to_text(findings));
  }
  if (!flags.peer.empty()) {
    auto options = FERRY_TRY(peer_options(flags.secret_file, flags.seconds));
    auto probe = FERRY_TRY(probe_peer(flags.peer, options));
    if (flags.json) {
      all["peer"] = to_json(probe);
    } else {
      fmt::print("\n{}", to_text(probe));
    }
  }
  if (flags.json) std::cout << all.dump(2) << std::endl;
  return 0;
}

constexpr const char* kFooter =
    R"(Examined: the providers shm, verbs and tcp; RDMA devices and their ports; how much memory may be
locked and how many files opened; huge pages; io_uring, membarrier and userfaultfd; CUDA.

--report takes three to five minutes, and longer with RDMA. The file has the host's facts as JSON, and of
every stage its command, all it said and how it ended. It names this host's hardware, kernel and
folders, but no secret.

Environment:
  FERRY_SECRET  the cluster's secret, 16 to 4096 bytes, for --peer and --listen; --secret-file wins
  FERRY_LOG     trace, debug, info, warn, error or off: what is logged on standard error

Exit status:
  0    done; what could be better is in the text
  1    a stage of --report failed
  2    it could not be done: wrong options, no secret, no such peer
  130  interrupted (143 by SIGTERM))";

void add_doctor_options(CLI::App& command, DoctorFlags& flags) {
  auto* peer =
      command.add_option("--peer", flags.peer, "also probe the path to the device at host:port");
  auto* listen = command.add_option(
      "--listen", flags.listen, "be the other side: wait at host:port for `ferry doctor --peer`");
  command.add_option("--seconds", flags.seconds, "how long --listen waits (60)")
      ->check(seconds_between(1, 86400))
      ->needs(listen);
  auto* secret =
      command.add_option("--secret-file", flags.secret_file,
                         "file with the cluster's secret (or FERRY_SECRET in the environment)");
  auto* report = command.add_option(
      "--report", flags.report,
      "run the contract suite and the benchmark on everything this host has, and write a report to "
      "this file: minutes, see below");
  auto* json = command.add_flag("--json", flags.json, "print JSON");
  listen->excludes(peer)->excludes(json);
  report->excludes(peer)->excludes(listen)->excludes(secret)->excludes(json);
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "doctor", "What this host can do, why something is unusable, and how to mend it");
  auto flags = std::make_shared<DoctorFlags>();
  add_doctor_options(*command, *flags);
  command->footer(kFooter);
  command->callback([flags, &exit_code] {
    auto result = run(*flags);
    if (!result) fmt::print(stderr, "ferry doctor: {}\n", result.error().to_string());
    exit_code = result ? *result : kCannotRun;
  });
}

}  // namespace ferry::cli
