#include "ferry/graph/partition.h"

#include <algorithm>
#include <map>
#include <set>

namespace ferry::graph {
namespace {

std::string name_of_output(const Graph& graph, Output output) {
  const auto& name = graph.node(output.node).name;
  return output.index == 0 ? name : fmt::format("{}:{}", name, output.index);
}

// The output whose memory this one is, behind nodes that only hand it on. What an update gives is
// another value than the variable's, though it may be in its memory.
Output root_of(const Graph& graph, Output output) {
  for (const auto* op = graph.node(output.node).op; op->forwards && op->updates == 0;
       op = graph.node(output.node).op)
    output = graph.node(output.node).inputs[0];
  return output;
}

bool is_op(const Graph& graph, NodeId node, std::string_view op) {
  return graph.node(node).op->name == op;
}

class Cutter {
 public:
  Cutter(const Graph& graph, const PartitionOptions& options) : whole_(graph), options_(options) {}

  Result<Partition> cut() {
    find_loops();
    for (const auto id : FERRY_TRY(whole_.sorted())) FERRY_TRY(take(id));
    for (const auto& node : whole_.nodes())
      if (node.op->updates > 0) FERRY_TRY(guard_update(node));
    Partition made{.parts = {}, .crossings = std::move(crossings_)};
    for (auto& [task, part] : parts_) {
      if (auto sorted = part.graph.sorted(); !sorted)
        return fail(Code::kInvalidArgument, "on {}: {}", task, sorted.error().message());
      made.parts.push_back({task, std::move(part.graph)});
    }
    return made;
  }

 private:
  struct Place {
    Graph graph;
    std::map<NodeId, NodeId> nodes;     // of the whole graph, as nodes here
    std::map<Output, NodeId> receives;  // of the whole graph's outputs
    std::map<NodeId, NodeId> signals;   // nodes elsewhere that somebody here waits for
  };

  Status take(NodeId id) {
    const auto& node = whole_.node(id);
    // Where they are needed; the rest of the graph decides where that is.
    if (node.op->name == "Const" || (node.op->name == "Variable" && !node.task.empty())) return {};
    if (node.task.empty())
      return fail(Code::kInvalidArgument, "node '{}' ({}) is on no task; place() says where",
                  node.name, node.op->name);
    FERRY_TRY(copy_to(id, node.task));
    return {};
  }

  // The node as one of the task's own, made if need be.
  Result<NodeId> copy_to(NodeId id, const std::string& task) {
    const auto& node = whole_.node(id);
    auto& place = parts_[task];
    if (const auto found = place.nodes.find(id); found != place.nodes.end()) return found->second;
    Graph::NewNode made{
        .op = node.op->name, .name = node.name, .attributes = node.attributes, .task = task};
    for (const auto& input : node.inputs) made.inputs.push_back(FERRY_TRY(bring(input, task)));
    for (const auto before : node.after) {
      if (const auto here = FERRY_TRY(wait_for(before, task))) made.after.push_back(*here);
    }
    const auto here = FERRY_TRY(place.graph.add(std::move(made)));
    place.nodes.emplace(id, here);
    return here;
  }

  bool lives_at(NodeId id, const std::string& task) const {
    const auto& node = whole_.node(id);
    if (node.op->name == "Const") return true;
    if (node.op->name == "Variable") return process_of(node.task) == process_of(task);
    return node.task == task;
  }

  // Which loop of one process works with which other process.
  void find_loops() {
    for (const auto& node : whole_.nodes()) {
      const auto process = process_of(node.task);
      if (process == node.task) continue;
      for (const auto& input : node.inputs)
        loops_.emplace(std::pair(process, process_of(whole_.node(input.node).task)), node.task);
    }
  }

  // The task that sends an output: a variable is sent by the loop that works with the reader.
  std::string sender_of(Output output, const std::string& to) const {
    const auto& node = whole_.node(output.node);
    if (node.op->name != "Variable") return node.task;
    const auto found = loops_.find({node.task, process_of(to)});
    return found == loops_.end() ? node.task : found->second;
  }

  // An output as one of the task's own nodes: its own, a clone, or a receive.
  Result<Output> bring(Output output, const std::string& task) {
    if (lives_at(output.node, task))
      return Output{FERRY_TRY(copy_to(output.node, task)), output.index};
    auto& receives = parts_[task].receives;
    if (const auto found = receives.find(output); found != receives.end())
      return Output{found->second, 0};
    const auto receive = FERRY_TRY(cross(output, sender_of(output, task), task));
    receives.emplace(output, receive);
    return Output{receive, 0};
  }

  // A node that another one on the task waits for; none for constants, which are always there.
  Result<std::optional<NodeId>> wait_for(NodeId id, const std::string& task) {
    if (is_op(whole_, id, "Const") || is_op(whole_, id, "Variable")) return std::optional<NodeId>();
    if (lives_at(id, task)) return std::optional(FERRY_TRY(copy_to(id, task)));
    auto& signals = parts_[task].signals;
    if (const auto found = signals.find(id); found != signals.end())
      return std::optional(found->second);
    const auto& from = whole_.node(id).task;
    const auto waiting = FERRY_TRY(copy_to(id, from));
    auto& there = parts_[from].graph;
    const auto signal = FERRY_TRY(there.add({.op = "Signal",
                                             .name = fmt::format("signal/{}", whole_.node(id).name),
                                             .after = {waiting},
                                             .task = from}));
    auto& crossing = open(fmt::format("{} (control)", whole_.node(id).name), from, task,
                          there.spec({signal, 0}));
    crossing.why = "a control edge: one byte";
    FERRY_TRY(add_send({signal, 0}, crossing));
    const auto receive = FERRY_TRY(add_receive(crossing));
    signals.emplace(id, receive);
    return std::optional(receive);
  }

  Crossing& open(std::string name, const std::string& from, const std::string& to,
                 const tensor::Spec& spec) {
    auto& crossing = crossings_.emplace_back();
    crossing.id = static_cast<std::uint32_t>(crossings_.size() - 1);
    crossing.name = std::move(name);
    crossing.from = from;
    crossing.to = to;
    crossing.spec = spec;
    crossing.first_use = static_cast<std::uint32_t>(parts_[to].graph.size());
    return crossing;
  }

  Result<NodeId> cross(Output output, const std::string& from, const std::string& to) {
    if (process_of(from) == process_of(to))
      return fail(Code::kInvalidArgument, "'{}' would cross from {} to {}, which one process runs",
                  name_of_output(whole_, output), from, to);
    auto& crossing = open(name_of_output(whole_, output), from, to, whole_.spec(output));
    choose(crossing, root_of(whole_, output));
    if (crossing.protocol != TransferProtocol::kShared) {
      const auto source = FERRY_TRY(bring(output, from));
      const auto send = FERRY_TRY(add_send(source, crossing));
      sends_[{output, to}] = send;
    }
    return add_receive(crossing);
  }

  void choose(Crossing& crossing, Output root) const {
    const bool known = crossing.spec.shape.known();
    if (known && is_op(whole_, root.node, "Variable") && options_.maps &&
        options_.maps(crossing.from, crossing.to)) {
      crossing.protocol = TransferProtocol::kShared;
      crossing.variable = whole_.node(root.node).name;
      crossing.why = "a variable, and the reader maps its memory: versions are read in place";
    } else if (known) {
      crossing.protocol = TransferProtocol::kStatic;
      crossing.why = "the shape is known: it lands in a slot";
    } else {
      crossing.protocol = TransferProtocol::kDynamic;
      crossing.why = fmt::format("the shape {} varies: it comes with the tensor",
                                 crossing.spec.shape.to_string());
    }
  }

  Result<NodeId> add_send(Output source, const Crossing& crossing) {
    return parts_[crossing.from].graph.add(
        {.op = crossing.protocol == TransferProtocol::kDynamic ? "RdmaSendDyn" : "RdmaSend",
         .name = fmt::format("send/{}/{}", crossing.id, crossing.name),
         .inputs = {source},
         .attributes = {{"crossing", std::int64_t{crossing.id}},
                        {"needed", std::int64_t{crossing.first_use}}},
         .task = crossing.from});
  }

  Result<NodeId> add_receive(const Crossing& crossing) {
    return parts_[crossing.to].graph.add(
        {.op = crossing.protocol == TransferProtocol::kDynamic ? "RdmaRecvDyn" : "RdmaRecv",
         .name = fmt::format("recv/{}/{}", crossing.id, crossing.name),
         .attributes = {{"crossing", std::int64_t{crossing.id}},
                        {"type", crossing.spec.type},
                        {"shape", crossing.spec.shape}},
         .task = crossing.to});
  }

  Status guard_update(const Node& update) {
    for (std::uint32_t index = 0; index < update.op->updates; ++index) {
      const auto variable = root_of(whole_, update.inputs[index]).node;
      if (!is_op(whole_, variable, "Variable") || !lives_at(variable, update.task))
        return fail(Code::kInvalidArgument,
                    "node '{}' ({}) updates '{}', which is no variable of {}", update.name,
                    update.op->name, name_of_output(whole_, update.inputs[index]), update.task);
      order_readers(variable, update);
      for (auto input = update.op->updates; input < update.inputs.size(); ++input)
        order_send(update.inputs[input], variable, update.task);
    }
    return {};
  }

  // Whoever reads the variable on the update's task comes before it.
  void order_readers(NodeId variable, const Node& update) {
    auto& place = parts_[update.task];
    const auto here = place.nodes.at(variable);
    const auto updating = place.nodes.at(update.id);
    for (NodeId id = 0; id < place.graph.size(); ++id) {
      if (id == updating) continue;
      const auto& inputs = place.graph.node(id).inputs;
      const bool reads = std::any_of(inputs.begin(), inputs.end(), [&](Output input) {
        return root_of(place.graph, input).node == here;
      });
      if (reads) place.graph.order(id, updating);
    }
  }

  // A gradient leaves after its worker has got the variable that it is for.
  void order_send(Output gradient, NodeId variable, const std::string& to) {
    const auto sent = sends_.find({gradient, to});
    if (sent == sends_.end()) return;
    auto& place = parts_[whole_.node(gradient.node).task];
    for (const auto& [output, receive] : place.receives)
      if (root_of(whole_, output).node == variable) place.graph.order(receive, sent->second);
  }

  const Graph& whole_;
  const PartitionOptions& options_;
  // By process and other process.
  std::map<std::pair<std::string, std::string>, std::string> loops_;
  std::map<std::string, Place> parts_;
  std::vector<Crossing> crossings_;
  std::map<std::pair<Output, std::string>, NodeId> sends_;
};

}  // namespace

std::string process_of(const std::string& task) { return task.substr(0, task.find("/loop:")); }

Result<Partition> partition(const Graph& graph, const PartitionOptions& options) {
  return Cutter(graph, options).cut();
}

}  // namespace ferry::graph
