#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdlib>

#include "ferry/base/log.h"
#include "ferry/cli/bench_fact.h"
#include "ferry/cli/bench_round.h"
#include "ferry/cli/bench_transfer.h"
#include "ferry/cli/doctor.h"

int main(int argc, char** argv) {
  CLI::App app("Tensorferry: moves tensors between processes and machines without copying them",
               "ferry");
  app.require_subcommand(1);
  app.set_version_flag("--version", FERRY_VERSION);
  app.footer("FERRY_LOG=trace|debug|info|warn|error|off sets what is logged on standard error.");
  if (const char* level = std::getenv("FERRY_LOG")) ferry::set_log_level(level);

  int exit_code = 0;
  ferry::cli::add_doctor(app, exit_code);
  auto* bench = app.add_subcommand("bench", "Measure, beside the limits and the peers");
  bench->require_subcommand(1);
  ferry::cli::add_bench_transfer(*bench, exit_code);
  ferry::cli::add_bench_round(app, exit_code);
  ferry::cli::add_bench_fact(app, exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}
