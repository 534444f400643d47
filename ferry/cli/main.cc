#include <string_view>

#include "ferry/cli/commands.h"
#include "ferry/cli/common/programs.h"

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "train" || command == "run") ferry::cli::let_kernels_wait_asleep(argv);
  return ferry::cli::run_ferry(argc, argv);
}
