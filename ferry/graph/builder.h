#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ferry/graph/graph.h"

namespace ferry::graph {

class Builder;

// One tensor of a graph that is being built, for formulas: y = relu(matmul(x, w) + b). A value,
// cheap to copy. What is made from one that could not be made cannot be made either; the builder
// keeps the first reason.
class Expr {
 public:
  Expr() = default;  // none
  Expr(Builder* builder, Output output) : builder_(builder), output_(output) {}

  explicit operator bool() const { return builder_ != nullptr; }
  Builder* builder() const { return builder_; }
  Output output() const { return output_; }
  const tensor::Spec& spec() const;
  // Another output of the same node.
  Expr at(std::uint32_t index) const {
    return builder_ ? Expr(builder_, {output_.node, index}) : *this;
  }

 private:
  Builder* builder_ = nullptr;
  Output output_;
};

// How a variable begins.
struct Initial {
  enum class Kind { kZeros, kConstant, kUniform, kNormal, kGlorot, kHe };
  Kind kind = Kind::kZeros;
  double scale = 0;  // the constant, the bound, or the deviation; glorot and he know theirs
};

// Adds nodes to a graph, and remembers the first failure instead of handing it to each formula.
// Must not outlive the graph. Not thread-safe.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Graph& graph() { return graph_; }
  // The first thing that went wrong; nothing that depends on it was added.
  const Status& status() const { return status_; }
  void note(Error error);

  // A tensor that each step is fed with, by name.
  Expr input(const std::string& name, const tensor::Spec& spec);
  Expr constant(const tensor::Tensor& value, const std::string& name = "");
  Expr constant(float value, const std::string& name = "");
  // The variable of that name; made on the first call, and the same one after that, whatever the
  // scopes are. kInvalidArgument if it has another type or shape.
  Expr variable(const std::string& name, const tensor::Spec& spec, Initial initial = {});
  // Output 0 of a new node.
  Expr add(std::string_view op, std::vector<Expr> inputs, Attributes attributes = {},
           std::string_view name = "");

  // While a scope lives, new nodes are on that task, or have names that begin "name/".
  class [[nodiscard]] Scope {
   public:
    Scope(std::string& place, std::string value) : place_(place), before_(std::move(place)) {
      place_ = std::move(value);
    }
    ~Scope() { place_ = std::move(before_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::string& place_;
    std::string before_;
  };
  Scope on(std::string task) { return {task_, std::move(task)}; }
  Scope within(std::string_view name) { return {prefix_, fmt::format("{}{}/", prefix_, name)}; }

 private:
  Expr keep(Result<NodeId> added);

  Graph& graph_;
  Status status_;
  std::string task_;
  std::string prefix_;
};

}  // namespace ferry::graph
