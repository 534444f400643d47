#include <filesystem>
#include <fstream>

#include "ferry/math/optimize.h"
#include "ferry/storage/checkpoint.h"
#include "tests/ps/kit.h"

namespace ferry::ps::testing {
namespace {

namespace fs = std::filesystem;

class Snapshot : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ferry-ps-snapshot-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static constexpr std::size_t kCount = 20011;
  // Some steps of Adam, whose state matters.
  static std::vector<float> train(Worker& worker, std::uint64_t from, std::uint64_t to) {
    const Update update{.kind = UpdateKind::kAdam, .rate = 0.01};
    const auto w = must(worker.init("w@1#x", f32({kCount}), raw(noise(kCount, 1)), update, soon()));
    for (auto step = from; step <= to; ++step)
      (void)must(worker.push_pull(w, raw(noise(kCount, 100 + step)), soon()));
    return floats(must(worker.pull(w, soon())), kCount);
  }
  static Worker worker_of(const Scheduler& scheduler) {
    return must(
        Worker::open({.scheduler = scheduler.endpoint(), .device = device_options("shm")}, soon()));
  }
  struct Restored {
    Scheduler scheduler;
    std::vector<Server> servers;
  };
  Restored restored(std::uint32_t servers, std::uint32_t replicas = 1) const {
    JobOptions options{.servers = servers, .block_bytes = 8192, .replicas = replicas};
    Restored job{must(Scheduler::open({options, device_options("shm"), folder_})), {}};
    for (std::uint32_t each = 0; each < servers; ++each)
      job.servers.push_back(must(Server::open(
          {.scheduler = job.scheduler.endpoint(), .device = device_options("shm")}, soon())));
    return job;
  }
  std::string folder_;
};

TEST_F(Snapshot, TrainingGoesOnWithAnyNumberOfServersAsIfNothingHadHappened) {
  std::vector<float> expected;
  {
    Job job("shm", {.servers = 2, .block_bytes = 4096});
    auto worker = job.worker();
    (void)train(worker, 1, 5);
    (void)must(worker.snapshot(folder_, soon()));
    expected = train(worker, 6, 10);
  }
  for (const std::uint32_t servers : {1U, 2U, 3U}) {
    auto job = restored(servers);
    auto worker = worker_of(job.scheduler);
    EXPECT_EQ(train(worker, 6, 10), expected) << servers << " servers";
  }
}

TEST_F(Snapshot, WhatSecondCopiesHaveIsSavedWhereTheFirstIsGone) {
  std::vector<float> expected;
  {
    Job job("shm", {.servers = 3, .block_bytes = 4096, .replicas = 2});
    auto worker = job.worker();
    (void)train(worker, 1, 3);
    job.kill(1);
    (void)train(worker, 4, 5);
    (void)must(worker.snapshot(folder_, soon()));
    expected = train(worker, 6, 10);
  }
  {
    auto job = restored(1);
    auto worker = worker_of(job.scheduler);
    EXPECT_EQ(train(worker, 6, 10), expected);
  }
  // What was restored is there twice, too.
  auto job = restored(3, 2);
  auto worker = worker_of(job.scheduler);
  (void)train(worker, 6, 8);
  job.servers.pop_back();
  EXPECT_EQ(train(worker, 9, 10), expected);
}

TEST_F(Snapshot, NarrowTypesKeepTheirMasterCopy) {
  const Spec spec{ElementType::kBf16, must(Shape::of({1000}))};
  const std::vector<std::uint16_t> tiny(1000, 0x3b80);  // 2^-8: lost when added to 1 in bf16
  const std::vector<std::uint16_t> ones(1000, 0x3f80);
  {
    Job job("shm", {});
    auto worker = job.worker();
    const auto w = must(worker.init("w", spec, raw(ones), {UpdateKind::kSum}, soon()));
    (void)must(worker.push_pull(w, raw(tiny), soon()));
    (void)must(worker.snapshot(folder_, soon()));
  }
  auto job = restored(1);
  auto worker = worker_of(job.scheduler);
  const auto w = must(worker.find("w", soon()));
  std::vector<std::uint16_t> last(1000);
  (void)must(worker.push_pull(w, raw(tiny), soon()));
  must(worker.pull_to(w, std::as_writable_bytes(std::span(last)), soon()));
  EXPECT_EQ(last, std::vector<std::uint16_t>(1000, 0x3f81));  // 1 + 2 * 2^-8
}

TEST_F(Snapshot, ABrokenOneIsPassedOver) {
  std::string last;
  std::vector<float> expected;
  {
    Job job("shm", {});
    auto worker = job.worker();
    expected = train(worker, 1, 2);
    (void)must(worker.snapshot(folder_, soon()));
    (void)train(worker, 3, 4);
    last = must(worker.snapshot(folder_, soon()));
  }
  {
    std::fstream file(last + "/server-0000.ferry", std::ios::in | std::ios::out);
    file.seekp(5000);
    file.put('x');
    file.put('y');
  }
  {
    auto job = restored(1);
    auto worker = worker_of(job.scheduler);
    EXPECT_EQ(train(worker, 1, 0), expected);
  }
  // One that was never finished is none at all.
  fs::remove(last + "/manifest.ferry");
  auto job = restored(1);
  auto worker = worker_of(job.scheduler);
  EXPECT_EQ(train(worker, 1, 0), expected);
}

// Its files are sound, but what they lack must not come back as zeros.
TEST_F(Snapshot, OneThatLacksATensorIsPassedOver) {
  std::string last;
  std::vector<float> expected;
  {
    Job job("shm", {});
    auto worker = job.worker();
    expected = train(worker, 1, 2);
    (void)must(worker.snapshot(folder_, soon()));
    (void)train(worker, 3, 4);
    last = must(worker.snapshot(folder_, soon()));
  }
  must(storage::save_checkpoint(last + "/server-0000.ferry", {}));
  auto job = restored(1);
  auto worker = worker_of(job.scheduler);
  EXPECT_EQ(train(worker, 1, 0), expected);
}

// A job that begins anew in their place would look like one that goes on.
TEST_F(Snapshot, WhereAllAreBrokenNoJobBegins) {
  {
    Job job("shm", {});
    auto worker = job.worker();
    (void)train(worker, 1, 1);
    (void)must(worker.snapshot(folder_, soon()));
    (void)must(worker.snapshot(folder_, soon()));
  }
  const SchedulerOptions options{.job = {}, .device = device_options("shm"), .restore = folder_};
  for (const auto& entry : fs::directory_iterator(folder_))
    fs::resize_file(entry.path() / "server-0000.ferry", 100);
  const auto broken = Scheduler::open(options);
  ASSERT_EQ(code_of(broken), Code::kDataLoss);
  EXPECT_NE(broken.error().message().find(folder_), std::string::npos);
  for (const auto& entry : fs::directory_iterator(folder_))
    fs::remove(entry.path() / "manifest.ferry");
  EXPECT_EQ(code_of(Scheduler::open(options)), Code::kDataLoss);
  fs::remove_all(folder_);
  EXPECT_EQ(code_of(Scheduler::open(options)), Code::kOk);
}

TEST_F(Snapshot, OnlyTheNewestAreKept) {
  Job job("shm", {});
  auto worker = job.worker();
  for (std::uint64_t step = 1; step <= 4; ++step) {
    (void)train(worker, step, step);
    (void)must(worker.snapshot(folder_, soon()));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
}

TEST_F(Snapshot, WhatCannotBeSavedIsSaid) {
  Job job("shm", {.workers = 2});
  auto worker = job.worker();
  const auto w = must(worker.init("w", f32({10}), {}, {UpdateKind::kSum}, soon()));
  EXPECT_EQ(code_of(worker.snapshot("/proc/none", soon())), Code::kUnavailable);
  const std::vector<float> ones(10, 1.0F);
  auto other = job.worker();
  const auto v = must(other.find("w", soon()));
  must(other.push(v, raw(ones), soon()));
  must(other.end_step(soon()));
  // The step is open until this one ends it too.
  for (int tries = 0; tries < 100; ++tries) {
    const auto taken = worker.snapshot(folder_, soon());
    if (code_of(taken) == Code::kFailedPrecondition) break;
    ASSERT_LT(tries, 99) << "a snapshot in the middle of a step";
  }
  must(worker.push(w, raw(ones), soon()));
  must(worker.end_step(soon()));
  must(other.flush(soon()));
  (void)must(worker.snapshot(folder_, soon()));
}

}  // namespace
}  // namespace ferry::ps::testing
