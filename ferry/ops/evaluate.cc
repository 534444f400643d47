#include "ferry/ops/evaluate.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace ferry::ops {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Output;
using tensor::Spec;
using tensor::Tensor;

constexpr std::size_t kAlignment = 64;

// Whose tensors there are while a graph is evaluated.
struct Evaluation {
  const Graph& graph;
  Tensors& variables;
  const Tensors& feeds;
  const EvaluateOptions& options;
  std::map<Output, Tensor> values;      // those that somebody still wants
  std::map<Output, std::size_t> users;  // how many still want them
};

// One node's run. It holds its inputs: a buffer of which this is the only share is free to write
// to.
class EvaluateContext final : public KernelContext {
 public:
  EvaluateContext(Evaluation& all, const Node& node) : all_(all), node_(node) {
    for (const auto& input : node.inputs) inputs_.push_back(take(input));
    outputs_.resize(node.outputs.size());
  }

  std::size_t inputs() const override { return inputs_.size(); }
  const Tensor& input(std::size_t index) const override { return inputs_[index]; }
  Result<Tensor> output(std::uint32_t index, const Spec& spec) override {
    FERRY_ASSERT(index < outputs_.size(), "the operator has such an output");
    const auto* reused = reusable(index, spec);
    auto made = reused != nullptr ? FERRY_TRY(Tensor::over(spec, reused->bytes(), reused->share()))
                                  : FERRY_TRY(make_tensor(spec));
    outputs_[index] = made;
    return made;
  }
  void pass(std::uint32_t index, Tensor value) override { outputs_[index] = std::move(value); }
  Result<std::span<std::byte>> scratch(std::uint64_t bytes) override {
    const auto shape = FERRY_TRY(tensor::Shape::of({static_cast<std::int64_t>(bytes)}));
    scratch_.push_back(FERRY_TRY(make_tensor({tensor::ElementType::kU8, shape})));
    return scratch_.back().bytes();
  }
  Result<Tensor> variable(std::string_view name) override {
    return find(all_.variables, name, "there is no value for the variable");
  }
  Result<Tensor> fed(std::string_view name) override {
    return find(all_.feeds, name, "nothing was fed to the input");
  }
  std::uint64_t step() const override { return all_.options.step; }

  // Hands the outputs to their users. An updated variable's new value is its state from now on.
  void finish() {
    if (node_.op->updates > 0) {
      const auto& variable = all_.graph.node(node_.inputs[0].node);
      if (variable.op->name == "Variable") all_.variables[variable.name] = outputs_[0];
    }
    for (std::uint32_t index = 0; index < outputs_.size(); ++index)
      if (const Output output{node_.id, index}; all_.users[output] > 0)
        all_.values[output] = std::move(outputs_[index]);
  }

 private:
  Tensor take(const Output& input) {
    auto value = all_.values[input];
    if (--all_.users[input] == 0) all_.values.erase(input);
    return value;
  }
  static Result<Tensor> find(const Tensors& among, std::string_view name,
                             std::string_view problem) {
    const auto found = among.find(name);
    if (found == among.end()) return fail(Code::kNotFound, "{} '{}'", problem, name);
    return found->second;
  }
  // An input whose memory this output may have; none if somebody else shares it.
  const Tensor* reusable(std::uint32_t output, const Spec& spec) const {
    if (!all_.options.reuse) return nullptr;
    // The variable's state has a share too.
    if (node_.op->updates > 0 && output == 0)
      return shared_by(0, 2) && inputs_[0].spec() == spec ? inputs_.data() : nullptr;
    for (const auto& [from, to] : node_.op->reuses)
      if (to == output && shared_by(from, 1) &&
          inputs_[from].bytes().size() == spec.bytes().value_or(0))
        return &inputs_[from];
    return nullptr;
  }
  bool shared_by(std::uint32_t input, long shares) const {
    return inputs_[input].share() != nullptr && inputs_[input].share().use_count() == shares;
  }

  Evaluation& all_;
  const Node& node_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> scratch_;
};

// The nodes that the fetches need.
std::set<NodeId> needed_for(const Graph& graph, std::span<const Output> fetches) {
  std::set<NodeId> needed;
  std::vector<NodeId> todo;
  for (const auto& fetch : fetches) todo.push_back(fetch.node);
  while (!todo.empty()) {
    const auto id = todo.back();
    todo.pop_back();
    if (!needed.insert(id).second) continue;
    for (const auto& input : graph.node(id).inputs) todo.push_back(input.node);
    for (const auto before : graph.node(id).after) todo.push_back(before);
  }
  return needed;
}

bool has_output(const Graph& graph, const Output& fetch) {
  return fetch.index < graph.node(fetch.node).outputs.size();
}

Status check_fetches(const Graph& graph, std::span<const Output> fetches) {
  for (const auto& fetch : fetches)
    if (fetch.node >= graph.size() || (fetch.index > 0 && !has_output(graph, fetch)))
      return fail(Code::kInvalidArgument, "output {} of node {} is not in the graph", fetch.index,
                  fetch.node);
  return {};
}

}  // namespace

Result<Tensor> make_tensor(const Spec& spec) {
  const auto bytes = FERRY_TRY(spec.bytes());
  // A whole number of lines, and at least one.
  const auto room = (bytes / kAlignment + 1) * kAlignment;
  std::shared_ptr<void> share(std::aligned_alloc(kAlignment, room), std::free);
  if (!share) return fail(Code::kResourceExhausted, "no memory for {}", spec.to_string());
  return Tensor::over(spec, {static_cast<std::byte*>(share.get()), bytes}, share);
}

Result<std::vector<Tensor>> evaluate(const Graph& graph, Tensors& variables, const Tensors& feeds,
                                     std::span<const Output> fetches,
                                     const EvaluateOptions& options) {
  FERRY_TRY(check_fetches(graph, fetches));
  const auto needed = needed_for(graph, fetches);
  Evaluation all{graph, variables, feeds, options, {}, {}};
  for (const auto id : needed)
    for (const auto& input : graph.node(id).inputs) ++all.users[input];
  for (const auto& fetch : fetches) ++all.users[fetch];
  for (const auto id : FERRY_TRY(graph.sorted())) {
    if (needed.count(id) == 0) continue;
    const auto kernel = FERRY_TRY(make_kernel(graph.node(id)));
    EvaluateContext context(all, graph.node(id));
    FERRY_TRY(kernel->run(context));
    context.finish();
  }
  std::vector<Tensor> found;
  for (const auto& fetch : fetches)
    found.push_back(has_output(graph, fetch) ? all.values.at(fetch) : Tensor());
  return found;
}

}  // namespace ferry::ops
