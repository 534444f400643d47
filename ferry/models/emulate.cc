#include "ferry/models/emulate.h"

#include <algorithm>
#include <numeric>

#include "ferry/models/emulate_internal.h"

namespace ferry::models {
namespace {

using graph::Builder;
using graph::Graph;

constexpr double kForwardShare = 1.0 / 3;  // a layer's gradient takes two products, its output one
constexpr double kUsualBatch = 32;

Result<Graph> graph_of(const Model& model) {
  Graph graph;
  Builder builder(graph);
  const auto tower = model.tower(builder);
  FERRY_TRY(Status(builder.status()));
  return graph;
}

// Of a step with a batch of 32.
Result<double> usual_seconds(const Model& model, double operations, std::int64_t batch) {
  if (model.facts.seconds > 0) return model.facts.seconds;
  if (!model.facts.can_be_emulated())
    return fail(Code::kInvalidArgument,
                "nothing is known about how long {} computes; it can only be computed", model.name);
  const auto like = FERRY_TRY(make_model(model.facts.like, {.batch = batch}));
  return like.facts.seconds * operations / operations_of(FERRY_TRY(graph_of(like)));
}

std::int64_t nanos(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

graph::Tower emulated_tower(Builder& builder, const std::vector<Stage>& stages, double seconds) {
  const auto all =
      std::accumulate(stages.begin(), stages.end(), 0.0,
                      [](double sum, const Stage& stage) { return sum + stage.operations; });
  auto token = builder.constant(0.0F, "token");
  for (const auto& stage : stages) {
    const auto own = seconds * stage.operations / all;
    std::vector<graph::Expr> inputs = {token};
    for (const auto& variable : stage.variables)
      inputs.push_back(
          builder.variable(variable.name, variable.spec, {graph::Initial::Kind::kConstant, 0.1}));
    token = builder.add(
        "EmulatedLayer", std::move(inputs),
        {{"ns", nanos(own * kForwardShare)}, {"back_ns", nanos(own * (1 - kForwardShare))}});
  }
  return {.loss = token, .metrics = {}};
}

}  // namespace

Result<Emulated> emulate(const Model& model, std::int64_t batch) {
  register_emulation();
  const auto graph = FERRY_TRY(graph_of(model));
  Emulated emulated;
  emulated.estimated = model.facts.seconds <= 0;
  emulated.seconds = FERRY_TRY(usual_seconds(model, operations_of(graph), batch));
  if (model.facts.grows_with_batch)
    emulated.seconds *= std::max(1.0, static_cast<double>(batch) / kUsualBatch);
  emulated.model = {model.name, Feeds::kNothing, {}, {}, model.facts};
  emulated.model.tower = [stages = stages_of(graph), seconds = emulated.seconds](Builder& builder) {
    return emulated_tower(builder, stages, seconds);
  };
  return emulated;
}

}  // namespace ferry::models
