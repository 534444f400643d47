// A model, an operator and data of the program's own, trained by two workers and a server, each a
// process. Nothing here says how tensors get from one to the other.
//   example_train_own_model [ferry|ferry-copy|ferry-private|grpc]
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/models/data.h"
#include "ferry/ops/kernel.h"
#include "ferry/train/job.h"

namespace {

using ferry::Result;
using ferry::Status;
using ferry::graph::Expr;
using ferry::tensor::ElementType;
using ferry::tensor::Shape;
using ferry::tensor::Spec;
using ferry::tensor::Tensor;

Spec floats(std::initializer_list<std::int64_t> dims) {
  return {ElementType::kF32, *Shape::of(dims)};
}

// Bump: x -> exp(-x * x). What the graph knows of it: the shape of the output, its gradient, and
// that it may be written over the input.
Status add_operator() {
  ferry::graph::OpDef bump;
  bump.name = "Bump";
  bump.least_inputs = bump.most_inputs = 1;
  bump.infer = [](const ferry::graph::Inference& node) -> Result<std::vector<Spec>> {
    return std::vector<Spec>{node.inputs[0]};
  };
  bump.gradient = [](ferry::graph::Gradient& flow) -> Status {
    flow.set(0, flow.incoming() * flow.output() * flow.input(0) * -2);
    return {};
  };
  bump.reuses = {{.input = 0, .output = 0}};
  FERRY_TRY(register_op(std::move(bump)));
  // What computes it. The output may lie in another process: where it is needed next.
  return ferry::ops::register_kernel(
      "Bump", ferry::ops::stateless([](ferry::ops::KernelContext& context) -> Status {
        const auto& x = context.input(0);
        auto y = FERRY_TRY(context.output(0, x.spec()));
        const auto from = x.elements<const float>();
        const auto to = y.elements<float>();
        for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::exp(-from[i] * from[i]);
        return {};
      }));
}

// Points of a curve, others for each worker and step.
class Curve final : public ferry::models::Data {
 public:
  explicit Curve(const ferry::models::DataOptions& options)
      : worker_(options.worker), x_(static_cast<std::size_t>(options.batch)), y_(x_.size()) {}

  std::map<std::string, Tensor> of_step(std::uint64_t step) override {
    std::srand(static_cast<unsigned>(step * 97 + worker_));
    for (std::size_t i = 0; i < x_.size(); ++i) {
      x_[i] = static_cast<float>(std::rand()) / static_cast<float>(RAND_MAX) * 4 - 2;
      y_[i] = std::sin(3 * x_[i]);
    }
    const auto shape = floats({static_cast<std::int64_t>(x_.size()), 1});
    return {{"x", *Tensor::over(shape, std::as_writable_bytes(std::span(x_)))},
            {"y", *Tensor::over(shape, std::as_writable_bytes(std::span(y_)))}};
  }
  std::uint64_t steps_per_epoch() const override { return 0; }

 private:
  const std::uint32_t worker_;
  std::vector<float> x_;
  std::vector<float> y_;
};

Result<ferry::models::Model> curve_model(const ferry::models::ModelOptions& options) {
  const auto column = floats({options.batch, 1});
  ferry::models::Model model;
  model.name = "curve";
  model.feeds = ferry::models::Feeds::kOwn;
  model.data = [](const ferry::models::DataOptions& data) {
    return Result<std::unique_ptr<ferry::models::Data>>(std::make_unique<Curve>(data));
  };
  model.inputs = {{"x", column}, {"y", column}};
  model.tower = [column](ferry::graph::Builder& builder) -> ferry::graph::Tower {
    const auto x = builder.input("x", column);
    const auto y = builder.input("y", column);
    const auto w1 = builder.variable("w1", floats({1, 64}),
                                     {.kind = ferry::graph::Initial::Kind::kNormal, .scale = 3});
    const auto b1 = builder.variable("b1", floats({64}),
                                     {.kind = ferry::graph::Initial::Kind::kNormal, .scale = 3});
    const auto w2 = builder.variable("w2", floats({64, 1}));
    const auto b2 = builder.variable("b2", floats({1}));
    const auto hidden = builder.add("Bump", {matmul(x, w1) + b1});
    return {.loss = mean(square(matmul(hidden, w2) + b2 - y)), .metrics = {}};
  };
  return model;
}

Status run(const char* transport) {
  FERRY_TRY(add_operator());
  FERRY_TRY(ferry::models::register_model("curve", curve_model));
  ferry::train::JobOptions job;
  job.model = "curve";
  job.transport = FERRY_TRY(ferry::train::transport_named(transport));
  job.workers = 2;
  job.servers = 1;
  job.steps = 500;
  job.optimizer = ferry::graph::Optimizer::adam();
  job.rate = 0.02;
  std::array<double, 2> losses{};
  const auto note = [&](const ferry::train::StepReport& step) {
    if (step.worker == 0) losses[step.step == 1 ? 0 : 1] = step.loss.value();
  };
  const auto report = FERRY_TRY(ferry::train::run_job(job, note, {}));
  std::uint64_t copies = 0;
  for (const auto& task : report.tasks) copies += task.crossings.copies;
  std::printf("loss %.4f -> %.4f in %zu steps, %zu processes, %zu tensors copied to be sent\n",
              losses[0], losses[1], static_cast<std::size_t>(report.steps), report.tasks.size(),
              static_cast<std::size_t>(copies));
  if (losses[1] < losses[0] / 10) return {};
  return ferry::fail(ferry::Code::kInternal, "it did not learn the curve");
}

}  // namespace

int main(int count, char** words) {
  const auto done = run(count > 1 ? words[1] : "ferry");
  if (!done) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done ? 0 : 1;
}
