#include "ferry/bootstrap/endpoint.h"
#include "ferry/models/emulate.h"
#include "ferry/train/plan_internal.h"

namespace ferry::train {

namespace {

std::string host_of(const Places& places, const std::string& task) {
  const auto found = places.find(task);
  if (found == places.end()) return "";
  const auto endpoint = bootstrap::Endpoint::parse(found->second);
  return endpoint ? endpoint->host : "";
}

}  // namespace

// Tasks at one address, or all of a job that has none, can use each other's memory.
bool maps_memory(const JobOptions& options, const std::string& from, const std::string& to) {
  const bool can = options.provider == "auto" || options.provider == "shm";
  return options.transport == Transport::kFerry && can &&
         host_of(options.places, from) == host_of(options.places, to);
}

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
  plan.partition = FERRY_TRY(graph::partition(
      plan.program.graph, {.maps = [&options](const std::string& from, const std::string& to) {
        return maps_memory(options, graph::process_of(from), graph::process_of(to));
      }}));
  return plan;
}

std::vector<std::string> made_up(const JobPlan& plan) {
  std::vector<std::string> sentences;
  if (plan.emulated_seconds > 0)
    sentences.push_back(fmt::format(
        "computation is emulated: layers wait {:.2f} ms a step, {}; gradients are made-up numbers, "
        "and there is no loss",
        plan.emulated_seconds * 1e3,
        plan.estimated ? "as estimated from another model's" : "as long as a GPU took"));
  if (plan.model.feeds == models::Feeds::kSynthetic)
    sentences.emplace_back(
        "the data is made up: inputs and labels are random, so there is no accuracy, and the loss "
        "says nothing of learning");
  return sentences;
}

}  // namespace ferry::train
