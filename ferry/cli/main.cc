#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "ferry/cli/bench_run.h"
#include "ferry/cli/command_line.h"

namespace {

// Threads of kernels that wait are not to keep others from a core. libgomp decides how they wait
// when the program is loaded, so it is loaded once more.
void let_kernels_wait_asleep(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command != "train" && command != "run" && command != "bench") return;
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  const auto program = ferry::cli::running_program();
  if (!program) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv(program->c_str(), argv);
}

}  // namespace

int main(int argc, char** argv) {
  let_kernels_wait_asleep(argc, argv);
  return ferry::cli::run_command_line(argc, argv);
}
