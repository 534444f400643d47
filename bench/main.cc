#include "bench/commands.h"
#include "ferry/cli/common/programs.h"

int main(int argc, char** argv) {
  ferry::cli::let_kernels_wait_asleep(argv);
  return ferry::bench::run_ferry_bench(argc, argv);
}
