#pragma once

#include <functional>
#include <map>
#include <string>

#include "ferry/graph/functions.h"
#include "ferry/models/onnx/values.h"

namespace ferry::models::onnx {

// A tensor of the file: known while the file is read, or made by our graph.
//
// ONNX's images are [N, C, H, W], ours [N, H, W, C]. Nothing is moved where the two meet; a value
// says how it lies instead, and its users deal with that: most by computing in the order there is.
struct Value {
  enum class Order {
    kPlain,    // as ONNX has it
    kImage,    // what ONNX calls [N, C, H, W] lies as [N, H, W, C]
    kColumns,  // a flattened image: each row of [N, C * H * W] lies as [H, W, C]
  };
  std::string name = {};      // in the file
  std::string origin = {};    // of the constant that this one is the transpose of
  tensor::Tensor known = {};  // f32 or i64, always plain; where there is no `expr`
  graph::Expr expr = {};
  Order order = Order::kPlain;
  Dims image = {};       // of kColumns: C, H and W
  bool product = false;  // with a weight: what is added next is its bias

  Dims dims() const;  // as ONNX sees them
};
inline Value plain_value(graph::Expr expr) { return {.expr = expr}; }
inline Value image_value(graph::Expr expr) { return {.expr = expr, .order = Value::Order::kImage}; }
inline Value known_value(tensor::Tensor known) { return {.known = std::move(known)}; }

// What all nodes of a file share while it becomes a graph.
struct Import {
  const File& file;
  graph::Builder& builder;
  std::int64_t batch;
  std::string logits;            // the value that is classified by
  std::int64_t file_batch = -1;  // that the file was made for; -1: any
  std::map<std::string, Value> values = {};
  // What becomes of weights, in words: none may be used in two ways.
  std::map<std::string, std::string> uses = {};
  // Weights as the file has them, in our order; null: nobody asks.
  std::map<std::string, tensor::Tensor>* initial = nullptr;
  // Rows of the table that an input looks up, by the input's node.
  std::map<graph::NodeId, std::int64_t> rows = {};
  std::uint64_t folded_bytes = 0;
};

// One node that becomes part of the graph. Failures of the builder are in the builder's status.
class Call {
 public:
  Call(Import& import, const NodeEntry& node, graph::Builder& builder)
      : import_(import), node_(node), builder_(builder) {}

  Import& import() { return import_; }
  const NodeEntry& node() const { return node_; }
  graph::Builder& builder() { return builder_; }

  std::size_t inputs() const { return node_.inputs.size(); }
  bool has(std::size_t index) const { return index < inputs() && !node_.inputs[index].empty(); }
  // kInvalidArgument if there is none, here and below.
  Result<Value> input(std::size_t index) const;
  Result<graph::Expr> plain(std::size_t index);  // in ONNX's order
  Result<graph::Expr> image(std::size_t index);  // [N, H, W, C]
  // Whole numbers, or one real, that must be known by now: kUnimplemented if they are not.
  Result<Dims> wholes(std::size_t index) const;
  Result<double> real(std::size_t index) const;

  std::int64_t attribute(std::string_view name, std::int64_t fallback) const;
  double attribute(std::string_view name, double fallback) const;
  std::string attribute(std::string_view name, const char* fallback) const;
  Dims attribute(std::string_view name, const Dims& fallback) const;
  // Of later operator sets an input, of earlier ones an attribute.
  Result<Dims> wholes(std::size_t index, std::string_view name, const Dims& fallback) const;

  Result<graph::Expr> plain_of(const Value& value);
  // With fewer dimensions than 4, ones are put before them, as broadcasting does.
  Result<graph::Expr> image_of(const Value& value);
  // The same, unless the builder has noted a failure.
  Result<graph::Expr> checked(graph::Expr expr) const;

  // A variable that begins with the known value, moved.
  Result<graph::Expr> weight(const Value& value, const Move& move);
  Result<graph::Expr> weight(const Value& value);  // as it is
  // A variable made of several; `use` says how.
  using Make = std::function<Result<tensor::Tensor>()>;
  Result<graph::Expr> weight(const std::string& name, const Dims& dims, const std::string& use,
                             const Make& make);

  // Output 0 is what the conversion returns; others are given.
  bool wanted(std::size_t output) const;
  void give(std::size_t output, Value value);

 private:
  Import& import_;
  const NodeEntry& node_;
  graph::Builder& builder_;
};

using Convert = Result<Value> (*)(Call&);
struct Operator {
  std::string_view name;
  Convert convert;
  bool folds = false;  // of known inputs the output is known
};
std::span<const Operator> layer_operators();
std::span<const Operator> element_operators();
std::span<const Operator> shape_operators();
std::span<const Operator> recurrent_operators();

// Dimensions by their place, -1 the last. kInvalidArgument for one that there is not.
Result<Dims> axes_in(const Dims& axes, std::size_t rank);

}  // namespace ferry::models::onnx
