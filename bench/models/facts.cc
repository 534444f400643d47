#include "bench/models/facts.h"

#include <mutex>

#include "ferry/base/clock.h"
#include "ferry/cli/common/stats.h"
#include "ferry/graph/builder.h"
#include "ferry/ops/kernel.h"
#include "ferry/runtime/executor.h"
#include "ferry/train/job.h"

namespace ferry::bench {
namespace {

constexpr int kChain = 5000;
constexpr int kPolling = 32;

// Set by the last operator of a chain. One executor at a time.
bool chain_is_over = false;

class LastKernel final : public ops::Kernel {
  Status run(ops::KernelContext& context) override {
    chain_is_over = true;
    context.pass(0, context.input(0));
    return {};
  }
};

// Waits for the chain, as a receive waits for its tensor.
class PollingKernel final : public ops::Kernel {
  bool polls() const override { return true; }
  Result<bool> poll(ops::KernelContext&) override { return chain_is_over; }
  Status run(ops::KernelContext& context) override {
    context.pass(0, context.input(0));
    return {};
  }
};

template <class K>
void register_fact_op(const char* name) {
  (void)graph::register_op({.name = name,
                            .least_inputs = 1,
                            .most_inputs = 1,
                            .infer =
                                [](const graph::Inference& node) {
                                  return Result<std::vector<tensor::Spec>>({node.inputs[0]});
                                },
                            .stateful = true});
  (void)ops::register_kernel(name, [](const graph::Node&) -> Result<std::unique_ptr<ops::Kernel>> {
    return std::make_unique<K>();
  });
}

// Operators that do nothing, one after the other, and some beside them that poll until they are
// through.
Result<graph::Graph> make_chain(int polling) {
  static std::once_flag once;
  std::call_once(once, [] {
    register_fact_op<LastKernel>("FactLast");
    register_fact_op<PollingKernel>("FactPolling");
  });
  graph::Graph graph;
  graph::Builder builder(graph);
  auto x = builder.constant(1.0F);
  for (int index = 0; index < polling; ++index) builder.add("FactPolling", {x});
  for (int index = 0; index < kChain; ++index) x = builder.add("Identity", {x});
  builder.add("FactLast", {x});
  FERRY_TRY(Status(builder.status()));
  return graph;
}

// Nanoseconds for each operator of the chain.
Result<double> chain_ns(int polling) {
  const auto graph = FERRY_TRY(make_chain(polling));
  runtime::Variables variables;
  auto executor = FERRY_TRY(runtime::Executor::open(graph, variables, nullptr, {}));
  const auto patience = Deadline::after(std::chrono::seconds(60));
  constexpr std::uint64_t kWarm = 2;
  constexpr std::uint64_t kSteps = 10;
  std::int64_t begun = 0;
  for (std::uint64_t step = 1; step <= kWarm + kSteps; ++step) {
    if (step == kWarm + 1) begun = now_ns();
    chain_is_over = false;
    FERRY_TRY(executor->run(step, {}, patience));
  }
  return static_cast<double>(now_ns() - begun) / kSteps / kChain;
}

Result<double> planning_seconds() {
  train::JobOptions options;
  options.model = "inception-v3";
  options.workers = 4;
  options.servers = 4;
  const auto begun = now_ns();
  FERRY_TRY(train::plan_job(options));
  return static_cast<double>(now_ns() - begun) * 1e-9;
}

RuntimeFact fact_of(std::string id, std::string sentence, std::string unit,
                    const cli::Estimate& measured, double bound) {
  return {std::move(id), std::move(sentence),        std::move(unit), measured,
          bound,         outcome_of(measured, bound)};
}

}  // namespace

Result<std::vector<RuntimeFact>> runtime_facts(int repeat) {
  std::vector<double> alone;
  std::vector<double> beside;
  std::vector<double> planning;
  for (int repetition = 0; repetition < repeat; ++repetition) {
    alone.push_back(FERRY_TRY(chain_ns(0)));
    beside.push_back(FERRY_TRY(chain_ns(kPolling)));
    planning.push_back(FERRY_TRY(planning_seconds()));
  }
  return std::vector<RuntimeFact>{
      fact_of("executor", "what the executor takes for an operator that does nothing", "ns",
              cli::estimate(alone), 1000),
      fact_of("executor-polls", fmt::format("the same beside {} that poll", kPolling), "ns",
              cli::estimate(beside), 1000),
      fact_of("planning", "planning Inception-v3 for 4 workers and 4 servers", "s",
              cli::estimate(planning), 1)};
}

}  // namespace ferry::bench
