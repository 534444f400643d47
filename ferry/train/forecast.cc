#include "ferry/train/forecast.h"

#include <map>
#include <optional>

#include "ferry/train/plan_internal.h"

namespace ferry::train {
namespace {

using graph::Output;
using graph::TransferProtocol;

// The memory that a send finds its tensor in.
struct Origin {
  enum class Kind { kAllocated, kVariable, kGiven };
  Kind kind = Kind::kAllocated;
  Output site;  // of kAllocated: the output that was allocated
  friend auto operator<=>(const Origin&, const Origin&) = default;
};

// Where the tensors of one task's graph are allocated, as its executor will do it: operators that
// hand an input on, and outputs that take over the memory of an input.
class Origins {
 public:
  explicit Origins(const graph::Graph& graph) : graph_(graph) {
    for (const auto& node : graph.nodes())
      for (const auto& input : node.inputs) ++uses_[input];
  }

  Origin of(Output output) const {
    const auto& node = graph_.node(output.node);
    const auto& op = *node.op;
    if (op.name == "Variable" || (op.updates > 0 && output.index == 0))
      return {Origin::Kind::kVariable, {}};
    if (is_given(node)) return {Origin::Kind::kGiven, {}};
    if (output.index == 0 && hands_on(node)) return of(node.inputs[0]);
    if (const auto input = taken_over(node, output.index)) return of(*input);
    return {Origin::Kind::kAllocated, output};
  }

 private:
  static bool is_given(const graph::Node& node) {
    return node.op->name == "Const" || node.op->name == "Input" ||
           node.op->name.starts_with("RdmaRecv");
  }
  // SumTo has nothing to do where the shapes are equal.
  bool hands_on(const graph::Node& node) const {
    if (node.op->forwards && node.op->updates == 0) return true;
    return node.op->name == "SumTo" &&
           graph_.spec(node.inputs[0]).shape == graph_.spec(node.inputs[1]).shape;
  }
  // The input whose memory the output takes over, because nobody else uses it.
  std::optional<Output> taken_over(const graph::Node& node, std::uint32_t index) const {
    const auto& spec = node.outputs[index];
    for (const auto& pair : node.op->reuses) {
      if (pair.output != index || pair.input >= node.inputs.size()) continue;
      const auto input = node.inputs[pair.input];
      const auto& maker = graph_.node(input.node);
      const bool allocates = !is_given(maker) && !hands_on(maker) && maker.op->updates == 0 &&
                             maker.op->name != "Variable";
      if (allocates && uses_.at(input) == 1 && graph_.spec(input).shape == spec.shape) return input;
    }
    return std::nullopt;
  }

  const graph::Graph& graph_;
  std::map<Output, std::uint32_t> uses_;
};

// A tensor that is sent: where its memory is from, and what the executor makes of that.
struct Sent {
  Origin origin;
  bool alone = false;  // no other send is from this memory
  bool fits = false;   // what was allocated has the type and shape that the crossing carries
};

bool fits(const tensor::Spec& crossing, const tensor::Spec& site) {
  if (crossing.type != site.type || crossing.shape.rank() != site.shape.rank()) return false;
  for (std::size_t axis = 0; axis < crossing.shape.rank(); ++axis) {
    const auto wanted = crossing.shape.dim(axis);
    const auto made = site.shape.dim(axis);
    if (wanted >= 0 && made >= 0 && wanted != made) return false;
  }
  return true;
}

// By crossing; nothing for shared variables, which are not sent.
std::map<std::uint32_t, Sent> sends_of(const graph::Partition& partition) {
  std::map<std::uint32_t, Sent> sends;
  for (const auto& part : partition.parts) {
    const Origins origins(part.graph);
    std::map<Output, std::uint32_t> from_site;
    std::vector<std::uint32_t> here;
    for (const auto& node : part.graph.nodes()) {
      if (!node.op->name.starts_with("RdmaSend")) continue;
      const auto id = static_cast<std::uint32_t>(*node.attributes.get<std::int64_t>("crossing"));
      Sent sent{.origin = origins.of(node.inputs[0])};
      if (sent.origin.kind == Origin::Kind::kAllocated) {
        ++from_site[sent.origin.site];
        sent.fits = fits(partition.crossings[id].spec, part.graph.spec(sent.origin.site));
      }
      sends[id] = sent;
      here.push_back(id);
    }
    for (const auto id : here)
      if (auto& sent = sends[id]; sent.origin.kind == Origin::Kind::kAllocated)
        sent.alone = from_site[sent.origin.site] == 1;
  }
  return sends;
}

// Sent by edges of ours without copies of the whole: `maps` if the receiver's memory is mapped.
CrossingForecast without_copies(const graph::Crossing& crossing, const Sent& sent, bool maps) {
  CrossingForecast made;
  made.step.tensors = 1;
  made.step.bytes = crossing.spec.bytes().value_or(0);
  const bool in_edge = sent.alone && sent.fits;  // produced in memory of the edge
  made.step.in_place = in_edge && maps ? 1 : 0;
  const bool dynamic = crossing.protocol == TransferProtocol::kDynamic;
  if (in_edge && maps) {
    made.how = dynamic ? "used where it was produced" : "produced in the receiver's slot";
  } else if (in_edge) {
    made.how = "produced in registered memory and sent from there";
  } else if (dynamic) {
    made.step.copies = 1;
    made.how = "copied behind its metadata: it is not produced for this crossing alone";
  } else if (sent.origin.kind == Origin::Kind::kVariable) {
    made.how = "sent from the variable's memory";
  } else if (sent.origin.kind == Origin::Kind::kGiven) {
    made.how = "sent from where it was given";
  } else {
    made.how = sent.alone ? "sent from registered memory: it was produced with another shape"
                          : "sent from registered memory: several crossings have it";
  }
  return made;
}

CrossingForecast with_copies(const graph::Crossing& crossing, std::uint64_t copies,
                             std::string_view how) {
  CrossingForecast made;
  made.step.tensors = 1;
  made.step.bytes = crossing.spec.bytes().value_or(0);
  made.step.copies = copies;
  made.how = how;
  return made;
}

CrossingForecast forecast_of(const graph::Crossing& crossing, const Sent& sent,
                             const JobOptions& options) {
  if (crossing.protocol == TransferProtocol::kShared)
    return {.step = {}, .how = "leased where it is"};
  switch (options.transport) {
    case Transport::kFerry:
      return without_copies(
          crossing, sent,
          maps_memory(options, graph::process_of(crossing.from), graph::process_of(crossing.to)));
    case Transport::kFerryCopy:
      return with_copies(crossing, 1, "copied into registered memory");
    case Transport::kFerryPrivate:
      return with_copies(crossing, 2, "copied on each side");
    case Transport::kGrpc:
    case Transport::kGrpcFerry:
      return with_copies(crossing, 1, "copied out of gRPC's pieces");
  }
  return {};
}

}  // namespace

std::vector<CrossingForecast> forecast(const JobPlan& plan, const JobOptions& options) {
  auto sends = sends_of(plan.partition);
  std::vector<CrossingForecast> all;
  all.reserve(plan.partition.crossings.size());
  for (const auto& crossing : plan.partition.crossings)
    all.push_back(forecast_of(crossing, sends[crossing.id], options));
  return all;
}

}  // namespace ferry::train
