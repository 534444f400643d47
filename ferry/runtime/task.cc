#include "ferry/runtime/task.h"

#include <thread>

#include "ferry/ops/initial.h"

namespace ferry::runtime {

TaskRunner::TaskRunner(const graph::Partition& partition, std::string task, Rendezvous& rendezvous,
                       TaskOptions options)
    : partition_(partition),
      task_(std::move(task)),
      rendezvous_(rendezvous),
      options_(std::move(options)),
      parts_([&] {
        std::vector<const graph::Part*> found;
        for (const auto& part : partition_.parts)
          if (graph::process_of(part.task) == task_) found.push_back(&part);
        return found;
      }()),
      variables_(options_.registered ? options_.registered : make_ordinary_block,
                 parts_.size() > 1) {}

Result<std::unique_ptr<TaskRunner>> TaskRunner::open(const graph::Partition& partition,
                                                     const std::string& task,
                                                     Rendezvous& rendezvous, TaskOptions options,
                                                     Deadline deadline) {
  auto runner =
      std::unique_ptr<TaskRunner>(new TaskRunner(partition, task, rendezvous, std::move(options)));
  if (runner->parts_.empty())
    return fail(Code::kInvalidArgument, "nothing of the program is on {}", task);
  FERRY_TRY(rendezvous.open(partition, task, deadline));
  FERRY_TRY(runner->make_variables(deadline));
  FERRY_TRY(runner->make_executors());
  return runner;
}

Status TaskRunner::make_variables(Deadline deadline) {
  for (const auto* part : parts_) {
    for (const auto& node : part->graph.nodes()) {
      if (node.op->name != "Variable" || variables_.find(node.name)) continue;
      auto* variable = FERRY_TRY(variables_.add(node.name));
      const auto given = options_.initial.find(node.name);
      const auto value = given != options_.initial.end()
                             ? given->second
                             : FERRY_TRY(ops::initial_value(node, options_.seed));
      if (!(value.spec() == node.outputs[0]))
        return fail(Code::kInvalidArgument, "variable '{}' is {}, and its first value {}",
                    node.name, node.outputs[0].to_string(), value.spec().to_string());
      FERRY_TRY(variable->assign(value, rendezvous_.shared_variable(node.name), deadline));
    }
  }
  return {};
}

Result<std::vector<graph::Output>> TaskRunner::fetches_in(const graph::Part& part) const {
  std::vector<graph::Output> outputs;
  for (const auto& name : options_.fetches) {
    const auto node = part.graph.find(name);
    if (!node) return fail(Code::kNotFound, "{} has no node '{}'", part.task, name);
    outputs.push_back({*node, 0});
  }
  return outputs;
}

Status TaskRunner::make_executors() {
  for (const auto* part : parts_) {
    ExecutorOptions options;
    options.registered = options_.registered;
    if (part == parts_.front()) options.fetches = FERRY_TRY(fetches_in(*part));
    executors_.push_back(
        FERRY_TRY(Executor::open(part->graph, variables_, &rendezvous_, std::move(options))));
  }
  return {};
}

Status TaskRunner::run_loop(Executor& executor, std::uint64_t first, std::uint64_t last,
                            const Feeder& feeder, const Watcher& watcher) const {
  for (auto step = first; step <= last; ++step) {
    std::vector<Feed> feeds;
    if (feeder) feeds = FERRY_TRY(feeder(step));
    const auto fetched =
        FERRY_TRY(executor.run(step, feeds, Deadline::after(options_.step_patience)));
    if (watcher) FERRY_TRY(watcher(step, fetched));
  }
  return {};
}

Status TaskRunner::run(std::uint64_t first, std::uint64_t last, const Feeder& feeder,
                       const Watcher& watcher) {
  std::vector<Status> ended(executors_.size());
  std::vector<std::jthread> others;
  for (std::size_t loop = 1; loop < executors_.size(); ++loop)
    others.emplace_back(
        [&, loop] { ended[loop] = run_loop(*executors_[loop], first, last, {}, {}); });
  ended[0] = run_loop(*executors_[0], first, last, feeder, watcher);
  others.clear();
  for (auto& status : ended) FERRY_TRY(std::move(status));
  return {};
}

ExecutorStats TaskRunner::stats() const {
  ExecutorStats all;
  for (const auto& executor : executors_) {
    const auto one = executor->stats();
    all.steps += one.steps;
    all.operators += one.operators;
    all.polls += one.polls;
    all.waits += one.waits;
    all.traced_steps += one.traced_steps;
    all.sites_in_place += one.sites_in_place;
    all.sites_registered += one.sites_registered;
    all.blocks += one.blocks;
  }
  return all;
}

}  // namespace ferry::runtime
