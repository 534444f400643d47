#include "ferry/graph/optimizer.h"

#include <gtest/gtest.h>

#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"

namespace ferry::graph {
namespace {

using tensor::ElementType;

class Updates : public testing::Test {
 protected:
  Updates() {
    w = builder.variable("w", {ElementType::kF32, *tensor::Shape::of({9, 4})});
    ids = builder.input("ids", {ElementType::kI32, *tensor::Shape::of({-1})});
    rate = builder.constant(0.1F, "rate");
    graph.place(w.output().node, "/job:ps/task:0");
  }
  const Node& node(Expr expr) const { return graph.node(expr.output().node); }
  // The names of a node's inputs.
  std::vector<std::string> inputs(Expr expr) const {
    std::vector<std::string> names;
    for (const auto& input : node(expr).inputs) names.push_back(graph.node(input.node).name);
    return names;
  }
  Expr flow(Expr loss) { return gradients(loss, std::vector{w})[0]; }

  Graph graph;
  Builder builder{graph};
  Expr w, ids, rate;
};

TEST_F(Updates, StayWithTheirVariable) {
  const std::vector<Expr> both = {flow(sum(w)), flow(sum(square(w)))};
  const auto done = apply_gradients(Optimizer::sgd(), w, rate, both, 0.5);
  ASSERT_TRUE(builder.status()) << builder.status().error().to_string();
  EXPECT_EQ(node(done).op->name, "ApplySgd");
  EXPECT_EQ(node(done).task, "/job:ps/task:0");
  EXPECT_EQ(node(done).inputs.size(), 4U);
  EXPECT_EQ(*node(done).attributes.get<double>("scale"), 0.5);
}

TEST_F(Updates, ShareTheirSlots) {
  const std::vector<Expr> one = {flow(sum(square(w)))};
  const auto first = apply_gradients(Optimizer::adam(), w, rate, one);
  const auto second = apply_gradients(Optimizer::adam(), w, rate, one);
  ASSERT_TRUE(builder.status()) << builder.status().error().to_string();
  EXPECT_EQ(inputs(first), inputs(second));
  EXPECT_EQ(inputs(first)[1], "w/m");
  EXPECT_EQ(inputs(first)[3], "w/t");
  EXPECT_EQ(graph.node(*graph.find("w/v")).task, "/job:ps/task:0");
  const auto third = apply_gradients(Optimizer::with_momentum(), w, rate, one);
  EXPECT_EQ(inputs(third)[1], "w/velocity");
}

TEST_F(Updates, StaySparseForPlainSgdAlone) {
  const auto sparse = flow(sum(embedding(w, ids)));
  const auto whole = flow(sum(square(w)));
  const std::vector<Expr> two = {sparse, sparse};
  EXPECT_EQ(node(apply_gradients(Optimizer::sgd(), w, rate, two)).op->name, "ApplySgdSparse");
  const std::vector<Expr> mixed = {sparse, whole};
  EXPECT_EQ(node(apply_gradients(Optimizer::sgd(), w, rate, mixed)).op->name, "ApplySgd");
  const auto adam = apply_gradients(Optimizer::adam(), w, rate, two);
  ASSERT_TRUE(builder.status()) << builder.status().error().to_string();
  const auto& densified = graph.node(node(adam).inputs[5].node);
  EXPECT_EQ(densified.op->name, "Densify");
  EXPECT_EQ(densified.task, "/job:ps/task:0");
}

TEST_F(Updates, AreOfVariables) {
  assign(relu(w), w);
  ASSERT_FALSE(builder.status());
  EXPECT_EQ(builder.status().error().message(),
            "node 'Relu/Assign' (Assign) updates its input 0, and 'Relu' (Relu) is no variable");
}

TEST_F(Updates, KeepAverages) {
  const auto done = update_average(w, square(w), 0.9);
  ASSERT_TRUE(builder.status()) << builder.status().error().to_string();
  EXPECT_EQ(node(done).name, "w/UpdateAverage");
  EXPECT_EQ(node(done).op->updates, 1U);
  EXPECT_TRUE(node(done).op->stateful);
}

}  // namespace
}  // namespace ferry::graph
