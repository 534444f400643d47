#include "bench/commands.h"

#include "bench/models/models.h"
#include "bench/ps/ps.h"
#include "bench/rounds/fact.h"
#include "bench/rounds/transfer_round.h"
#include "bench/suites/grpc.h"
#include "bench/suites/message.h"
#include "bench/suites/tensor.h"
#include "bench/suites/transfer.h"
#include "ferry/cli/common/command_line.h"

namespace ferry::bench {

int run_ferry_bench(int argc, const char* const* argv) {
  // It is called as users call it: `ferry bench` runs this program.
  cli::CommandLine line("Measure, beside the limits and the peers", "ferry bench");
  // In the order of --help, which leaves out those that the others start.
  for (const auto add :
       {add_bench_transfer, add_bench_tensor, add_bench_message, add_bench_grpc, add_bench_models,
        add_bench_ps, add_bench_round, add_bench_tensor_round, add_bench_message_round,
        add_bench_fact, add_bench_ps_server, add_bench_ps_worker})
    add(line.app(), line.exit_code());
  return line.run(argc, argv);
}

}  // namespace ferry::bench
