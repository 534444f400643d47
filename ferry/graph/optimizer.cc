#include "ferry/graph/optimizer.h"

#include <algorithm>

#include "ferry/graph/gradient.h"

namespace ferry::graph {
namespace {

const std::string& task_of(Expr expr) {
  return expr.builder()->graph().node(expr.output().node).task;
}

// A variable that an optimizer keeps beside another one, in the same place.
Expr slot(Expr variable, std::string_view name, const tensor::Spec& spec) {
  auto& builder = *variable.builder();
  const auto& whose = builder.graph().node(variable.output().node).name;
  const auto made = builder.variable(fmt::format("{}/{}", whose, name), spec);
  if (made) builder.graph().place(made.output().node, task_of(variable));
  return made;
}

std::vector<Expr> slots_of(const Optimizer& optimizer, Expr variable) {
  const auto spec = variable.spec();
  switch (optimizer.kind) {
    case Optimizer::Kind::kSgd:
      return {};
    case Optimizer::Kind::kMomentum:
      return {slot(variable, "velocity", spec)};
    case Optimizer::Kind::kAdam:
      return {slot(variable, "m", spec), slot(variable, "v", spec), slot(variable, "t", {})};
  }
  return {};
}

std::string_view op_of(const Optimizer& optimizer) {
  switch (optimizer.kind) {
    case Optimizer::Kind::kSgd:
      return "ApplySgd";
    case Optimizer::Kind::kMomentum:
      return "ApplyMomentum";
    case Optimizer::Kind::kAdam:
      return "ApplyAdam";
  }
  return "";
}

Attributes attributes_of(const Optimizer& optimizer, double scale) {
  Attributes attributes = {{"scale", scale}};
  if (optimizer.kind == Optimizer::Kind::kMomentum) attributes.set("momentum", optimizer.momentum);
  if (optimizer.kind != Optimizer::Kind::kAdam) return attributes;
  attributes.set("beta1", optimizer.beta1);
  attributes.set("beta2", optimizer.beta2);
  attributes.set("epsilon", optimizer.epsilon);
  return attributes;
}

bool all_sparse(std::span<const Expr> gradients) {
  return std::all_of(gradients.begin(), gradients.end(), [](Expr g) { return is_sparse(g); });
}

// Its name begins with the variable's, and its place is the variable's.
Expr update_of(Expr variable, std::string_view op, std::vector<Expr> inputs,
               Attributes attributes) {
  auto& builder = *variable.builder();
  const auto name = fmt::format("{}/{}", builder.graph().node(variable.output().node).name, op);
  const auto on = builder.on(task_of(variable));
  return builder.add(op, std::move(inputs), std::move(attributes), name);
}

}  // namespace

std::string_view name_of(Optimizer::Kind kind) {
  switch (kind) {
    case Optimizer::Kind::kSgd:
      return "sgd";
    case Optimizer::Kind::kMomentum:
      return "momentum";
    case Optimizer::Kind::kAdam:
      return "adam";
  }
  return "?";
}

Expr apply_gradients(const Optimizer& optimizer, Expr variable, Expr rate,
                     std::span<const Expr> gradients, double scale) {
  if (!variable || !rate) return {};
  const bool sparse = optimizer.kind == Optimizer::Kind::kSgd && all_sparse(gradients);
  std::vector<Expr> inputs = {variable};
  for (const auto made : slots_of(optimizer, variable)) inputs.push_back(made);
  inputs.push_back(rate);
  const auto on = variable.builder()->on(task_of(variable));
  for (const auto gradient : gradients) {
    inputs.push_back(sparse ? gradient : dense(gradient, variable));
    if (sparse) inputs.push_back(gradient.at(1));
  }
  return update_of(variable, sparse ? "ApplySgdSparse" : op_of(optimizer), inputs,
                   attributes_of(optimizer, scale));
}

Expr assign(Expr variable, Expr value) {
  return variable ? update_of(variable, "Assign", {variable, value}, {}) : Expr();
}

Expr update_average(Expr average, Expr x, double decay) {
  return average ? update_of(average, "UpdateAverage", {average, x}, {{"decay", decay}}) : Expr();
}

}  // namespace ferry::graph
