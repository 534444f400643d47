#include "ferry/models/emulate.h"
#include "ferry/train/job.h"

namespace ferry::train {

Result<JobPlan> plan_job(const JobOptions& options) {
  if (options.workers < 1) return fail(Code::kInvalidArgument, "a job needs at least one worker");
  JobPlan plan;
  plan.model = FERRY_TRY(models::make_model(options.model, {.batch = options.batch}));
  if (options.emulate) {
    auto emulated = FERRY_TRY(models::emulate(plan.model, options.batch));
    plan.model = std::move(emulated.model);
    plan.emulated_seconds = emulated.seconds;
    plan.estimated = emulated.estimated;
  }
  graph::ReplicateOptions replicas;
  replicas.cluster = graph::ClusterSpec::of({{"ps", options.servers}, {"worker", options.workers}});
  replicas.optimizer = options.optimizer;
  replicas.rate = options.rate;
  replicas.synchronous = options.synchronous;
  plan.program = FERRY_TRY(graph::replicate(plan.model.tower, replicas));
  // All tasks are on this host: whether memory can be mapped is the transport's business.
  const bool maps = options.transport == Transport::kFerry && options.provider != "tcp";
  plan.partition = FERRY_TRY(
      graph::partition(plan.program.graph,
                       {.maps = [maps](const std::string&, const std::string&) { return maps; }}));
  return plan;
}

}  // namespace ferry::train
