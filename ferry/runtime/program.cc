#include <algorithm>

#include "ferry/runtime/program_internal.h"

namespace ferry::runtime {
namespace {

bool is_send(const graph::Node& node) { return node.op->name.starts_with("RdmaSend"); }
bool is_receive(const graph::Node& node) { return node.op->name.starts_with("RdmaRecv"); }

class Compiler {
 public:
  Compiler(const graph::Graph& graph, Variables& variables, Rendezvous* rendezvous)
      : graph_(graph), variables_(variables), rendezvous_(rendezvous), items_(graph.size()) {}

  Result<Program> compile(std::span<const graph::Output> fetches) {
    const auto order = FERRY_TRY(graph_.sorted());
    for (std::uint32_t at = 0; at < order.size(); ++at) items_[order[at]] = at;
    number_slots(order);
    for (const auto id : order) FERRY_TRY(add(graph_.node(id)));
    for (const auto& fetch : fetches) {
      program_.fetches.push_back(value_of(fetch));
      ++program_.uses[value_of(fetch)];
    }
    for (std::uint32_t at = 0; at < program_.items.size(); ++at)
      if (program_.items[at].waits_for == 0) program_.first.push_back(at);
    const auto needed = FERRY_TRY(needs());
    std::stable_sort(program_.first.begin(), program_.first.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return needed[a] < needed[b]; });
    return std::move(program_);
  }

 private:
  // How early the receivers of what an item leads to need it.
  Result<std::vector<std::int64_t>> needs() const {
    std::vector<std::int64_t> needed(program_.items.size(), INT64_MAX);
    for (auto at = program_.items.size(); at-- > 0;) {
      const auto& item = program_.items[at];
      if (item.kind == Item::Kind::kSend)
        needed[at] = FERRY_TRY(item.node->attributes.get<std::int64_t>("needed"));
      for (const auto next : item.next) needed[at] = std::min(needed[at], needed[next]);
    }
    return needed;
  }

  ValueId value_of(graph::Output output) const { return first_[output.node] + output.index; }

  void number_slots(const std::vector<graph::NodeId>& order) {
    first_.resize(graph_.size());
    ValueId next = 0;
    for (const auto id : order) {
      first_[id] = next;
      next += static_cast<ValueId>(graph_.node(id).outputs.size());
    }
    program_.uses.resize(next);
  }

  Status add(const graph::Node& node) {
    Item item;
    item.node = &node;
    item.first_output = first_[node.id];
    FERRY_TRY(give_code(item));
    const auto at = items_[node.id];
    for (const auto& input : node.inputs) {
      item.inputs.push_back(value_of(input));
      ++program_.uses[value_of(input)];
      program_.items[items_[input.node]].next.push_back(at);
    }
    for (const auto before : node.after) program_.items[items_[before]].next.push_back(at);
    item.waits_for = static_cast<std::uint32_t>(node.inputs.size() + node.after.size());
    program_.items.push_back(std::move(item));
    return {};
  }

  Status give_code(Item& item) {
    const auto& node = *item.node;
    if (is_send(node) || is_receive(node)) return find_end(item);
    item.kernel = FERRY_TRY(ops::make_kernel(node));
    if (item.kernel->polls()) item.kind = Item::Kind::kPoll;
    if (node.op->updates > 0) item.updated = FERRY_TRY(variable_behind(node));
    return {};
  }

  Status find_end(Item& item) {
    item.crossing =
        static_cast<std::uint32_t>(FERRY_TRY(item.node->attributes.get<std::int64_t>("crossing")));
    item.kind = is_send(*item.node) ? Item::Kind::kSend : Item::Kind::kReceive;
    if (rendezvous_ != nullptr) {
      item.send = rendezvous_->send_end(item.crossing);
      item.receive = rendezvous_->receive_end(item.crossing);
    }
    if (is_send(*item.node) ? item.send == nullptr : item.receive == nullptr)
      return fail(Code::kFailedPrecondition, "node '{}': crossing {} is not open here",
                  item.node->name, item.crossing);
    return {};
  }

  Result<Variable*> variable_behind(const graph::Node& update) const {
    auto output = update.inputs[0];
    while (graph_.node(output.node).op->forwards) output = graph_.node(output.node).inputs[0];
    return variables_.find(graph_.node(output.node).name);
  }

  const graph::Graph& graph_;
  Variables& variables_;
  Rendezvous* rendezvous_;
  std::vector<std::uint32_t> items_;  // by node
  std::vector<ValueId> first_;        // by node
  Program program_;
};

}  // namespace

Result<Program> make_program(const graph::Graph& graph, Variables& variables,
                             Rendezvous* rendezvous, std::span<const graph::Output> fetches) {
  return Compiler(graph, variables, rendezvous).compile(fetches);
}

}  // namespace ferry::runtime
