// A key-value store: fits a line to points, each worker to its own, on two "devices" each.
//   ferry ps --local 1x2 -- example_ps_kvstore
#include "ferry/interop/kvstore/kvstore.h"

#include <array>
#include <cmath>
#include <cstdio>

using ferry::tensor::Tensor;

int main() {
  auto soon = [] { return ferry::Deadline::after(std::chrono::seconds(30)); };
  auto stop = [](const ferry::Error& error) {
    return std::fprintf(stderr, "%s\n", error.to_string().c_str()), 1;
  };
  auto store = ferry::interop::KVStore::create("dist_sync", soon());
  if (!store) return stop(store.error());
  const float points = 20.0F * static_cast<float>(store->num_workers());
  // The servers subtract the sum of all gradients, times the rate.
  const ferry::ps::Update sgd{.kind = ferry::ps::UpdateKind::kSgd, .rate = 0.1};
  if (auto set = store->set_optimizer(sgd, soon()); !set) return stop(set.error());

  // y = a * x + b, with a and b as one value: the weights, and a gradient for each device.
  std::array<std::array<float, 2>, 3> memory{};
  const ferry::tensor::Spec spec{ferry::tensor::ElementType::kF32, *ferry::tensor::Shape::of({2})};
  auto over = [&](auto& floats) {
    return *Tensor::over(spec, std::as_writable_bytes(std::span(floats)));
  };
  const Tensor line = over(memory[0]);
  const std::array<Tensor, 2> gradients = {over(memory[1]), over(memory[2])};
  if (auto made = store->init("line", line, soon()); !made) return stop(made.error());

  const auto weights = line.elements<float>();
  for (int step = 0; step < 500; ++step) {
    for (int device = 0; device < 2; ++device) {
      auto slope = gradients[static_cast<std::size_t>(device)].elements<float>();
      slope[0] = slope[1] = 0;
      for (int point = 0; point < 10; ++point) {
        const float x =
            static_cast<float>(point) / 5 - static_cast<float>(store->rank()) - 0.1F * device;
        const float error = weights[0] * x + weights[1] - (3 * x + 1);
        slope[0] += error * x / points;
        slope[1] += error / points;
      }
    }
    // The two are summed here, then with those of the other workers on the servers.
    if (auto done = store->pushpull("line", gradients, {&line, 1}, soon()); !done)
      return stop(done.error());
  }
  std::printf("worker %u: y = %.3f x + %.3f\n", store->rank(), weights[0], weights[1]);
  if (auto closed = store->close(soon()); !closed) return stop(closed.error());
  return std::fabs(weights[0] - 3) < 0.01F && std::fabs(weights[1] - 1) < 0.01F ? 0 : 1;
}
