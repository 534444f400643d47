#include "ferry/graph/gradient.h"

#include <map>
#include <set>

namespace ferry::graph {
namespace {

// Those that are reached from any of `of` along the edges.
std::set<NodeId> depend_on(const Graph& graph, std::span<const Expr> of) {
  std::set<NodeId> found;
  for (const auto& expr : of) found.insert(expr.output().node);
  for (const auto& node : graph.nodes())
    for (const auto& input : node.inputs)
      if (found.count(input.node) > 0) found.insert(node.id);
  return found;
}

// What has flowed back so far, by output. Several flows into one output are added up.
class Flows {
 public:
  explicit Flows(Builder& builder) : builder_(builder) {}

  void add(Output output, Expr gradient) {
    if (gradient) flows_[output].push_back(gradient);
  }
  Expr sum(Output output) {
    const auto found = flows_.find(output);
    if (found == flows_.end()) return {};
    auto& flows = found->second;
    if (flows.size() > 1) {
      const auto on = builder_.on(builder_.graph().node(output.node).task);
      flows = {builder_.add("AddN", flows)};
    }
    return flows.front();
  }

 private:
  Builder& builder_;
  std::map<Output, std::vector<Expr>> flows_;
};

void flow_through(Builder& builder, NodeId id, Flows& flows) {
  auto& graph = builder.graph();
  std::vector<Expr> incoming;
  bool any = false;
  for (std::uint32_t index = 0; index < graph.node(id).outputs.size(); ++index) {
    incoming.push_back(flows.sum({id, index}));
    any = any || incoming.back();
  }
  const auto* op = graph.node(id).op;
  if (!any || graph.node(id).inputs.empty()) return;
  if (!op->gradient) {
    builder.note(Error(
        Code::kUnimplemented,
        fmt::format("node '{}': no gradient flows back through {}", graph.node(id).name, op->name),
        0, __FILE__, __LINE__));
    return;
  }
  const auto on = builder.on(graph.node(id).task);
  Gradient gradient(builder, id, std::move(incoming));
  if (auto status = op->gradient(gradient); !status) builder.note(std::move(status).error());
  const auto inputs = graph.node(id).inputs;
  for (std::size_t index = 0; index < inputs.size(); ++index)
    flows.add(inputs[index], gradient.outgoing()[index]);
}

}  // namespace

Gradient::Gradient(Builder& builder, NodeId node, std::vector<Expr> incoming)
    : builder_(builder),
      node_(node),
      attributes_(builder.graph().node(node).attributes),
      incoming_(std::move(incoming)),
      outgoing_(builder.graph().node(node).inputs.size()) {}

Expr Gradient::input(std::size_t index) const {
  return {&builder_, builder_.graph().node(node_).inputs[index]};
}
Expr Gradient::output(std::uint32_t index) const { return {&builder_, {node_, index}}; }
std::size_t Gradient::inputs() const { return outgoing_.size(); }

std::vector<Expr> gradients(Expr loss, std::span<const Expr> of) {
  std::vector<Expr> found(of.size());
  if (!loss) return found;
  auto& builder = *loss.builder();
  auto& graph = builder.graph();
  if (loss.spec().shape.rank() != 0) {
    builder.note(Error(Code::kInvalidArgument,
                       fmt::format("gradients are of a scalar, and '{}' is {}",
                                   graph.node(loss.output().node).name, loss.spec().to_string()),
                       0, __FILE__, __LINE__));
    return found;
  }
  const auto touched = depend_on(graph, of);
  Flows flows(builder);
  const auto last = loss.output().node;
  {
    const auto on = builder.on(graph.node(last).task);
    flows.add(loss.output(), builder.add("OnesLike", {loss}));
  }
  // Inputs have lower numbers than those who use them.
  for (auto id = last + 1; id-- > 0;)
    if (touched.count(id) > 0) flow_through(builder, id, flows);
  for (std::size_t index = 0; index < of.size(); ++index) {
    found[index] = flows.sum(of[index].output());
    if (!found[index]) found[index] = builder.add("ZerosLike", {of[index]});
  }
  return found;
}

}  // namespace ferry::graph
