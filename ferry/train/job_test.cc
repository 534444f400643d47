#include "ferry/train/job.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

namespace ferry::train {
namespace {

JobOptions small_job() {
  JobOptions options;
  options.model = "mlp";
  options.batch = 16;
  options.workers = 2;
  options.servers = 2;
  options.steps = 12;
  options.threads = 1;
  return options;
}

std::string onnx_file(const std::string& name) {
  return fmt::format("{}/onnx/{}.onnx", FERRY_TEST_DATA, name);
}

bool has_data() { return std::filesystem::exists("/usr/share/datasets/fashion-mnist"); }

#ifdef __SANITIZE_THREAD__
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

class Jobs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_data()) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  }
  static JobReport run(const JobOptions& options) {
    auto report = run_job(options, {}, {});
    EXPECT_TRUE(report) << report.error().to_string();
    return report ? *std::move(report) : JobReport();
  }
  static void expect_same_bits(const JobReport& a, const JobReport& b) {
    ASSERT_FALSE(a.variables.empty());
    ASSERT_EQ(a.variables.size(), b.variables.size());
    for (const auto& [name, value] : a.variables) {
      const auto& other = b.variables.at(name);
      ASSERT_EQ(value.bytes().size(), other.bytes().size());
      EXPECT_EQ(std::memcmp(value.data(), other.data(), value.bytes().size()), 0) << name;
    }
  }
};

TEST_F(Jobs, OfOneProcessLearn) {
  auto options = small_job();
  options.processes = false;
  options.steps = 40;
  std::vector<double> losses;
  const auto report = run_job(options,
                              [&](const StepReport& step) {
                                if (step.worker == 0) losses.push_back(step.loss.value());
                              },
                              {});
  ASSERT_TRUE(report) << report.error().to_string();
  ASSERT_EQ(losses.size(), 40U);
  EXPECT_LT(losses.back(), losses.front() * 0.7);
}

// With a process for each task.
class JobsOfProcesses : public Jobs {
 protected:
  void SetUp() override {
    if (kThreadSanitizer)
      GTEST_SKIP() << "the thread sanitizer does not follow a process with threads into a fork";
    Jobs::SetUp();
  }
  static void expect_same_bits_over(JobOptions options) {
    options.processes = false;
    const auto expected = run(options);
    options.processes = true;
    for (const auto& [transport, provider] :
         std::vector<std::pair<Transport, std::string>>{{Transport::kFerry, "shm"},
                                                        {Transport::kFerry, "tcp"},
                                                        {Transport::kFerryCopy, "shm"},
                                                        {Transport::kFerryPrivate, "shm"},
                                                        {Transport::kGrpc, "auto"},
                                                        {Transport::kGrpcFerry, "shm"},
                                                        {Transport::kGrpcFerry, "tcp"}}) {
      SCOPED_TRACE(fmt::format("{} over {}", name_of(transport), provider));
      options.transport = transport;
      options.provider = provider;
      expect_same_bits(expected, run(options));
    }
  }
};

TEST_F(JobsOfProcesses, GiveTheSameBitsWhateverTheTransport) { expect_same_bits_over(small_job()); }

// Tensors whose shapes differ from step to step, and gradients of a table's rows.
TEST_F(JobsOfProcesses, GiveTheSameBitsForTextOfAnyLength) {
  if (!std::filesystem::exists("/usr/share/common-licenses"))
    GTEST_SKIP() << "there is no text in /usr/share/common-licenses";
  auto options = small_job();
  options.model = "lstm-text";
  options.batch = 4;
  options.optimizer = graph::Optimizer::adam();
  options.rate = 0.003;
  expect_same_bits_over(options);
  options.model = "gru-text";
  options.optimizer = graph::Optimizer::sgd();
  expect_same_bits_over(options);
}

TEST_F(JobsOfProcesses, SendNothingByCopyInTheSteadyState) {
  const auto report = run(small_job());
  for (const auto& task : report.tasks) {
    EXPECT_EQ(task.crossings.copies, 0U) << task.task;
    EXPECT_EQ(task.executor.traced_steps, 1U) << task.task;
    // All but those of the traced step.
    const auto steady = task.crossings.tensors - task.crossings.tensors / 12;
    EXPECT_GE(task.crossings.in_place, steady) << task.task;
  }
}

// Over shm only gradients are sent, and over tcp the variables too, which lie in registered memory
// from the start. Gradients are in ordinary memory in the traced step alone.
TEST_F(JobsOfProcesses, SendFromRegisteredMemoryOnceTheyAreTraced) {
  auto options = small_job();
  for (const std::string provider : {"shm", "tcp"}) {
    SCOPED_TRACE(provider);
    options.provider = provider;
    runtime::CrossingStats sent;
    std::uint64_t gradients = 0;
    for (const auto& task : run(options).tasks) {
      sent += task.crossings;
      if (task.task.find("worker") != std::string::npos) gradients += task.crossings.tensors;
      ASSERT_EQ(task.registrations.size(), 1U) << task.task;
      EXPECT_EQ(task.registrations[0].provider, provider);
      EXPECT_FALSE(task.registrations[0].hardware);
      EXPECT_GT(task.registrations[0].count, 0U) << "its arenas";
    }
    EXPECT_EQ(sent.registered, sent.tensors - gradients / options.steps);
    EXPECT_GT(sent.transfer_ns, 0U);
  }
  // Copied before they are sent: none is sent from where it was.
  options.transport = Transport::kFerryCopy;
  for (const auto& task : run(options).tasks) EXPECT_EQ(task.crossings.registered, 0U) << task.task;
  options.transport = Transport::kGrpc;
  for (const auto& task : run(options).tasks) {
    EXPECT_EQ(task.crossings.registered, 0U) << task.task;
    EXPECT_TRUE(task.registrations.empty()) << task.task;
  }
}

// In one program, by the argument of each channel and server.
TEST_F(JobsOfProcesses, UseTheEndpointForGrpcOnlyWhereItIsAskedFor) {
  auto options = small_job();
  for (const auto transport : {Transport::kGrpc, Transport::kGrpcFerry, Transport::kGrpc}) {
    options.transport = transport;
    for (const auto& task : run(options).tasks) {
      EXPECT_GT(task.crossings.bytes, 0U);
      if (transport == Transport::kGrpc) {
        EXPECT_EQ(task.crossings.endpoint_bytes, 0U) << task.task;
      } else {
        EXPECT_GE(task.crossings.endpoint_bytes, task.crossings.bytes) << task.task;
      }
    }
  }
}

TEST_F(JobsOfProcesses, GoOnFromACheckpoint) {
  std::string folder = (std::filesystem::temp_directory_path() / "ferry-job-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  auto options = small_job();
  const auto whole = run(options);
  options.checkpoints = folder;
  options.steps = 5;
  run(options);
  options.resume = true;
  options.steps = 7;
  const auto rest = run(options);
  EXPECT_EQ(rest.first_step, 6U);
  expect_same_bits(whole, rest);
  std::filesystem::remove_all(folder);
}

TEST_F(JobsOfProcesses, LearnWithWorkersThatDoNotWaitForEachOther) {
  for (const auto& [transport, provider] : std::vector<std::pair<Transport, std::string>>{
           {Transport::kFerry, "shm"}, {Transport::kFerry, "tcp"}, {Transport::kGrpc, "auto"}}) {
    SCOPED_TRACE(fmt::format("{} over {}", name_of(transport), provider));
    auto options = small_job();
    options.synchronous = false;
    options.optimizer = graph::Optimizer::sgd();
    options.rate = 0.05;
    options.steps = 60;
    options.transport = transport;
    options.provider = provider;
    std::vector<double> losses;
    const auto report = run_job(options,
                                [&](const StepReport& step) {
                                  if (step.worker == 0) losses.push_back(step.loss.value());
                                },
                                {});
    ASSERT_TRUE(report) << report.error().to_string();
    ASSERT_EQ(losses.size(), 60U);
    // Of one that has learnt nothing: log 10. One step's samples may be hard ones.
    const auto late = std::accumulate(losses.end() - 10, losses.end(), 0.0) / 10;
    EXPECT_LT(late, std::log(10) * 0.85);
  }
}

// What steps say of learning is said only where there is learning.
TEST_F(JobsOfProcesses, SayNoLossOfEmulatedStepsAndNoAccuracyOfRandomLabels) {
  struct Case {
    std::string model;
    bool emulate = false;
    bool loss = false;
    bool accuracy = false;
    std::size_t sentences = 0;
  };
  for (const auto& one : std::vector<Case>{{"mlp", false, true, true, 0},
                                           {"mlp-2048", false, true, true, 0},
                                           {onnx_file("resnet"), false, true, false, 1},
                                           {"fcn-5", true, false, false, 1}}) {
    SCOPED_TRACE(one.model);
    auto options = small_job();
    options.model = one.model;
    options.emulate = one.emulate;
    options.batch = 4;
    options.servers = 1;
    options.steps = 2;
    options.take_variables = false;
    const auto report = run(options);
    for (const auto& last : report.last) {
      EXPECT_EQ(last.loss.has_value(), one.loss);
      EXPECT_EQ(last.accuracy.has_value(), one.accuracy);
    }
    EXPECT_EQ(report.made_up.size(), one.sentences);
    EXPECT_EQ(report.emulated, one.emulate);
  }
}

TEST_F(JobsOfProcesses, EmulateTheSameWeightsWhateverTheTransport) {
  auto options = small_job();
  options.model = "fcn-5";
  options.emulate = true;
  options.steps = 3;
  const auto expected = run(options);
  for (const auto transport : {Transport::kFerryCopy, Transport::kGrpc}) {
    options.transport = transport;
    expect_same_bits(expected, run(options));
  }
}

// Nobody leaves while others still touch its memory.
TEST_F(JobsOfProcesses, OfOneStepEndWell) {
  auto options = small_job();
  options.steps = 1;
  for (int turn = 0; turn < 4; ++turn)
    for (const auto transport : {Transport::kFerry, Transport::kFerryCopy}) {
      options.transport = transport;
      run(options);
    }
}

TEST_F(JobsOfProcesses, SayThatTheLossIsNoNumber) {
  auto options = small_job();
  options.rate = 1e30;
  options.steps = 50;
  const auto report = run_job(options, {}, {});
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message().find("the loss is"), std::string::npos)
      << report.error().message();
  EXPECT_NE(report.error().message().find("/job:worker/"), std::string::npos);
}

TEST_F(JobsOfProcesses, EndWhenTold) {
  auto options = small_job();
  options.steps = 1'000'000;
  int seen = 0;
  const auto report = run_job(
      options, [&](const StepReport&) { ++seen; }, [&] { return seen > 10; });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::kCancelled);
}

TEST(JobsOfFiles, BeginWithTheWeightsInThem) {
  for (const auto* name : {"resnet", "lstm"}) {
    auto options = small_job();
    options.model = onnx_file(name);
    options.processes = false;
    options.steps = 2;
    options.rate = 0;
    const auto report = run_job(options, {}, {});
    ASSERT_TRUE(report) << report.error().to_string();
    const auto plan = plan_job(options);
    ASSERT_TRUE(plan);
    ASSERT_FALSE(plan->model.initial.empty());
    for (const auto& [variable, value] : plan->model.initial) {
      const auto& after = report->variables.at(variable);
      ASSERT_EQ(value.spec(), after.spec()) << variable;
      EXPECT_EQ(std::memcmp(value.data(), after.data(), value.bytes().size()), 0) << variable;
    }
  }
}

TEST_F(JobsOfProcesses, LearnWithAModelOfAFile) {
  auto options = small_job();
  options.model = onnx_file("lenet");
  options.steps = 200;
  double first = 0;
  double last = 0;
  const auto report = run_job(options,
                              [&](const StepReport& step) {
                                if (step.step <= 20) first += step.loss.value();
                                if (step.step > 180) last += step.loss.value();
                              },
                              {});
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_LT(last, first * 0.6);
}

TEST_F(Jobs, RefuseWhatCannotBe) {
  auto options = small_job();
  options.model = "nothing";
  EXPECT_EQ(run_job(options, {}, {}).error().code(), Code::kNotFound);
  options = small_job();
  options.workers = 0;
  EXPECT_EQ(run_job(options, {}, {}).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ferry::train
