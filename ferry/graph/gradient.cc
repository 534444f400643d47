#include "ferry/graph/gradient.h"

#include <algorithm>
#include <map>
#include <optional>

namespace ferry::graph {
namespace {

using tensor::ElementType;

// By node: whether it is reached from any of `of` along the edges.
std::vector<bool> depend_on(const Graph& graph, std::span<const Expr> of) {
  std::vector<bool> found(graph.size());
  for (const auto& expr : of)
    if (expr) found[expr.output().node] = true;
  for (const auto& node : graph.nodes())
    for (const auto& input : node.inputs)
      if (found[input.node]) found[node.id] = true;
  return found;
}

bool has_slopes(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF64 || type == ElementType::kF16 ||
         type == ElementType::kBf16;
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
      const auto on = builder_.on(task_for(output, flows));
      for (auto& flow : flows) flow = dense(flow, {&builder_, output});
      flows = {builder_.add("AddN", flows)};
    }
    return flows.front();
  }

 private:
  // Where the flows are, if that is one place, so that one tensor leaves it; else where they go.
  std::string task_for(Output output, const std::vector<Expr>& flows) const {
    const auto& graph = builder_.graph();
    const auto& first = graph.node(flows.front().output().node).task;
    const bool together = std::all_of(flows.begin(), flows.end(), [&](const Expr& flow) {
      return graph.node(flow.output().node).task == first;
    });
    return together ? first : graph.node(output.node).task;
  }

  Builder& builder_;
  std::map<Output, std::vector<Expr>> flows_;
};

// What flowed into the outputs of a node that has inputs, or nothing.
std::optional<std::vector<Expr>> flowed_into(Builder& builder, NodeId id, Flows& flows) {
  std::vector<Expr> incoming;
  bool any = false;
  for (std::uint32_t index = 0; index < builder.graph().node(id).outputs.size(); ++index) {
    const Output output{id, index};
    incoming.push_back(dense(flows.sum(output), {&builder, output}));
    any = any || incoming.back();
  }
  if (!any) return std::nullopt;
  return incoming;
}

Status flow_through(Builder& builder, NodeId id, const std::vector<bool>& touched, Flows& flows) {
  auto& graph = builder.graph();
  const auto inputs = graph.node(id).inputs;
  std::vector<bool> wanted(inputs.size());
  for (std::size_t index = 0; index < inputs.size(); ++index)
    wanted[index] = touched[inputs[index].node] && has_slopes(graph.spec(inputs[index]).type);
  if (std::count(wanted.begin(), wanted.end(), true) == 0) return {};
  const auto on = builder.on(graph.node(id).task);
  auto incoming = flowed_into(builder, id, flows);
  if (!incoming) return {};
  const auto* op = graph.node(id).op;
  if (!op->gradient)
    return fail(Code::kUnimplemented, "node '{}': no gradient flows back through {}",
                graph.node(id).name, op->name);
  Gradient gradient(builder, id, *std::move(incoming), wanted);
  FERRY_TRY(op->gradient(gradient));
  for (std::size_t index = 0; index < inputs.size(); ++index)
    if (wanted[index]) flows.add(inputs[index], gradient.outgoing()[index]);
  return {};
}

Status want_scalar_loss(Expr loss) {
  if (loss.spec().shape.rank() == 0 && has_slopes(loss.spec().type)) return {};
  return fail(Code::kInvalidArgument, "gradients are of a scalar, and '{}' is {}",
              loss.builder()->graph().node(loss.output().node).name, loss.spec().to_string());
}

// The end of the flows: only variables may have sparse ones.
Expr flow_to(Builder& builder, Flows& flows, Expr of) {
  if (!of) return {};
  const auto sum = flows.sum(of.output());
  if (builder.graph().node(of.output().node).op->name == "Variable") return sum;
  return dense(sum, of);
}

}  // namespace

Gradient::Gradient(Builder& builder, NodeId node, std::vector<Expr> incoming,
                   std::vector<bool> wanted)
    : builder_(builder),
      node_(node),
      attributes_(builder.graph().node(node).attributes),
      incoming_(std::move(incoming)),
      wanted_(std::move(wanted)),
      outgoing_(builder.graph().node(node).inputs.size()) {}

Expr Gradient::input(std::size_t index) const {
  return {&builder_, builder_.graph().node(node_).inputs[index]};
}
Expr Gradient::output(std::uint32_t index) const { return {&builder_, {node_, index}}; }
std::size_t Gradient::inputs() const { return outgoing_.size(); }

Status Gradient::want_only_first(std::size_t outputs) const {
  for (auto index = outputs; index < incoming_.size(); ++index)
    if (incoming_[index])
      return fail(Code::kUnimplemented, "node '{}': no gradient flows back through its output {}",
                  builder_.graph().node(node_).name, index);
  return {};
}

bool is_sparse(Expr gradient) {
  if (!gradient || gradient.output().index != 0) return false;
  return gradient.builder()->graph().node(gradient.output().node).op->name == "EmbeddingGrad";
}

Expr dense(Expr gradient, Expr like) {
  if (!is_sparse(gradient)) return gradient;
  return gradient.builder()->add("Densify", {gradient, gradient.at(1), like});
}

std::vector<Expr> flows_to(Expr loss, std::span<const Expr> of) {
  std::vector<Expr> found(of.size());
  if (!loss) return found;
  auto& builder = *loss.builder();
  if (auto status = want_scalar_loss(loss); !status) {
    builder.note(std::move(status).error());
    return found;
  }
  const auto touched = depend_on(builder.graph(), of);
  Flows flows(builder);
  const auto last = loss.output().node;
  {
    const auto on = builder.on(builder.graph().node(last).task);
    flows.add(loss.output(), builder.add("OnesLike", {loss}));
  }
  // Inputs have lower numbers than those who use them.
  for (auto id = last + 1; id-- > 0;) {
    if (!touched[id]) continue;
    if (auto status = flow_through(builder, id, touched, flows); !status)
      builder.note(std::move(status).error());
  }
  for (std::size_t index = 0; index < of.size(); ++index)
    found[index] = flow_to(builder, flows, of[index]);
  return found;
}

std::vector<Expr> gradients(Expr loss, std::span<const Expr> of) {
  auto found = flows_to(loss, of);
  if (!loss || !loss.builder()->status()) return found;
  for (std::size_t index = 0; index < of.size(); ++index)
    if (!found[index]) found[index] = loss.builder()->add("ZerosLike", {of[index]});
  return found;
}

}  // namespace ferry::graph
