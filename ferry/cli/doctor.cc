#include "ferry/cli/doctor.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ferry/cli/command_line.h"
#include "ferry/cli/doctor_peer.h"
#include "ferry/cli/doctor_report.h"
#include "ferry/cli/seconds.h"

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

const char* mark_of(Finding::Level level) {
  switch (level) {
    case Finding::Level::kGood:
      return "ok  ";
    case Finding::Level::kNote:
      return "note";
    case Finding::Level::kBad:
      return "BAD ";
  }
  return "BAD ";
}

void print(const std::vector<Finding>& findings) {
  for (const auto& finding : findings) {
    fmt::print("{}  {:<26} {}\n", mark_of(finding.level), finding.subject, finding.state);
    if (!finding.advice.empty()) fmt::print("      {:<26} -> {}\n", "", finding.advice);
  }
}

Result<PeerOptions> peer_options(const DoctorFlags& flags) {
  PeerOptions options;
  options.secret_file = flags.secret_file;
  if (const char* secret = std::getenv("FERRY_SECRET")) options.secret = secret;
  if (options.secret.empty() && options.secret_file.empty())
    return fail(Code::kInvalidArgument,
                "the cluster's secret is needed: --secret-file FILE, or FERRY_SECRET in the "
                "environment");
  options.seconds = flags.seconds;
  return options;
}

Result<int> run(const DoctorFlags& flags) {
  if (!flags.report.empty()) return write_report(flags.report);
  if (!flags.listen.empty()) {
    auto options = FERRY_TRY(peer_options(flags));
    FERRY_TRY(serve_probes(flags.listen, options));
    return 0;
  }
  nlohmann::json all;
  auto findings = examine_host();
  if (flags.json) {
    all["host"] = to_json(findings);
  } else {
    print(findings);
  }
  if (!flags.peer.empty()) {
    auto options = FERRY_TRY(peer_options(flags));
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

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "doctor", "What this host can do, why something is unusable, and how to mend it");
  auto flags = std::make_shared<DoctorFlags>();
  command->add_option("--peer", flags->peer, "also probe the path to the device at host:port");
  command->add_option("--listen", flags->listen,
                      "be the other side: wait at host:port for `ferry doctor --peer`");
  command->add_option("--seconds", flags->seconds, "how long --listen waits")
      ->check(seconds_between(1, 86400));
  command->add_option("--secret-file", flags->secret_file,
                      "file with the cluster's secret (or FERRY_SECRET in the environment)");
  command->add_option("--report", flags->report,
                      "run the contract suite and the benchmark on everything this host has, and "
                      "write a report to this file");
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([flags, &exit_code] {
    auto result = run(*flags);
    if (!result) fmt::print(stderr, "ferry doctor: {}\n", result.error().to_string());
    exit_code = result ? *result : kCannotRun;
  });
}

}  // namespace ferry::cli
