#include "ferry/graph/replicate.h"

#include "ferry/graph/gradient.h"

namespace ferry::graph {
namespace {

std::string worker_name(std::size_t number) { return fmt::format("worker{}", number); }

class Replicator {
 public:
  explicit Replicator(const ReplicateOptions& options)
      : options_(options), placement_{{options.worker_job, 0}, options.variables_job} {}

  Status add_towers(const TowerFunction& tower) {
    const auto count = options_.cluster.tasks(options_.worker_job);
    if (count == 0)
      return fail(Code::kInvalidArgument, "the cluster has no task of the job '{}'",
                  options_.worker_job);
    for (std::size_t number = 0; number < count; ++number) FERRY_TRY(add_tower(tower, number));
    return {};
  }

  // What flows from each worker's loss to each variable.
  Status add_gradients() {
    place_variables(made_.graph, options_.cluster, placement_);
    if (options_.look_up_beside_tables) place_lookups();
    for (const auto& node : made_.graph.nodes())
      if (node.op->name == "Variable") variables_.push_back({&builder_, {node.id, 0}});
    for (std::size_t number = 0; number < losses_.size(); ++number) {
      const auto within = builder_.within(worker_name(number) + "/gradients");
      flows_.push_back(flows_to(losses_[number], variables_));
      FERRY_TRY(builder_.status());
    }
    return {};
  }

  Status add_updates() {
    for (std::size_t index = 0; index < variables_.size(); ++index) {
      const auto before = made_.graph.size();
      if (options_.synchronous) {
        update_together(index);
      } else {
        update_apart(index);
      }
      FERRY_TRY(builder_.status());
      if (made_.graph.size() > before) made_.trained.push_back(variables_[index].output().node);
    }
    if (made_.trained.empty())
      return fail(Code::kInvalidArgument, "no gradient flows from the loss to any variable");
    return {};
  }

  Result<Replicated> finish() {
    FERRY_TRY(place(made_.graph, options_.cluster, placement_));
    if (!options_.synchronous)
      for (std::size_t number = 0; number < made_.workers.size(); ++number) give_loop(number);
    return std::move(made_);
  }

 private:
  Status add_tower(const TowerFunction& tower, std::size_t number) {
    Replicated::Worker worker;
    worker.task = {options_.worker_job, static_cast<std::uint32_t>(number)};
    const auto first = made_.graph.size();
    const auto on = builder_.on(worker.task.to_string());
    const auto within = builder_.within(worker_name(number));
    const auto built = tower(builder_);
    FERRY_TRY(builder_.status());
    if (!built.loss || built.loss.builder() != &builder_)
      return fail(Code::kInvalidArgument, "the tower of worker {} has no loss", number);
    losses_.push_back(built.loss);
    worker.loss = built.loss.output();
    for (const auto& [name, metric] : built.metrics)
      if (metric) worker.metrics[name] = metric.output();
    made_.workers.push_back(std::move(worker));
    for (auto id = first; id < made_.graph.size(); ++id)
      note_node(number, made_.graph.node(static_cast<NodeId>(id)));
    return {};
  }

  // What callers need to know of a worker's own nodes.
  void note_node(std::size_t number, const Node& node) {
    auto& worker = made_.workers[number];
    if (node.op->updates > 0) worker.updates.push_back(node.id);
    if (node.op->name == "Input")
      worker.inputs[node.name.substr(worker_name(number).size() + 1)] = node.id;
  }

  // What a worker does on the tasks of variables gets steps of its own there.
  void give_loop(std::size_t number) {
    auto& graph = made_.graph;
    const auto own = made_.workers[number].task.to_string();
    for (NodeId id = 0; id < graph.size(); ++id) {
      const auto& node = graph.node(id);
      if (node.op->name == "Variable" || node.task.empty() || node.task == own) continue;
      if (node.name.starts_with(worker_name(number) + "/"))
        graph.place(id, fmt::format("{}/loop:{}", node.task, number));
    }
  }

  void place_lookups() {
    auto& graph = made_.graph;
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (graph.node(id).op->name != "Embedding") continue;
      const auto& table = graph.node(graph.node(id).inputs[0].node);
      if (table.op->name == "Variable") graph.place(id, table.task);
    }
  }

  void update_together(std::size_t variable) {
    std::vector<Expr> gradients;
    for (const auto& flows : flows_)
      if (flows[variable]) gradients.push_back(flows[variable]);
    if (gradients.empty()) return;
    const auto share = 1.0 / static_cast<double>(flows_.size());
    const auto done = apply_gradients(options_.optimizer, variables_[variable], rate(0, variable),
                                      gradients, share);
    for (auto& worker : made_.workers) worker.updates.push_back(done.output().node);
  }

  void update_apart(std::size_t variable) {
    for (std::size_t number = 0; number < flows_.size(); ++number) {
      const auto& gradient = flows_[number][variable];
      if (!gradient) continue;
      const auto within = builder_.within(worker_name(number));
      const auto done = apply_gradients(options_.optimizer, variables_[variable],
                                        rate(number, variable), {&gradient, 1});
      made_.workers[number].updates.push_back(done.output().node);
    }
  }

  // Fed to a worker, or a constant beside the variable.
  Expr rate(std::size_t worker, std::size_t variable) {
    const auto task = options_.feed_rate
                          ? made_.workers[worker].task.to_string()
                          : made_.graph.node(variables_[variable].output().node).task;
    auto& known = rates_[task];
    if (known) return known;
    const auto on = builder_.on(task);
    if (!options_.feed_rate)
      return known = builder_.constant(static_cast<float>(options_.rate), "rate");
    // Synchronous updates are in nobody's scope.
    const auto name = options_.synchronous ? worker_name(worker) + "/rate" : "rate";
    known = builder_.input(name, {});
    if (known) note_node(worker, made_.graph.node(known.output().node));
    return known;
  }

  const ReplicateOptions& options_;
  PlacementOptions placement_;
  Replicated made_;
  Builder builder_{made_.graph};
  std::vector<Expr> losses_;
  std::vector<Expr> variables_;
  std::vector<std::vector<Expr>> flows_;  // by worker, then by variable; none where nothing flows
  std::map<std::string, Expr> rates_;     // by task
};

}  // namespace

Result<Replicated> replicate(const TowerFunction& tower, const ReplicateOptions& options) {
  Replicator replicator(options);
  FERRY_TRY(replicator.add_towers(tower));
  FERRY_TRY(replicator.add_gradients());
  FERRY_TRY(replicator.add_updates());
  return replicator.finish();
}

}  // namespace ferry::graph
