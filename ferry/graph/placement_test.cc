#include "ferry/graph/placement.h"

#include <gtest/gtest.h>

#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/graph/optimizer.h"

namespace ferry::graph {
namespace {

const tensor::Spec kTwo{tensor::ElementType::kF32, *tensor::Shape::of({2})};

TEST(Tasks, HaveNames) {
  const auto task = parse_task("/job:ps/task:12");
  ASSERT_TRUE(task);
  EXPECT_EQ(*task, (Task{"ps", 12}));
  EXPECT_EQ(task->to_string(), "/job:ps/task:12");
  for (const auto* odd : {"", "ps", "/job:/task:0", "/job:ps/task:", "/job:ps/task:-1",
                          "/job:ps/task:01", "/job:ps/task:1x", "/job:ps/task:4294967296",
                          "/job:a/b/task:0", "x/job:ps/task:0", "/job:p s/task:0", "/task:0"}) {
    const auto none = parse_task(odd);
    ASSERT_FALSE(none) << odd;
    EXPECT_EQ(none.error().code(), Code::kInvalidArgument);
  }
}

std::string task_named(const Graph& graph, std::string_view name) {
  const auto found = graph.find(name);
  return found ? graph.node(*found).task : "no such node";
}

// w0, w1, w2 -> loss; each is updated, with a slot beside it.
TEST(Placement, TakesTurnsWithVariablesAndKeepsUpdatesBesideThem) {
  Graph graph;
  Builder builder(graph);
  std::vector<Expr> variables;
  for (const auto* name : {"w0", "w1", "w2"}) variables.push_back(builder.variable(name, kTwo));
  const auto loss = sum(variables[0] * variables[1] * variables[2]);
  const auto rate = builder.constant(0.1F);
  const auto flows = gradients(loss, variables);
  for (std::size_t i = 0; i < variables.size(); ++i)
    apply_gradients(Optimizer::with_momentum(), variables[i], rate, std::vector{flows[i]});
  ASSERT_TRUE(builder.status());
  const auto cluster = ClusterSpec::of({{"ps", 2}, {"worker", 1}});
  const auto placed = place(graph, cluster);
  ASSERT_TRUE(placed) << placed.error().to_string();
  EXPECT_EQ(task_named(graph, "w0"), "/job:ps/task:0");
  EXPECT_EQ(task_named(graph, "w1"), "/job:ps/task:1");
  EXPECT_EQ(task_named(graph, "w2"), "/job:ps/task:0");
  EXPECT_EQ(task_named(graph, "w1/velocity"), "/job:ps/task:1");
  EXPECT_EQ(task_named(graph, "w1/ApplyMomentum"), "/job:ps/task:1");
  EXPECT_EQ(task_named(graph, "Sum"), "/job:worker/task:0");
}

TEST(Placement, LeavesWhatIsPlacedAndWorksWithoutServers) {
  Graph graph;
  Builder builder(graph);
  const auto w = builder.variable("w", kTwo);
  graph.place(w.output().node, "/job:worker/task:1");
  builder.variable("v", kTwo);
  assign(w, builder.variable("u", kTwo));
  ASSERT_TRUE(place(graph, ClusterSpec::of({{"worker", 2}})));
  EXPECT_EQ(task_named(graph, "w"), "/job:worker/task:1");
  EXPECT_EQ(task_named(graph, "w/Assign"), "/job:worker/task:1");
  EXPECT_EQ(task_named(graph, "v"), "/job:worker/task:0");
}

TEST(Placement, NamesWhatTheClusterDoesNotHave) {
  Graph graph;
  Builder builder(graph);
  const auto w = builder.variable("w", kTwo);
  const auto cluster = ClusterSpec::of({{"ps", 2}, {"worker", 1}});
  EXPECT_EQ(check_placed(graph, cluster).error().message(),
            "node 'w' (Variable) is on no task; place() puts it on one");
  graph.place(w.output().node, "/job:ps/task:2");
  EXPECT_EQ(check_placed(graph, cluster).error().message(),
            "node 'w' (Variable) is on /job:ps/task:2, and job 'ps' has 2 tasks");
  graph.place(w.output().node, "nowhere");
  const auto placed = place(graph, cluster);
  EXPECT_EQ(placed.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(placed.error().message(),
            "node 'w' (Variable): 'nowhere' is no task, such as /job:ps/task:0");
}

TEST(Placement, KeepsUpdatesWithTheirVariables) {
  Graph graph;
  Builder builder(graph);
  const auto w = builder.variable("w", kTwo);
  const auto done = assign(w, w);
  graph.place(w.output().node, "/job:ps/task:0");
  graph.place(done.output().node, "/job:ps/task:1");
  EXPECT_EQ(check_placed(graph, ClusterSpec::of({{"ps", 2}})).error().message(),
            "node 'w/Assign' (Assign) is on /job:ps/task:1 and updates 'w', which is on "
            "/job:ps/task:0; they belong together");
}

}  // namespace
}  // namespace ferry::graph
