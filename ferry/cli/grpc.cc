#include "ferry/cli/grpc.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "ferry/bootstrap/secret.h"
#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/grpc_plugin.h"
#include "ferry/cli/common/report_file.h"
#include "ferry/cli/common/text.h"

namespace ferry::cli {
namespace {

struct GrpcFlags {
  std::vector<std::string> words;
  std::string provider;
  std::string listen;
  std::string secret_file;
  std::string stats;
  double spin_us = 0;
};

void set_if(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), 1);
}

// What the plug-in could only warn of, in the middle of a program.
Status check_flags(const GrpcFlags& flags) {
  FERRY_TRY(names_in(flags.provider, {"auto", "shm", "tcp", "verbs"}, "--provider"));
  if (!flags.stats.empty() && flags.stats != "1") FERRY_TRY(check_writable(flags.stats));
  if (!flags.secret_file.empty()) FERRY_TRY(bootstrap::Secret::from_file(flags.secret_file));
  return {};
}

// Does not return if the program was started.
Status run_with_plugin(const GrpcFlags& flags) {
  FERRY_TRY(check_flags(flags));
  const auto setting = preload_setting(FERRY_TRY(grpc_plugin_path()));
  setenv("LD_PRELOAD", setting.substr(setting.find('=') + 1).c_str(), 1);
  set_if("FERRY_GRPC_PROVIDER", flags.provider);
  set_if("FERRY_GRPC_LISTEN", flags.listen);
  set_if("FERRY_SECRET_FILE", flags.secret_file);
  set_if("FERRY_GRPC_STATS", flags.stats);
  if (flags.spin_us > 0) set_if("FERRY_GRPC_SPIN_US", fmt::format("{}", flags.spin_us));
  std::vector<char*> argv;
  for (const auto& word : flags.words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return fail_errno(errno, "cannot run {}", flags.words[0]);
}

}  // namespace

void add_grpc(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<GrpcFlags>();
  auto* command = app.add_subcommand(
      "grpc", "Run a program that uses gRPC over Tensorferry: ferry grpc -- PROGRAM ARGS");
  command->add_option("--provider", flags->provider, "shm, tcp, verbs or auto (auto)");
  command->add_option("--listen", flags->listen,
                      "Address at which peers on other hosts reach this process (where the first "
                      "one has reached it)");
  command->add_option("--secret-file", flags->secret_file,
                      "File with the cluster's secret (or FERRY_SECRET in the environment); "
                      "without one, only processes of this user on this host");
  command->add_option(
      "--stats", flags->stats,
      "What went over each connection, at the end: 1 for standard error, or a file");
  command->add_option("--spin", flags->spin_us, "Microseconds to look before a thread sleeps (0)")
      ->check(CLI::Range(0.0, 1e6));
  command->add_option("program", flags->words, "The program and its arguments")->required();
  command->footer(
      "Peers without the plug-in, and those that do not know the secret, are talked to over TCP, "
      "as "
      "ever. So are all peers of a program that loads gRPC late, or has a copy inside as Python's "
      "grpcio: one line on standard error says so.\n"
      "Thresholds are measured when a path is first used, and kept as by ferry tune. "
      "FERRY_GRPC_EAGER, FERRY_GRPC_COPY_UP_TO, FERRY_GRPC_CHUNK (bytes) and "
      "FERRY_GRPC_CHUNKS_IN_FLIGHT set them, and so do the channel arguments "
      "tensorferry.eager_threshold, .copy_up_to, .chunk_bytes and .chunks_in_flight; --stats says "
      "which are used. FERRY_TUNING=off: the defaults.\n"
      "FERRY_GRPC=off leaves gRPC alone; FERRY_LOG=info says which connection takes which path.");
  command->callback([flags, &exit_code] {
    const auto status = run_with_plugin(*flags);
    fmt::print(stderr, "ferry grpc: {}\n", status.error().message());
    exit_code = kCannotRun;
  });
}

}  // namespace ferry::cli
