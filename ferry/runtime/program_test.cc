#include <gtest/gtest.h>

#include "ferry/graph/partition.h"
#include "ferry/runtime/drawn_ops_internal.h"
#include "ferry/runtime/program_internal.h"

namespace ferry::runtime {
namespace {

// Has every end, and none of them works: programs are made here, not run.
class NoRendezvous final : public Rendezvous {
  class Send final : public SendEnd {
    Result<std::optional<tensor::Tensor>> output(const tensor::Spec&) override { return {}; }
    Result<bool> start(const tensor::Tensor&, std::uint64_t) override { return false; }
    Result<bool> finished() override { return false; }
    bool may_be_ready() const override { return false; }
    CrossingStats stats() const override { return {}; }
  };
  class Receive final : public ReceiveEnd {
    Status expect(std::uint64_t) override { return {}; }
    Result<bool> ready(std::uint64_t) override { return false; }
    bool may_be_ready(std::uint64_t) const override { return false; }
    Result<tensor::Tensor> take() override { return fail(Code::kUnimplemented, "nothing comes"); }
    CrossingStats stats() const override { return {}; }
  };
  Status open(const graph::Partition&, const std::string&, Deadline) override { return {}; }
  SendEnd* send_end(std::uint32_t) override { return &send_; }
  ReceiveEnd* receive_end(std::uint32_t) override { return &receive_; }
  SharedVariable* shared_variable(const std::string&) override { return nullptr; }
  bool wait_until(InlineFunction<bool()>, Deadline) override { return false; }
  Status leave(Deadline) override { return {}; }
  void wake() override {}
  CrossingStats stats() const override { return {}; }

  Send send_;
  Receive receive_;
};

//  ps: w1, w2, w3 -> worker: uses w3, then w1, then w2
TEST(Programs, BeginWithWhatReceiversNeedFirst) {
  drawn::register_all();
  drawn::Drawing drawing;
  constexpr auto kPs = "/job:ps/task:0";
  constexpr auto kWorker = "/job:worker/task:0";
  std::map<std::string, graph::Output> inputs;
  for (const auto* name : {"w1", "w2", "w3"}) inputs[name] = drawing.source("Input", name, 2, kPs);
  for (const auto* name : {"w3", "w1", "w2"})
    drawing.node("Twice", std::string("use-") + name, {inputs[name]}, kWorker);
  const auto cut = graph::partition(drawing.graph);
  ASSERT_TRUE(cut) << cut.error().to_string();
  ASSERT_EQ(cut->parts.front().task, kPs);
  Variables variables;
  NoRendezvous rendezvous;
  const auto program = make_program(cut->parts.front().graph, variables, &rendezvous, {});
  ASSERT_TRUE(program) << program.error().to_string();
  std::vector<std::string> order;
  for (const auto at : program->first) order.push_back(program->items[at].node->name);
  EXPECT_EQ(order, (std::vector<std::string>{"w3", "w1", "w2"}));
}

}  // namespace
}  // namespace ferry::runtime
