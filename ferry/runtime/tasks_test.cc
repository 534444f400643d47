// Two tasks, each with a device of its own, over every way that a tensor can cross.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "ferry/runtime/drawn_ops_internal.h"
#include "ferry/runtime/executor.h"
#include "ferry/runtime/ferry_rendezvous.h"

namespace ferry::runtime {
namespace {

using drawn::floats;
using drawn::values_of;
using Copies = FerryRendezvous::Copies;
using Floats = std::vector<float>;

const std::string kServer = "/job:ps/task:0";
const std::string kClient = "/job:worker/task:0";

Deadline in_a_minute() { return Deadline::after(std::chrono::seconds(60)); }

// One task: its device, its part, its executor.
class Task {
 public:
  Task(std::string name, const std::string& provider)
      : name_(std::move(name)), device_(open_device(provider)) {}

  std::string endpoint() const { return device_.endpoint(); }
  Variables& variables() { return variables_; }

  Status prepare(const graph::Partition& cut, const Links::Endpoints& endpoints, Copies copies,
                 const std::string& fetch = "") {
    links_ = std::make_unique<Links>(device_, name_, "drawn", endpoints);
    rendezvous_ = std::make_unique<FerryRendezvous>(*links_, copies);
    FERRY_TRY(rendezvous_->open(cut, name_, in_a_minute()));
    for (const auto& part : cut.parts)
      if (part.task == name_) part_ = &part.graph;
    for (const auto& node : part_->nodes())
      if (node.op->name == "Variable") FERRY_TRY(assign(node.name, Floats(1000, 64)));
    ExecutorOptions options;
    if (!fetch.empty()) options.fetches = {{*part_->find(fetch), 0}};
    executor_ = FERRY_TRY(Executor::open(*part_, variables_, rendezvous_.get(), options));
    return {};
  }
  Result<std::vector<tensor::Tensor>> run(std::uint64_t step, std::span<const Feed> feeds = {}) {
    return executor_->run(step, feeds, in_a_minute());
  }
  ExecutorStats stats() const { return executor_->stats(); }
  CrossingStats crossings() const { return rendezvous_->stats(); }
  // What was ever allocated for transfer, registered, and allocated for values.
  std::vector<std::uint64_t> memory() const {
    const auto memory = device_.stats().memory;
    return {memory.allocations, memory.registrations, executor_->stats().blocks};
  }

 private:
  Status assign(const std::string& name, const Floats& values) {
    auto* variable = FERRY_TRY(variables_.add(name));
    return variable->assign(floats(values), rendezvous_->shared_variable(name), in_a_minute());
  }
  static fabric::Device open_device(const std::string& provider) {
    fabric::Options options;
    options.provider = provider;
    options.secret = "two tasks of one test";
    auto device = fabric::Device::open(options);
    FERRY_ASSERT(device.has_value(), device ? "" : device.error().to_string());
    return *std::move(device);
  }

  const std::string name_;
  fabric::Device device_;
  Variables variables_;
  std::unique_ptr<Links> links_;
  std::unique_ptr<FerryRendezvous> rendezvous_;
  const graph::Graph* part_ = nullptr;
  std::unique_ptr<Executor> executor_;
};

void expect_well(const Status& status) {
  EXPECT_TRUE(status) << (status ? "" : status.error().to_string());
}

struct Path {
  std::string provider;
  Copies copies;
};

class TwoTasks : public ::testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    drawn::register_all();
    server = std::make_unique<Task>(kServer, GetParam().provider);
    client = std::make_unique<Task>(kClient, GetParam().provider);
  }
  bool maps() const { return GetParam().provider == "shm" && GetParam().copies == Copies::kNone; }

  graph::Partition cut() {
    auto made = graph::partition(
        drawing.graph, {.maps = [this](const std::string&, const std::string&) { return maps(); }});
    EXPECT_TRUE(made) << made.error().to_string();
    return *std::move(made);
  }
  // What each task does, at the same time; both are prepared first.
  void play(const graph::Partition& made, const std::string& fetch,
            const std::function<void(Task&)>& at_server,
            const std::function<void(Task&)>& at_client) {
    const Links::Endpoints endpoints = {{kServer, server->endpoint()},
                                        {kClient, client->endpoint()}};
    std::thread other([&] {
      expect_well(server->prepare(made, endpoints, GetParam().copies));
      at_server(*server);
    });
    expect_well(client->prepare(made, endpoints, GetParam().copies, fetch));
    at_client(*client);
    other.join();
  }

  drawn::Drawing drawing;
  std::unique_ptr<Task> server;
  std::unique_ptr<Task> client;
};

constexpr std::uint64_t kSteps = 20;
constexpr std::uint64_t kWarmSteps = 4;

//  server: w ----> client: a = 2 w, g = a + x ----> server: w - g / 8
TEST_P(TwoTasks, TrainAVariable) {
  const auto w = drawing.source("Variable", "w", 1000, kServer);
  const auto x = drawing.source("Input", "x", 1000, kClient);
  const auto a = drawing.node("Twice", "a", {w}, kClient);
  const auto g = drawing.node("Pair", "g", {a, x}, kClient);
  drawing.node("Descend", "update", {w, g}, kServer);
  Floats expected(1000, 64);
  play(
      cut(), "g",
      [&](Task& task) {
        std::vector<std::uint64_t> warm;
        for (std::uint64_t step = 1; step <= kSteps; ++step) {
          EXPECT_TRUE(task.run(step)) << step;
          if (step == kWarmSteps) warm = task.memory();
        }
        EXPECT_EQ(task.memory(), warm);
      },
      [&](Task& task) {
        const std::vector<Feed> feeds = {{"x", floats(Floats(1000, 8))}};
        std::vector<std::uint64_t> warm;
        for (std::uint64_t step = 1; step <= kSteps; ++step) {
          if (step == kWarmSteps) warm = task.memory();
          const auto fetched = task.run(step, feeds);
          ASSERT_TRUE(fetched) << fetched.error().to_string();
          EXPECT_EQ(values_of(fetched->front()), Floats(1000, 2 * expected[0] + 8)) << step;
          for (auto& value : expected) value -= (2 * value + 8) / 8;
        }
        EXPECT_EQ(task.memory(), warm);
      });
  EXPECT_EQ(values_of((*server->variables().find("w"))->read()), expected);
  const auto sent = client->crossings();
  EXPECT_EQ(sent.tensors, kSteps);
  EXPECT_EQ(sent.bytes, kSteps * 4000);
  if (GetParam().copies == Copies::kNone) {
    EXPECT_EQ(sent.copies, 0U);
    EXPECT_EQ(client->stats().sites_in_place, 1U);
    EXPECT_EQ(client->stats().traced_steps, 1U);
    // All but the traced one.
    if (maps()) {
      EXPECT_GE(sent.in_place, kSteps - 1);
    }
  } else {
    EXPECT_GE(sent.copies, kSteps);
  }
}

//  client: x -> a (in place) -> b (in place) ----> server
TEST_P(TwoTasks, PlaceAnInPlaceChain) {
  const auto x = drawing.source("Input", "x", 256, kClient);
  const auto a = drawing.node("Twice", "a", {x}, kClient);
  const auto b = drawing.node("Twice", "b", {a}, kClient);
  const auto c = drawing.node("Twice", "c", {b}, kServer);
  play(
      cut(), "b",
      [&](Task& task) {
        for (std::uint64_t step = 1; step <= kSteps; ++step) EXPECT_TRUE(task.run(step));
      },
      [&](Task& task) {
        for (std::uint64_t step = 1; step <= kSteps; ++step) {
          const std::vector<Feed> feeds = {{"x", floats(Floats(256, static_cast<float>(step)))}};
          const auto fetched = task.run(step, feeds);
          ASSERT_TRUE(fetched) << fetched.error().to_string();
          EXPECT_EQ(values_of(fetched->front()), Floats(256, 4 * static_cast<float>(step)));
        }
      });
  ASSERT_NE(c.node, 0U);
  if (GetParam().copies == Copies::kNone) {
    EXPECT_EQ(client->stats().sites_in_place, 1U);
  }
}

//  client: x -> a -> moody ----> server: what is sent is a's buffer in odd steps, moody's in even
//  ones
TEST_P(TwoTasks, TraceAgainAfterASurprise) {
  const auto x = drawing.source("Input", "x", 64, kClient);
  const auto a = drawing.node("Twice", "a", {x}, kClient);
  const auto moody = drawing.node("Moody", "moody", {a}, kClient);
  drawing.node("Twice", "c", {moody}, kServer);
  play(
      cut(), "moody",
      [&](Task& task) {
        for (std::uint64_t step = 1; step <= kSteps; ++step) EXPECT_TRUE(task.run(step));
      },
      [&](Task& task) {
        for (std::uint64_t step = 1; step <= kSteps; ++step) {
          const std::vector<Feed> feeds = {{"x", floats(Floats(64, static_cast<float>(step)))}};
          const auto fetched = task.run(step, feeds);
          ASSERT_TRUE(fetched) << fetched.error().to_string();
          EXPECT_EQ(values_of(fetched->front()), Floats(64, 2 * static_cast<float>(step)));
        }
      });
  if (GetParam().copies == Copies::kNone) {
    EXPECT_GT(client->stats().traced_steps, 1U);
  }
}

//  client: x (of any length) -> a ----> server: c
TEST_P(TwoTasks, CarryShapesThatVary) {
  const auto x = drawing.source("Input", "x", tensor::Shape::kUnknown, kClient);
  const auto a = drawing.node("Twice", "a", {x}, kClient);
  drawing.node("Twice", "c", {a}, kServer);
  const auto made = cut();
  EXPECT_EQ(made.crossings[0].protocol, graph::TransferProtocol::kDynamic);
  play(
      made, "a",
      [&](Task& task) {
        for (std::uint64_t step = 1; step <= kSteps; ++step) EXPECT_TRUE(task.run(step));
      },
      [&](Task& task) {
        for (std::uint64_t step = 1; step <= kSteps; ++step) {
          const Floats values(step * 777 % 5000, static_cast<float>(step));
          const std::vector<Feed> feeds = {{"x", floats(values)}};
          const auto fetched = task.run(step, feeds);
          ASSERT_TRUE(fetched) << fetched.error().to_string();
        }
      });
  EXPECT_EQ(client->crossings().tensors, kSteps);
}

TEST_P(TwoTasks, NameTheTaskThatIsGone) {
  const auto x = drawing.source("Input", "x", 16, kServer);
  const auto a = drawing.node("Twice", "a", {x}, kServer);
  drawing.node("Twice", "b", {a}, kClient);
  play(
      cut(), "", [&](Task&) { server.reset(); },
      [&](Task& task) {
        const auto run = task.run(1);
        ASSERT_FALSE(run);
        EXPECT_EQ(run.error().code(), Code::kUnavailable) << run.error().to_string();
        EXPECT_NE(run.error().message().find(kServer), std::string::npos) << run.error().message();
      });
}

INSTANTIATE_TEST_SUITE_P(All, TwoTasks,
                         ::testing::Values(Path{"shm", Copies::kNone}, Path{"shm", Copies::kSender},
                                           Path{"shm", Copies::kBoth}, Path{"tcp", Copies::kNone},
                                           Path{"tcp", Copies::kBoth}, Path{"fake", Copies::kNone}),
                         [](const auto& test) {
                           const auto copies = test.param.copies;
                           return test.param.provider + (copies == Copies::kNone ? "ZeroCopy"
                                                         : copies == Copies::kSender
                                                             ? "SenderCopies"
                                                             : "BothCopy");
                         });

}  // namespace
}  // namespace ferry::runtime
