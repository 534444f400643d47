#include "ferry/runtime/executor.h"

#include <gtest/gtest.h>

#include <thread>

#include "ferry/runtime/drawn_ops_internal.h"

namespace ferry::runtime {
namespace {

using drawn::floats;
using drawn::values_of;
using Floats = std::vector<float>;

Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

class Executors : public ::testing::Test {
 protected:
  void SetUp() override { drawn::register_all(); }

  std::unique_ptr<Executor> executor_for(std::vector<graph::Output> fetches) {
    auto made = Executor::open(drawing.graph, variables, nullptr, {.fetches = std::move(fetches)});
    EXPECT_TRUE(made) << made.error().to_string();
    return made ? *std::move(made) : nullptr;
  }
  Floats run(Executor& executor, std::uint64_t step, const Floats& x) {
    const std::vector<Feed> feeds = {{"x", floats(x)}};
    auto fetched = executor.run(step, feeds, soon());
    EXPECT_TRUE(fetched) << fetched.error().to_string();
    return fetched ? values_of(fetched->front()) : Floats();
  }

  drawn::Drawing drawing;
  Variables variables;
};

//  x -> a -> b -> c
TEST_F(Executors, RunAChainInPlace) {
  const auto x = drawing.source("Input", "x", 2);
  const auto a = drawing.node("Twice", "a", {x});
  const auto b = drawing.node("Twice", "b", {a});
  const auto c = drawing.node("Twice", "c", {b});
  auto executor = executor_for({c});
  EXPECT_EQ(run(*executor, 1, {1, 2}), (Floats{8, 16}));
  EXPECT_EQ(run(*executor, 2, {3, 4}), (Floats{24, 32}));
  EXPECT_EQ(executor->stats().blocks, 1U);  // of all three, and of both steps
}

//  x -> a -+-> b --+-> d        the feed is not written to, nor is a: both use it
//          +-> c --+
TEST_F(Executors, KeepWhatOthersStillUse) {
  const auto x = drawing.source("Input", "x", 1);
  const auto a = drawing.node("Twice", "a", {x});
  const auto b = drawing.node("Twice", "b", {a});
  const auto c = drawing.node("Twice", "c", {a});
  const auto d = drawing.node("Pair", "d", {b, c});
  const auto both = drawing.node("Pair", "both", {d, x});
  auto executor = executor_for({both});
  for (std::uint64_t step = 1; step <= 3; ++step) EXPECT_EQ(run(*executor, step, {5}), Floats{45});
}

//  x -> a -> view -> b, and a -> c: c must not write over what b reads through the view
TEST_F(Executors, SeeViews) {
  const auto x = drawing.source("Input", "x", 1);
  const auto a = drawing.node("Twice", "a", {x});
  const auto view = drawing.node("View", "view", {a});
  const auto c = drawing.node("Twice", "c", {a});
  const auto b = drawing.node("Pair", "b", {view, c});
  auto executor = executor_for({b});
  for (std::uint64_t step = 1; step <= 3; ++step) EXPECT_EQ(run(*executor, step, {1}), Floats{6});
}

TEST_F(Executors, UpdateVariables) {
  const auto x = drawing.source("Input", "x", 1);
  const auto w = drawing.source("Variable", "w", 1);
  const auto updated = drawing.node("Descend", "updated", {w, x});
  ASSERT_TRUE((*variables.add("w"))->assign(floats({100}), nullptr, soon()));
  auto executor = executor_for({updated});
  EXPECT_EQ(run(*executor, 1, {8}), Floats{99});
  EXPECT_EQ(run(*executor, 2, {16}), Floats{97});
  EXPECT_EQ(values_of((*variables.find("w"))->read()), Floats{97});
}

//  x -> late, and x -> a: a does not wait for late
// Two loops of one task update its variable whenever they come to it. In each step the gradient is
// late, so that the other loop has often updated the variable that the step began with.
TEST_F(Executors, OfTwoLoopsLoseNoUpdate) {
  const auto w = drawing.source("Variable", "w", 64);
  const auto x = drawing.source("Input", "x", 64);
  const auto late = drawing.node("Late", "late", {x}, "", {{"ms", 1}});
  drawing.node("Descend", "updated", {w, late});
  Variables shared(make_ordinary_block, true);
  ASSERT_TRUE((*shared.add("w"))->assign(floats(Floats(64, 0)), nullptr, soon()));
  constexpr std::uint64_t kSteps = 100;
  const auto loop = [&] {
    auto executor = Executor::open(drawing.graph, shared, nullptr, {});
    ASSERT_TRUE(executor) << executor.error().to_string();
    const std::vector<Feed> feeds = {{"x", floats(Floats(64, -8))}};
    for (std::uint64_t step = 1; step <= kSteps; ++step)
      ASSERT_TRUE((*executor)->run(step, feeds, soon())) << step;
  };
  std::thread other(loop);
  loop();
  other.join();
  EXPECT_EQ(values_of((*shared.find("w"))->read()), Floats(64, 2 * kSteps));
}

TEST_F(Executors, PollWithoutHoldingOthersUp) {
  const auto x = drawing.source("Input", "x", 1);
  const auto late = drawing.node("Late", "late", {x}, "", {{"ms", 30}});
  const auto a = drawing.node("Twice", "a", {x});
  const auto b = drawing.node("Pair", "b", {late, a});
  auto executor = executor_for({b});
  EXPECT_EQ(run(*executor, 1, {2}), Floats{6});
  EXPECT_GT(executor->stats().waits, 0U);
}

TEST_F(Executors, NameWhatAStepWaitsFor) {
  const auto x = drawing.source("Input", "x", 1);
  const auto late = drawing.node("Late", "late", {x}, "", {{"ms", 60'000}});
  auto executor = executor_for({late});
  const std::vector<Feed> feeds = {{"x", floats({1})}};
  const auto run = executor->run(1, feeds, Deadline::after(std::chrono::milliseconds(20)));
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code(), Code::kDeadlineExceeded);
  EXPECT_NE(run.error().message().find("'late'"), std::string::npos) << run.error().message();
}

TEST_F(Executors, NameTheNodeThatFails) {
  const auto x = drawing.source("Input", "x", 1);
  auto executor = executor_for({drawing.node("Twice", "a", {x})});
  const auto run = executor->run(1, {}, soon());
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().message().find("node 'x' (Input)"), std::string::npos);
  const auto again = executor->run(2, {}, soon());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Code::kFailedPrecondition);
}

TEST_F(Executors, RefuseGraphsThatCannotRun) {
  drawing.source("Variable", "nowhere", 1);
  const auto w = drawing.source("Variable", "w", 1);
  drawing.node("Descend", "updated", {w, w});
  EXPECT_EQ(Executor::open(drawing.graph, variables, nullptr, {}).error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace ferry::runtime
