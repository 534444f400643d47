#include <array>
#include <cstdio>
#include <string>

#include "ferry/models/data.h"
#include "ferry/ops/evaluate.h"
#include "ferry/train/child_internal.h"
#include "ferry/train/job.h"

namespace ferry::train {
namespace {

constexpr std::int64_t kTestBatch = 200;

Result<Tested> test_here(const JobOptions& options, const storage::NamedTensors& variables) {
  const auto model = FERRY_TRY(models::make_model(options.model, {.batch = kTestBatch}));
  graph::Graph graph;
  graph::Builder builder(graph);
  const auto tower = model.tower(builder);
  FERRY_TRY(Status(builder.status()));
  auto data =
      FERRY_TRY(models::open_data(model, {.split = models::Split::kTest, .batch = kTestBatch}));
  ops::Tensors values(variables.begin(), variables.end());
  std::vector<graph::Output> fetches = {tower.loss.output()};
  if (const auto found = tower.metrics.find("accuracy"); found != tower.metrics.end())
    fetches.push_back(found->second.output());
  std::array<double, 2> sums = {};
  const auto steps = std::max<std::uint64_t>(data->steps_per_epoch(), 1);
  for (std::uint64_t step = 1; step <= steps; ++step) {
    const auto batch = data->of_step(step);
    const auto fetched =
        FERRY_TRY(ops::evaluate(graph, values, {batch.begin(), batch.end()}, fetches));
    for (std::size_t index = 0; index < fetched.size(); ++index)
      sums[index] += fetched[index].elements<float>()[0];
  }
  Tested tested{.loss = sums[0] / static_cast<double>(steps), .accuracy = {}};
  if (fetches.size() > 1) tested.accuracy = sums[1] / static_cast<double>(steps);
  return tested;
}

}  // namespace

bool has_test_set(models::Feeds feeds) {
  return feeds == models::Feeds::kImages || feeds == models::Feeds::kText;
}

// In a process of its own: threads of kernels do not get on with a process that forks later.
Result<Tested> test_model(const JobOptions& options, const storage::NamedTensors& variables) {
  auto child = FERRY_TRY(Child::start([&](Lines& lines) {
    const auto tested = test_here(options, variables);
    const auto said =
        lines.say(tested ? fmt::format("{} {}", tested->loss, tested->accuracy.value_or(-1))
                         : tested.error().message());
    return tested && said ? 0 : 1;
  }));
  const auto line = FERRY_TRY(child.lines().hear(Deadline::after(std::chrono::minutes(10))));
  double loss = 0;
  double accuracy = 0;
  if (std::sscanf(line.c_str(), "%lf %lf", &loss, &accuracy) != 2)
    return fail(Code::kInternal, "the test failed: {}", line);
  return Tested{loss, accuracy < 0 ? std::nullopt : std::optional(accuracy)};
}

}  // namespace ferry::train
