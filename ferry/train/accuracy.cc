#include <string>

#include "ferry/models/batches.h"
#include "ferry/ops/evaluate.h"
#include "ferry/train/child_internal.h"
#include "ferry/train/job.h"

namespace ferry::train {
namespace {

constexpr std::int64_t kTestBatch = 200;

Result<double> accuracy_of(const JobOptions& options, const storage::NamedTensors& variables) {
  const auto model = FERRY_TRY(models::make_model(options.model, {.batch = kTestBatch}));
  graph::Graph graph;
  graph::Builder builder(graph);
  const auto tower = model.tower(builder);
  FERRY_TRY(Status(builder.status()));
  const auto images = FERRY_TRY(models::read_fashion_mnist(models::Split::kTest));
  auto batches = FERRY_TRY(models::Batches::open(images, {.batch = kTestBatch}));
  ops::Tensors values(variables.begin(), variables.end());
  const std::vector<graph::Output> fetches = {tower.metrics.at("accuracy").output()};
  double sum = 0;
  for (std::uint64_t step = 1; step <= batches.steps_per_epoch(); ++step) {
    const auto batch = batches.of_step(step);
    const ops::Tensors feeds = {{"images", batch.images}, {"labels", batch.labels}};
    const auto fetched = FERRY_TRY(ops::evaluate(graph, values, feeds, fetches));
    sum += fetched[0].elements<float>()[0];
  }
  return sum / static_cast<double>(batches.steps_per_epoch());
}

}  // namespace

// In a process of its own: threads of kernels do not get on with a process that forks later.
Result<double> test_accuracy(const JobOptions& options, const storage::NamedTensors& variables) {
  auto child = FERRY_TRY(Child::start([&](Lines& lines) {
    const auto accuracy = accuracy_of(options, variables);
    const auto said =
        lines.say(accuracy ? fmt::format("{}", *accuracy) : accuracy.error().message());
    return accuracy && said ? 0 : 1;
  }));
  const auto line = FERRY_TRY(child.lines().hear(Deadline::after(std::chrono::minutes(10))));
  char* end = nullptr;
  const auto accuracy = std::strtod(line.c_str(), &end);
  if (end == line.c_str()) return fail(Code::kInternal, "the test failed: {}", line);
  return accuracy;
}

}  // namespace ferry::train
