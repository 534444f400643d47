#include <signal.h>

#include <future>

#include "tests/ps/roles.h"

// Servers that take the place of those that are gone.

namespace ferry::ps::testing {
namespace {

constexpr std::size_t kValues = 20'000;

struct Place {
  const char* provider;
  std::uint32_t servers;
  std::uint32_t shards;
};

class Spares : public ::testing::TestWithParam<Place> {
 protected:
  JobOptions options(std::uint32_t workers) const {
    return {.servers = GetParam().servers,
            .workers = workers,
            .block_bytes = 4096,
            .pool_blocks = 16,
            .replicas = 2};
  }
  // A server that has to wait until it is needed.
  std::future<Result<Server>> spare(Job& job) const {
    ServerOptions options{.scheduler = job.scheduler().endpoint(),
                          .device = device_options(GetParam().provider),
                          .shards = GetParam().shards};
    return std::async(std::launch::async, [options] { return Server::open(options, soon()); });
  }
};

INSTANTIATE_TEST_SUITE_P(All, Spares,
                         ::testing::Values(Place{"shm", 3, 1}, Place{"tcp", 3, 1},
                                           Place{"shm", 2, 2}, Place{"tcp", 2, 2}),
                         [](const auto& each) {
                           return std::string(each.param.provider) + "_" +
                                  std::to_string(each.param.servers) + "x" +
                                  std::to_string(each.param.shards);
                         });

// Momentum, so that what is remembered matters too; and rows, which touch some blocks only.
class Model {
 public:
  explicit Model(Worker& worker)
      : worker_(worker),
        dense_(must(worker.init("dense", f32({kValues}), {},
                                {.kind = UpdateKind::kMomentum, .rate = 0.1, .momentum = 0.9},
                                soon()))),
        rows_(must(worker.init("rows", f32({kValues / 8, 8}), {},
                               {.kind = UpdateKind::kAdam, .rate = 0.01}, soon()))),
        place_(must(worker.allocate(f32({kValues}), soon()))) {}

  void step() {
    ++steps_;
    const auto gradient = noise(kValues, 100 * worker_.rank() + steps_);
    std::copy(gradient.begin(), gradient.end(), place_.elements<float>().begin());
    must(worker_.push(dense_, place_.bytes(), soon()));
    const std::vector<std::uint64_t> keys = {1, 3, steps_ * 7 % (kValues / 8)};
    const auto values = noise(keys.size() * 8, 7 + steps_);
    must(worker_.push_rows(rows_, keys, raw(values), soon()));
    must(worker_.end_step(soon()));
    must(worker_.flush(soon()));
  }
  std::vector<float> all() {
    auto one = floats(must(worker_.pull(dense_, soon())), kValues);
    const auto other = floats(must(worker_.pull(rows_, soon())), kValues);
    one.insert(one.end(), other.begin(), other.end());
    return one;
  }

 private:
  Worker& worker_;
  Parameter dense_;
  Parameter rows_;
  tensor::Tensor place_;
  std::uint64_t steps_ = 0;
};

// The same steps in a job in which nobody dies.
std::vector<float> undisturbed(const char* provider, std::uint64_t steps) {
  Job job(provider, {.block_bytes = 4096, .pool_blocks = 16});
  auto worker = job.worker();
  Model model(worker);
  for (std::uint64_t step = 0; step < steps; ++step) model.step();
  return model.all();
}

// Every server dies once, one after the other, and each time a spare takes its place: in the end no
// server is there that was in the beginning.
TEST_P(Spares, TakeTheirPlaces) {
  const auto servers = GetParam().servers;
  Job job(GetParam().provider, options(1), GetParam().shards);
  auto worker = job.worker();
  Model model(worker);
  std::vector<Server> spares;
  std::uint64_t steps = 0;
  const auto steps_until = [&](const std::function<bool()>& so) {
    for (const auto limit = soon(); !so() && !limit.expired(); ++steps) model.step();
    ASSERT_TRUE(so());
  };
  for (std::uint32_t each = 0; each < servers; ++each) {
    model.step();
    ++steps;
    auto coming = spare(job);
    job.kill(each);
    ASSERT_TRUE(until([&] { return job.scheduler().stats().servers_gone == 1; }));
    steps_until([&] { return job.scheduler().stats().servers_gone == 0; });
    spares.push_back(must(coming.get()));
    EXPECT_EQ(spares.back().index(), each);
  }
  model.step();
  ++steps;
  EXPECT_EQ(model.all(), undisturbed(GetParam().provider, steps));
  EXPECT_EQ(worker.stats().servers_gone, servers);
  must(worker.leave(soon()));
  must(job.scheduler().wait(soon()));
  for (auto& server : spares) must(server.wait(soon()));
}

// A worker joins while a server is replaced, and a tensor is made meanwhile.
TEST_P(Spares, AreThereForNewWorkersAndTensors) {
  auto with = options(2);
  with.start_with = 1;
  Job job(GetParam().provider, with, GetParam().shards);
  auto first = job.worker(0);
  Model model(first);
  model.step();
  auto coming = spare(job);
  job.kill(0);
  ASSERT_TRUE(until([&] { return job.scheduler().stats().servers_gone == 1; }));
  const auto w = must(first.init("w", f32({kValues}), {}, {UpdateKind::kSum}, soon()));
  // More blocks than a worker has slots.
  const std::vector<float> many(1 << 17, 5.0F);
  const auto big = must(first.init("big", f32({1 << 17}), raw(many), {UpdateKind::kSum}, soon()));
  auto late = std::async(std::launch::async, [&] {
    auto second = job.worker(1);
    const auto found = must(second.find("w", soon()));
    must(push_steps(second, found, std::vector<float>(kValues, 1.0F), 3));
    must(second.leave(soon()));
  });
  for (const auto limit = soon(); !limit.expired() && job.scheduler().stats().left == 0;)
    model.step();
  late.get();
  auto server = must(coming.get());
  job.kill(1);  // now the newcomer's copies count
  ASSERT_TRUE(until([&] { return job.scheduler().stats().servers_gone == 1; }));
  model.step();
  EXPECT_EQ(floats(must(first.pull(w, soon())), kValues), std::vector<float>(kValues, 3.0F));
  EXPECT_EQ(floats(must(first.pull(big, soon())), many.size()), many);
  must(first.leave(soon()));
  must(job.scheduler().wait(soon()));
}

// Steps in which a worker has nothing to push are steps, too.
TEST_P(Spares, AreMetByWhoPushesNothing) {
  Job job(GetParam().provider, options(1), GetParam().shards);
  auto worker = job.worker();
  Model model(worker);
  model.step();
  auto coming = spare(job);
  job.kill(0);
  ASSERT_TRUE(until([&] { return job.scheduler().stats().servers_gone == 1; }));
  for (const auto limit = soon(); job.scheduler().stats().servers_gone > 0 && !limit.expired();) {
    must(worker.end_step(soon()));
    must(worker.flush(soon()));
  }
  auto server = must(coming.get());
  job.kill(1);
  ASSERT_TRUE(until([&] { return job.scheduler().stats().servers_gone == 1; }));
  EXPECT_EQ(model.all(), undisturbed(GetParam().provider, 1));
}

TEST_P(Spares, ThatDieAreReplacedToo) {
  Job job(GetParam().provider, options(1), GetParam().shards);
  auto worker = job.worker();
  Model model(worker);
  auto first = spare(job);
  job.kill(1);
  // It has a place, and cannot have caught up: no step is ended.
  ASSERT_TRUE(until([&] { return first.wait_for(0s) == std::future_status::ready; }));
  { auto dies = must(first.get()); }
  auto second = spare(job);
  std::uint64_t steps = 0;
  for (const auto limit = soon(); job.scheduler().stats().servers_gone > 0 && !limit.expired();
       ++steps)
    model.step();
  auto server = must(second.get());
  EXPECT_EQ(server.index(), 1U);
  EXPECT_EQ(model.all(), undisturbed(GetParam().provider, steps));
  must(worker.leave(soon()));
  must(job.scheduler().wait(soon()));
}

// A worker that runs out of time in the middle of the introduction meets it the next time.
TEST_P(Spares, AreMetByTheImpatient) {
  Job job(GetParam().provider, options(1), GetParam().shards);
  auto worker = job.worker();
  const auto w = must(worker.init("w", f32({kValues}), {}, {UpdateKind::kSum}, soon()));
  const std::vector<float> ones(kValues, 1.0F);
  float steps = 0;
  auto coming = spare(job);
  job.kill(0);
  ASSERT_TRUE(until([&] { return job.scheduler().stats().servers_gone == 1; }));
  Nanos patience = 100us;
  const auto impatiently = [&](const std::function<Status(Deadline)>& call) {
    for (auto done = call(Deadline::after(patience)); !done;
         done = call(Deadline::after(patience += patience / 32)))
      ASSERT_EQ(code_of(done), Code::kDeadlineExceeded) << done.error().message();
  };
  for (const auto limit = soon(); job.scheduler().stats().servers_gone > 0 && !limit.expired();) {
    impatiently([&](Deadline deadline) { return worker.push(w, raw(ones), deadline); });
    must(worker.end_step(soon()));
    impatiently([&](Deadline deadline) { return worker.flush(deadline); });
    ++steps;
  }
  auto server = must(coming.get());
  EXPECT_EQ(job.scheduler().stats().servers_gone, 0U);
  job.kill(1);
  ASSERT_TRUE(until([&] { return job.scheduler().stats().servers_gone == 1; }));
  EXPECT_EQ(floats(must(worker.pull(w, soon())), kValues), std::vector<float>(kValues, steps));
}

// One that cannot have the tensors of the job is told so, and another one may come.
TEST(SparesOf, JobsThatAreTooLarge) {
  Job job("shm", {.servers = 2, .block_bytes = 4096, .pool_blocks = 16, .replicas = 2});
  auto worker = job.worker();
  const auto w = must(worker.init("w", f32({1 << 21}), {}, {UpdateKind::kSum}, soon()));
  const std::vector<float> ones(1 << 21, 1.0F);
  ServerOptions options{.scheduler = job.scheduler().endpoint(),
                        .device = device_options("shm"),
                        .memory_bytes = 4 << 20};
  auto small = std::async(std::launch::async, [options] { return Server::open(options, soon()); });
  job.kill(0);
  auto server = small.get();
  EXPECT_EQ(server ? code_of(server->wait(soon())) : code_of(server), Code::kUnavailable);
  options.memory_bytes = 0;
  auto large = std::async(std::launch::async, [options] { return Server::open(options, soon()); });
  ASSERT_TRUE(until([&] { return job.scheduler().stats().servers_gone == 1; }));
  float steps = 0;
  for (const auto limit = soon(); job.scheduler().stats().servers_gone > 0 && !limit.expired();
       ++steps)
    must(push_steps(worker, w, ones));
  const auto other = must(large.get());
  EXPECT_EQ(job.scheduler().stats().servers_gone, 0U);
  EXPECT_EQ(floats(must(worker.pull(w, soon())), ones.size()),
            std::vector<float>(ones.size(), steps));
}

TEST(SparesOf, JobsThatHaveNone) {
  Job job("shm", {.servers = 2, .consistency = Consistency::kAsync, .replicas = 2});
  const ServerOptions options{.scheduler = job.scheduler().endpoint(),
                              .device = device_options("shm")};
  EXPECT_EQ(code_of(Server::open(options, soon())), Code::kUnimplemented);
  Job other("shm", {.servers = 2, .replicas = 2});
  auto worker = other.worker();
  ServerOptions waits{.scheduler = other.scheduler().endpoint(), .device = device_options("shm")};
  auto spare = std::async(std::launch::async, [&] { return Server::open(waits, soon()); });
  std::this_thread::sleep_for(50ms);
  must(worker.leave(soon()));
  EXPECT_EQ(code_of(spare.get()), Code::kUnavailable);  // it was not needed
}

// What is read at a newcomer stays as it is when that is let go of which was read at the server
// before.
TEST(SparesOf, ServersThatAreStillLookedAt) {
  auto scheduler = must(
      Scheduler::open({{.servers = 2, .block_bytes = 4096, .replicas = 2}, device_options("shm")}));
  const auto serve = [&] {
    return Process::start({"--role", "serve", scheduler.endpoint(), "shm"});
  };
  const auto first = serve();
  const auto second = serve();
  auto worker = must(
      Worker::open({.scheduler = scheduler.endpoint(), .device = device_options("shm")}, soon()));
  const auto w = must(worker.init("w", f32({kValues}), {}, {UpdateKind::kSum}, soon()));
  const std::vector<float> ones(kValues, 1.0F);
  must(push_steps(worker, w, ones));
  auto older = must(worker.pull(w, soon()));
  ASSERT_TRUE(older.in_place());
  const auto newcomer = serve();
  first.signal(SIGKILL);
  ASSERT_TRUE(until([&] { return scheduler.stats().servers_gone == 1; }));
  for (const auto limit = soon(); scheduler.stats().servers_gone > 0 && !limit.expired();)
    must(push_steps(worker, w, ones));
  second.signal(SIGKILL);  // from now on the newcomer alone is read
  ASSERT_TRUE(until([&] { return scheduler.stats().servers_gone == 1; }));
  must(push_steps(worker, w, ones));
  const auto newer = must(worker.pull(w, soon()));
  ASSERT_TRUE(newer.in_place());
  const auto values = floats(newer, kValues);
  EXPECT_EQ(floats(older, kValues), ones);
  must(older.release());
  must(push_steps(worker, w, ones, 4));  // more than there are planes
  EXPECT_EQ(floats(newer, kValues), values);
}

}  // namespace
}  // namespace ferry::ps::testing
