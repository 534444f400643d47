#include "ferry/graph/builder.h"

#include <array>
#include <cstring>

namespace ferry::graph {
namespace {

constexpr std::array<std::string_view, 6> kInitialNames = {"zeros",  "constant", "uniform",
                                                           "normal", "glorot",   "he"};

Attributes spec_attributes(const tensor::Spec& spec) {
  return {{"type", spec.type}, {"shape", spec.shape}};
}

tensor::Tensor scalar_of(float value) {
  auto share = std::make_shared<float>(value);
  const auto bytes = std::as_writable_bytes(std::span(share.get(), 1));
  auto scalar = tensor::Tensor::over({tensor::ElementType::kF32, {}}, bytes, share);
  FERRY_ASSERT(scalar.has_value(), "a scalar lies over its own memory");
  return *scalar;
}

}  // namespace

const tensor::Spec& Expr::spec() const {
  static const tensor::Spec kNone;
  return builder_ == nullptr ? kNone : builder_->graph().spec(output_);
}

void Builder::note(Error error) {
  if (status_) status_ = tl::unexpected(std::move(error));
}

Expr Builder::keep(Result<NodeId> added) {
  if (added) return {this, {*added, 0}};
  note(std::move(added).error());
  return {};
}

Expr Builder::input(const std::string& name, const tensor::Spec& spec) {
  return add("Input", {}, spec_attributes(spec), name);
}

Expr Builder::constant(const tensor::Tensor& value, const std::string& name) {
  return add("Const", {}, {{"value", value}}, name);
}

Expr Builder::constant(float value, const std::string& name) {
  return constant(scalar_of(value), name);
}

Expr Builder::variable(const std::string& name, const tensor::Spec& spec, Initial initial) {
  if (const auto found = graph_.find(name)) {
    if (graph_.node(*found).op->name == "Variable" && graph_.spec({*found, 0}) == spec)
      return {this, {*found, 0}};
    note(
        Error(Code::kInvalidArgument,
              fmt::format("'{}' is in the graph, but not as a variable {}", name, spec.to_string()),
              0, __FILE__, __LINE__));
    return {};
  }
  auto attributes = spec_attributes(spec);
  attributes.set("initial", std::string(kInitialNames.at(static_cast<std::size_t>(initial.kind))));
  attributes.set("scale", initial.scale);
  return keep(graph_.add({.op = "Variable", .name = name, .attributes = std::move(attributes)}));
}

Expr Builder::add(std::string_view op, std::vector<Expr> inputs, Attributes attributes,
                  std::string_view name) {
  std::vector<Output> outputs;
  for (const auto& input : inputs) {
    if (!input) return {};
    if (input.builder() != this) {
      note(Error(Code::kInvalidArgument, fmt::format("{} of tensors of two builders", op), 0,
                 __FILE__, __LINE__));
      return {};
    }
    outputs.push_back(input.output());
  }
  return keep(graph_.add({.op = std::string(op),
                          .name = fmt::format("{}{}", prefix_, name.empty() ? op : name),
                          .inputs = std::move(outputs),
                          .attributes = std::move(attributes),
                          .task = task_}));
}

}  // namespace ferry::graph
