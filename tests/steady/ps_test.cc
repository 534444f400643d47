#include <vector>

#include "ferry/ps/scheduler.h"
#include "ferry/ps/server.h"
#include "ferry/ps/worker.h"
#include "tests/steady/kit.h"

namespace ferry::steady {
namespace {

using ps::Scheduler;
using ps::Server;
using ps::Worker;
using tensor::Spec;

// A scheduler, a server and a worker of one process: what both sides do is counted.
class ParameterServer : public EachProvider {
 protected:
  using Round = std::function<void(Worker&, ps::Parameter, std::span<const std::byte> gradient)>;
  static void expect_free_round(const Round& round) {
    const std::string provider = GetParam();
    auto scenario = [&](const Repeat& repeat) {
      auto device = device_options(provider);
      auto scheduler = must(Scheduler::open({.job = {}, .device = device}));
      auto server =
          must(Server::open({.scheduler = scheduler.endpoint(), .device = device}, soon()));
      auto worker =
          must(Worker::open({.scheduler = scheduler.endpoint(), .device = device}, soon()));
      const Spec spec{tensor::ElementType::kF32, must(tensor::Shape::of({5000}))};
      auto w = must(worker.init("w", spec, {}, {ps::UpdateKind::kSum}, soon()));
      auto gradient = must(worker.allocate(spec, soon()));
      repeat([&] { round(worker, w, gradient.bytes()); });
      must(worker.leave(soon()));
    };
    // Everybody reports to the scheduler, which is reached over tcp, by the clock.
    expect_free(provider, scenario,
                {.allocations = 8,
                 .socket_calls = 2,
                 .reason = "views and leases of a Pulled, and the lists of Part::apply()"});
  }
};
INSTANTIATE_TEST_SUITE_P(On, ParameterServer, ::testing::Values("shm", "tcp", "fake"),
                         provider_name);

TEST_P(ParameterServer, PushEndStepPull) {
  expect_free_round([](Worker& worker, ps::Parameter w, std::span<const std::byte> gradient) {
    must(worker.push(w, gradient, soon()));
    must(worker.end_step(soon()));
    must(must(worker.pull(w, soon())).release());
  });
}

TEST_P(ParameterServer, PushPull) {
  expect_free_round([](Worker& worker, ps::Parameter w, std::span<const std::byte> gradient) {
    must(must(worker.push_pull(w, gradient, soon())).release());
  });
}

}  // namespace
}  // namespace ferry::steady
