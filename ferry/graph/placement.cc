#include "ferry/graph/placement.h"

#include <charconv>

namespace ferry::graph {
namespace {

bool good_job(std::string_view job) {
  if (job.empty()) return false;
  for (const char c : job) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '-') return false;
  }
  return true;
}

// By slot: the variable whose optimizer it belongs to.
std::map<NodeId, NodeId> owners_of_slots(const Graph& graph) {
  std::map<NodeId, NodeId> owners;
  for (const auto& node : graph.nodes())
    for (std::uint32_t index = 1; index < node.op->updates; ++index)
      owners.emplace(node.inputs[index].node, node.inputs[0].node);
  return owners;
}

// The tasks for variables, one after the other.
class Turns {
 public:
  Turns(const ClusterSpec& cluster, const PlacementOptions& options)
      : options_(options), tasks_(cluster.tasks(options.variables_job)) {}

  std::string next() {
    if (tasks_ == 0) return options_.default_task.to_string();
    const auto index = static_cast<std::uint32_t>(next_++ % tasks_);
    return Task{options_.variables_job, index}.to_string();
  }

 private:
  const PlacementOptions& options_;
  std::size_t tasks_;
  std::size_t next_ = 0;
};

Status check_task(const Node& node, const ClusterSpec& cluster) {
  if (node.task.empty())
    return fail(Code::kInvalidArgument, "node '{}' ({}) is on no task; place() puts it on one",
                node.name, node.op->name);
  const auto task = parse_task(node.task);
  if (!task)
    return fail(Code::kInvalidArgument, "node '{}' ({}): {}", node.name, node.op->name,
                task.error().message());
  if (!cluster.has(*task))
    return fail(Code::kInvalidArgument, "node '{}' ({}) is on {}, and job '{}' has {} tasks",
                node.name, node.op->name, node.task, task->job, cluster.tasks(task->job));
  return {};
}

}  // namespace

Result<Task> parse_task(std::string_view text) {
  constexpr std::string_view kJob = "/job:";
  constexpr std::string_view kTask = "/task:";
  const auto split = text.rfind(kTask);
  Task task;
  if (text.substr(0, kJob.size()) == kJob && split != std::string_view::npos &&
      split >= kJob.size()) {
    task.job = text.substr(kJob.size(), split - kJob.size());
    const auto number = text.substr(split + kTask.size());
    std::from_chars(number.data(), number.data() + number.size(), task.index);
  }
  // What else there may have been is seen by printing it again.
  if (!good_job(task.job) || task.to_string() != text)
    return fail(Code::kInvalidArgument, "'{}' is no task, such as /job:ps/task:0", text);
  return task;
}

ClusterSpec ClusterSpec::of(std::initializer_list<std::pair<std::string, std::size_t>> counts) {
  ClusterSpec cluster;
  for (const auto& [job, count] : counts) cluster.jobs[job].resize(count);
  return cluster;
}

std::size_t ClusterSpec::tasks(const std::string& job) const {
  const auto found = jobs.find(job);
  return found == jobs.end() ? 0 : found->second.size();
}

void place_variables(Graph& graph, const ClusterSpec& cluster, const PlacementOptions& options) {
  Turns turns(cluster, options);
  const auto owners = owners_of_slots(graph);
  for (const bool slots : {false, true}) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      const auto owner = owners.find(id);
      const auto& node = graph.node(id);
      if (node.op->name != "Variable" || !node.task.empty() || (owner != owners.end()) != slots)
        continue;
      auto task = slots ? graph.node(owner->second).task : std::string();
      graph.place(id, task.empty() ? turns.next() : std::move(task));
    }
  }
}

Status place(Graph& graph, const ClusterSpec& cluster, const PlacementOptions& options) {
  place_variables(graph, cluster, options);
  const auto rest = options.default_task.to_string();
  // Variables come before their updates.
  for (NodeId id = 0; id < graph.size(); ++id) {
    const auto& node = graph.node(id);
    if (!node.task.empty()) continue;
    const bool update = node.op->updates > 0;
    auto task = update ? graph.node(node.inputs[0].node).task : rest;
    graph.place(id, std::move(task));
  }
  return check_placed(graph, cluster);
}

Status check_placed(const Graph& graph, const ClusterSpec& cluster) {
  for (const auto& node : graph.nodes()) {
    FERRY_TRY(check_task(node, cluster));
    for (std::uint32_t index = 0; index < node.op->updates; ++index) {
      const auto& variable = graph.node(node.inputs[index].node);
      if (variable.task != node.task)
        return fail(
            Code::kInvalidArgument,
            "node '{}' ({}) is on {} and updates '{}', which is on {}; they belong together",
            node.name, node.op->name, node.task, variable.name, variable.task);
    }
  }
  return {};
}

}  // namespace ferry::graph
