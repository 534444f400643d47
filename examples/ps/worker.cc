// A worker of a parameter server: fits a line to points, each worker to its own.
//   ferry ps --local 1x2 --mean -- example_ps_worker
//   ferry ps --local 1x1 --consistency async -- example_ps_worker
#include "ferry/ps/worker.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "ferry/interop/launched.h"

int main() {
  auto soon = [] { return ferry::Deadline::after(std::chrono::seconds(30)); };
  auto stop = [](const ferry::Error& error) {
    return std::fprintf(stderr, "%s\n", error.to_string().c_str()), 1;
  };
  auto options = ferry::interop::launched_worker();  // where the job is
  if (!options) return stop(options.error());
  auto worker = ferry::ps::Worker::open(*options, soon());
  if (!worker) return stop(worker.error());

  // y = a * x + b, with a and b as one tensor; the server subtracts the gradient.
  const ferry::tensor::Spec spec{ferry::tensor::ElementType::kF32, *ferry::tensor::Shape::of({2})};
  const ferry::ps::Update update{.kind = ferry::ps::UpdateKind::kSgd, .rate = 0.1};
  auto line = worker->init("line", spec, {}, update, soon());
  if (!line) return stop(line.error());
  auto gradient = worker->allocate(spec, soon());  // servers of this host read it where it is
  if (!gradient) return stop(gradient.error());

  std::array<float, 2> weights{};
  for (int step = 0; step < 500; ++step) {
    auto slope = gradient->elements<float>();
    slope[0] = slope[1] = 0;
    for (int point = 0; point < 10; ++point) {
      const float x = static_cast<float>(point) / 5 - static_cast<float>(worker->rank());
      const float error = weights[0] * x + weights[1] - (3 * x + 1);
      slope[0] += error * x / 10;
      slope[1] += error / 10;
    }
    // What comes back has this gradient. In step with others (unless --consistency async) it waits
    // until all workers have pushed, and is the same for all of them. Afterwards nobody reads the
    // gradient's memory any more, and the next step may write to it.
    auto pulled = worker->push_pull(*line, gradient->bytes(), soon());
    if (!pulled) return stop(pulled.error());
    pulled->copy_to(std::as_writable_bytes(std::span(weights)));
  }
  std::printf("worker %u: y = %.3f x + %.3f\n", worker->rank(), weights[0], weights[1]);
  if (auto left = worker->leave(soon()); !left) return stop(left.error());
  return std::fabs(weights[0] - 3) < 0.01F && std::fabs(weights[1] - 1) < 0.01F ? 0 : 1;
}
