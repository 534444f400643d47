#include "ferry/cli/commands.h"

#include "ferry/cli/bench.h"
#include "ferry/cli/common/command_line.h"
#include "ferry/cli/doctor.h"
#include "ferry/cli/explain.h"
#include "ferry/cli/grpc.h"
#include "ferry/cli/mount.h"
#include "ferry/cli/ps.h"
#include "ferry/cli/run.h"
#include "ferry/cli/train.h"
#include "ferry/cli/tune.h"
#include "ferry/cli/tune_here.h"

namespace ferry::cli {

int run_ferry(int argc, const char* const* argv) {
  CommandLine line("Tensorferry: moves tensors between processes and machines without copying them",
                   "ferry");
  // In the order of --help.
  for (const auto add : {add_doctor, add_tune, add_train, add_run, add_ps, add_mount, add_explain,
                         add_grpc, add_bench, add_tune_here})
    add(line.app(), line.exit_code());
  return line.run(argc, argv);
}

}  // namespace ferry::cli
