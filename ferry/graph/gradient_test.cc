#include "ferry/graph/gradient.h"

#include <gtest/gtest.h>

#include "ferry/graph/functions.h"

namespace ferry::graph {
namespace {

using tensor::ElementType;

tensor::Spec tensor_of(std::initializer_list<std::int64_t> dims,
                       ElementType type = ElementType::kF32) {
  return {type, *tensor::Shape::of(dims)};
}

// A formula as text, from an expression back to what has no inputs: "Mul(OnesLike(loss), b)".
std::string formula_of(Expr expr) {
  if (!expr) return "none";
  auto& graph = expr.builder()->graph();
  const auto& node = graph.node(expr.output().node);
  if (node.inputs.empty() || node.name == "loss") return node.name;
  std::string text;
  for (const auto& input : node.inputs)
    text += (text.empty() ? "" : ", ") + formula_of({expr.builder(), input});
  const auto index = expr.output().index;
  return fmt::format("{}({}){}", node.op->name, text, index == 0 ? "" : fmt::format(":{}", index));
}

std::size_t count_of(const Graph& graph, std::string_view op) {
  std::size_t count = 0;
  for (const auto& node : graph.nodes()) count += node.op->name == op ? 1 : 0;
  return count;
}

class Gradients : public testing::Test {
 protected:
  Expr var(const std::string& name, std::initializer_list<std::int64_t> dims) {
    return builder.variable(name, tensor_of(dims));
  }
  std::vector<Expr> of(Expr loss, std::vector<Expr> exprs) { return gradients(loss, exprs); }
  Code code() const { return builder.status() ? Code::kOk : builder.status().error().code(); }

  Graph graph;
  Builder builder{graph};
};

// a --> Mul --> Sum
// b --/
TEST_F(Gradients, AreFormulas) {
  const auto a = var("a", {2});
  const auto b = var("b", {2});
  const auto loss = builder.add("Sum", {a * b}, {}, "loss");
  const auto found = of(loss, {a, b});
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_EQ(formula_of(found[0]), "Mul(BroadcastTo(Reshape(OnesLike(loss)), Mul(a, b)), b)");
  EXPECT_EQ(formula_of(found[1]), "Mul(BroadcastTo(Reshape(OnesLike(loss)), Mul(a, b)), a)");
  EXPECT_EQ(found[0].spec(), a.spec());
}

// x --> MatMul --> Sum     x is fed: nobody asks for its gradient.
// w --/
TEST_F(Gradients, FlowOnlyWhereTheyAreWanted) {
  const auto x = builder.input("x", tensor_of({-1, 3}));
  const auto w = var("w", {3, 4});
  const auto found = of(sum(matmul(x, w)), {w});
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_EQ(count_of(graph, "MatMul"), 2U);
  EXPECT_EQ(found[0].spec(), w.spec());
}

// w --> Square --> AddN --> Sum
//  +--> Exp -----/ /
//  +--> Neg ------/
TEST_F(Gradients, OfSeveralUsersAreAddedFromTheLastToTheFirst) {
  const auto w = var("w", {2});
  const auto loss = sum(add_n({square(w), exp(w), -w}));
  const auto found = of(loss, {w});
  EXPECT_EQ(code(), Code::kOk);
  const auto& node = graph.node(found[0].output().node);
  ASSERT_EQ(node.op->name, "AddN");
  ASSERT_EQ(node.inputs.size(), 3U);
  EXPECT_EQ(graph.node(node.inputs[0].node).op->name, "Neg");
  EXPECT_EQ(graph.node(node.inputs[1].node).op->name, "Mul");
  EXPECT_EQ(graph.node(node.inputs[2].node).op->name, "Scale");
}

// w --> StopGradient --> Mul --> Sum
//  \--------------------/
TEST_F(Gradients, StopWhereTheyAreTold) {
  const auto w = var("w", {2});
  const auto found = of(sum(stop_gradient(w) * w), {w});
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_EQ(graph.node(found[0].output().node).op->name, "Mul");
  const auto none = of(sum(stop_gradient(w)), {w});
  EXPECT_EQ(graph.node(none[0].output().node).op->name, "ZerosLike");
  EXPECT_FALSE(flows_to(sum(stop_gradient(w)), std::vector{w})[0]);
}

TEST_F(Gradients, AreOfAScalar) {
  const auto w = var("w", {2});
  of(builder.add("Neg", {w}, {}, "n"), {w});
  EXPECT_EQ(code(), Code::kInvalidArgument);
  EXPECT_EQ(builder.status().error().message(), "gradients are of a scalar, and 'n' is f32[2]");
}

TEST_F(Gradients, DoNotFlowThroughWhatHasNone) {
  const auto w = var("w", {2, 3});
  const auto labels = builder.input("labels", tensor_of({2}, ElementType::kI32));
  of(accuracy(w, labels), {w});
  EXPECT_EQ(code(), Code::kUnimplemented);
  EXPECT_EQ(builder.status().error().message(),
            "node 'Accuracy': no gradient flows back through Accuracy");
}

TEST_F(Gradients, DoNotFlowThroughStatistics) {
  const auto x = var("x", {2, 3});
  const auto c = var("c", {3});
  of(sum(batch_norm(x, c, c).at(1)), {x});
  EXPECT_EQ(code(), Code::kUnimplemented);
}

// x [?, 3] + b [3]: b was broadcast, and so its gradient is summed.
TEST_F(Gradients, UndoBroadcasting) {
  const auto x = builder.input("x", tensor_of({-1, 3}));
  const auto b = var("b", {3});
  const auto found = of(mean(x + b), {b});
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_EQ(graph.node(found[0].output().node).op->name, "SumTo");
  EXPECT_EQ(found[0].spec(), b.spec());
}

// The size of the batch is known only in the step: the mean's share comes from a sum of ones.
TEST_F(Gradients, OfAMeanOverAnUnknownBatch) {
  const auto w = var("w", {3, 1});
  const auto loss = mean(matmul(builder.input("x", tensor_of({-1, 3})), w));
  EXPECT_EQ(of(loss, {w})[0].spec(), w.spec());
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_EQ(count_of(graph, "Div"), 1U);
}

TEST_F(Gradients, ArePlacedWithWhatTheyAreOf) {
  const auto w = var("w", {2});
  graph.place(w.output().node, "/job:ps/task:0");
  Expr loss;
  {
    const auto on = builder.on("/job:worker/task:1");
    loss = sum(square(w) + exp(w));
  }
  const auto found = of(loss, {w});
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_EQ(graph.node(found[0].output().node).op->name, "AddN");
  EXPECT_EQ(graph.node(found[0].output().node).task, "/job:worker/task:1");
}

// Every operator with a gradient, in one expression that has the shape of its variable back.
TEST_F(Gradients, HaveTheShapeOfWhatTheyAreOf) {
  const auto labels = builder.input("labels", tensor_of({-1}, ElementType::kI32));
  const auto x = builder.input("x", tensor_of({-1, 8, 8, 3}));
  const auto w = var("w", {3, 3, 3, 4});
  const auto scale = var("scale", {4});
  const auto shift = var("shift", {4});
  const auto w2 = var("w2", {64, 10});
  auto h = conv2d(x, w, {.pads = same_pads(x, {3, 3})});
  h = lrn(relu(batch_norm(h, scale, shift)));
  h = avg_pool(max_pool(h, {2, 2}, {.strides = {1, 1}}), {1, 1}, {});
  h = slice(h, {0, 0, 0, 0}, {-1, 4, 4, -1});
  h = transpose(concat({h, max(h, {1}, true)}, 1), {0, 1, 2, 3});
  h = reshape(slice(h, {0, 1, 0, 0}, {-1, 4, 4, 4}), {-1, 64});
  h = dropout(sigmoid(tanh(maximum(h, -h))) / sqrt(square(h) + ones_like(h)), 0.5, 7);
  h = log(exp(softmax(matmul(h, w2)))) - mean(h, {1}, true);
  h = cast(cast(h, ElementType::kF64), ElementType::kF32);
  const auto loss = mean(softmax_cross_entropy(h, labels));
  const std::vector<Expr> wanted = {w, scale, shift, w2};
  const auto found = of(loss, wanted);
  ASSERT_TRUE(builder.status()) << builder.status().error().to_string();
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(found[i].spec(), wanted[i].spec());
}

// x0 -> cell -> cell -> Mean     the same weights in both steps
TEST_F(Gradients, OfCellsFlowThroughBothStates) {
  const auto x = builder.input("x", tensor_of({-1, 3}));
  const auto w = var("w", {7, 16});
  const auto b = var("b", {16});
  const auto zero = builder.input("zero", tensor_of({-1, 4}));
  auto state = lstm_cell(x, {zero, zero}, w, b);
  state = lstm_cell(x, state, w, b);
  const auto found = of(mean(state.h), {w, b});
  ASSERT_TRUE(builder.status()) << builder.status().error().to_string();
  EXPECT_EQ(count_of(graph, "LstmCellGrad"), 2U);
  EXPECT_EQ(count_of(graph, "ZerosLike"), 1U);
  EXPECT_EQ(found[0].spec(), w.spec());
  EXPECT_EQ(graph.node(found[1].output().node).op->name, "AddN");
  const auto u = var("u", {7, 12});
  const auto gru = mean(gru_cell(x, zero, u, var("c", {12})));
  EXPECT_EQ(of(gru, {u})[0].spec(), u.spec());
}

TEST_F(Gradients, OfATableAreSparseUntilFlowsMeet) {
  const auto table = var("table", {100, 4});
  const auto ids = builder.input("ids", tensor_of({-1}, ElementType::kI32));
  const auto one = of(sum(embedding(table, ids)), {table});
  EXPECT_TRUE(is_sparse(one[0]));
  EXPECT_EQ(dense(one[0], table).spec(), table.spec());
  const auto two = of(sum(embedding(table, ids) * embedding(table, ids)), {table});
  ASSERT_TRUE(builder.status()) << builder.status().error().to_string();
  EXPECT_FALSE(is_sparse(two[0]));
  EXPECT_EQ(two[0].spec(), table.spec());
  const auto scaled = of(sum(embedding(table * 2.0, ids)), {table});
  EXPECT_EQ(graph.node(scaled[0].output().node).op->name, "Scale");
  EXPECT_EQ(scaled[0].spec(), table.spec());
}

}  // namespace
}  // namespace ferry::graph
