#include <limits>

#include "tests/ps/kit.h"

namespace ferry::ps::testing {
namespace {

TEST(BadInput, TensorsThatAreNotThereOrAreOthers) {
  Job job("shm", {});
  auto worker = job.worker();
  EXPECT_EQ(code_of(worker.find("nothing", soon())), Code::kNotFound);
  EXPECT_EQ(code_of(worker.pull(7, soon())), Code::kNotFound);
  EXPECT_EQ(code_of(worker.push(7, {}, soon())), Code::kNotFound);
  EXPECT_EQ(code_of(worker.spec(7)), Code::kNotFound);
  const std::vector<float> values(10, 1.0F);
  const auto w = must(worker.init("w", f32({10}), raw(values), {UpdateKind::kSum}, soon()));
  // The same again is the same tensor, with the values it has.
  EXPECT_EQ(must(worker.init("w", f32({10}), {}, {UpdateKind::kSum}, soon())), w);
  EXPECT_EQ(floats(must(worker.pull(w, soon())), 10), values);
  const auto other = worker.init("w", f32({11}), {}, {UpdateKind::kSum}, soon());
  EXPECT_EQ(code_of(other), Code::kAlreadyExists);
  EXPECT_NE(other.error().message().find("f32[10]"), std::string::npos);
  EXPECT_EQ(code_of(worker.init("w", f32({10}), {}, {UpdateKind::kAssign}, soon())),
            Code::kAlreadyExists);
  const Spec half{ElementType::kF16, must(Shape::of({10}))};
  EXPECT_EQ(code_of(worker.init("w", half, {}, {UpdateKind::kSum}, soon())), Code::kAlreadyExists);
  EXPECT_EQ(code_of(worker.init("", f32({1}), {}, {}, soon())), Code::kInvalidArgument);
  EXPECT_EQ(code_of(worker.init(std::string(2000, 'x'), f32({1}), {}, {}, soon())),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(worker.init("x", f32({0}), {}, {}, soon())), Code::kInvalidArgument);
  EXPECT_EQ(code_of(worker.init("x", f32({5}), raw(values), {}, soon())), Code::kInvalidArgument);
  const Spec whole{ElementType::kI32, must(Shape::of({10}))};
  EXPECT_EQ(code_of(worker.init("x", whole, {}, {}, soon())), Code::kInvalidArgument);
  EXPECT_EQ(code_of(worker.init("x", f32({5}), {},
                                {.kind = UpdateKind::kFunction, .function = "none"}, soon())),
            Code::kNotFound);
}

TEST(BadInput, LengthsAndRowsThatDoNotFit) {
  Job job("shm", {});
  auto worker = job.worker();
  const auto w = must(worker.init("w", f32({10, 4}), {}, {UpdateKind::kSum}, soon()));
  std::vector<float> values(41);
  EXPECT_EQ(code_of(worker.push(w, raw(values), soon())), Code::kInvalidArgument);
  EXPECT_EQ(code_of(worker.pull_to(w, std::as_writable_bytes(std::span(values)), soon())),
            Code::kInvalidArgument);
  const std::vector<std::uint64_t> rows = {3, 10};
  values.resize(8);
  EXPECT_EQ(code_of(worker.push_rows(w, rows, raw(values), soon())), Code::kOutOfRange);
  EXPECT_EQ(code_of(worker.pull_rows(w, rows, std::as_writable_bytes(std::span(values)), soon())),
            Code::kOutOfRange);
  values.resize(7);
  EXPECT_EQ(code_of(worker.push_rows(w, rows, raw(values), soon())), Code::kInvalidArgument);
  // Nothing of it was sent: the tensor is as it was, and can be pushed.
  values.assign(40, 1.0F);
  EXPECT_EQ(floats(must(worker.push_pull(w, raw(values), soon())), 40), values);
}

TEST(BadInput, TheSameTensorTwiceInAStep) {
  Job job("shm", {});
  auto worker = job.worker();
  const auto w = must(worker.init("w", f32({4}), {}, {UpdateKind::kSum}, soon()));
  const std::vector<float> ones(4, 1.0F);
  must(worker.push(w, raw(ones), soon()));
  EXPECT_EQ(code_of(worker.push(w, raw(ones), soon())), Code::kFailedPrecondition);
  must(worker.end_step(soon()));
  EXPECT_EQ(floats(must(worker.pull(w, soon())), 4), ones);
}

TEST(BadInput, ValuesThatAreNotFinite) {
  for (const auto type : {ElementType::kF32, ElementType::kF16, ElementType::kBf16}) {
    for (const auto policy : {NotFinite::kIgnore, NotFinite::kCount, NotFinite::kReject}) {
      Job job("shm", {});
      auto worker = job.worker({}, policy);
      const Spec spec{type, must(Shape::of({100}))};
      const auto w = must(worker.init("w", spec, {}, {UpdateKind::kSum}, soon()));
      std::vector<std::byte> gradient(100 * tensor::size_of(type));
      must(worker.push(w, gradient, soon()));
      must(worker.end_step(soon()));
      EXPECT_EQ(worker.stats().not_finite, 0U);
      // All ones is not a number in each of these types.
      std::fill(gradient.end() - static_cast<std::ptrdiff_t>(tensor::size_of(type)), gradient.end(),
                std::byte{0xff});
      const auto pushed = worker.push(w, gradient, soon());
      EXPECT_EQ(code_of(pushed), policy == NotFinite::kReject ? Code::kInvalidArgument : Code::kOk);
      EXPECT_EQ(worker.stats().not_finite, policy == NotFinite::kIgnore ? 0U : 1U);
      must(worker.end_step(soon()));
    }
  }
}

TEST(BadInput, AServerThatIsFull) {
  Job job("shm", {.servers = 2}, 1,
          [](ServerOptions& server) { server.memory_bytes = std::uint64_t{64} << 20; });
  auto worker = job.worker();
  const auto before = job.server(0).stats();
  const auto large = worker.init("large", f32({20 << 20}), {}, {UpdateKind::kSum}, soon());
  EXPECT_EQ(code_of(large), Code::kResourceExhausted);
  EXPECT_NE(large.error().message().find("'large'"), std::string::npos);
  // Nothing is left behind, and what fits still goes.
  EXPECT_EQ(job.server(0).stats().memory_bytes, before.memory_bytes);
  EXPECT_EQ(job.server(0).stats().tensors, 0U);
  const std::vector<float> ones(1000, 1.0F);
  const auto w = must(worker.init("large", f32({1000}), {}, {UpdateKind::kSum}, soon()));
  EXPECT_EQ(floats(must(worker.push_pull(w, raw(ones), soon())), 1000), ones);
}

TEST(BadInput, MoreWorkersThanDeclared) {
  Job job("shm", {.workers = 2});
  auto a = job.worker();
  auto b = job.worker();
  EXPECT_EQ(a.rank() + b.rank(), 1U);
  EXPECT_EQ(code_of(Worker::open(job.worker_options(), soon())), Code::kResourceExhausted);
  auto options = job.worker_options();
  options.rank = 0;
  EXPECT_EQ(code_of(Worker::open(options, soon())), Code::kAlreadyExists);
  options.rank = 5;
  EXPECT_EQ(code_of(Worker::open(options, soon())), Code::kOutOfRange);
}

TEST(BadInput, JobsThatCannotBe) {
  const auto code = [](JobOptions options) {
    return code_of(Scheduler::open({options, device_options("shm")}));
  };
  EXPECT_EQ(code({.servers = 0}), Code::kOutOfRange);
  EXPECT_EQ(code({.workers = 0}), Code::kOutOfRange);
  EXPECT_EQ(code({.workers = 65}), Code::kOutOfRange);  // more than slots
  EXPECT_EQ(code({.block_bytes = 100}), Code::kOutOfRange);
  EXPECT_EQ(code({.block_bytes = 4097}), Code::kOutOfRange);
  Job job("shm", {});
  EXPECT_EQ(
      code_of(Server::open(
          {.scheduler = job.scheduler().endpoint(), .device = device_options("shm"), .shards = 0},
          soon())),
      Code::kOutOfRange);
  EXPECT_EQ(
      code_of(Server::open(
          {.scheduler = job.scheduler().endpoint(), .device = device_options("shm")}, soon())),
      Code::kResourceExhausted);
}

TEST(BadInput, WaitsEndInTime) {
  Job job("shm", {.workers = 2});
  auto worker = job.worker();
  const auto w = must(worker.init("w", f32({4}), {}, {UpdateKind::kSum}, soon()));
  const std::vector<float> ones(4, 1.0F);
  must(worker.push(w, raw(ones), soon()));
  must(worker.end_step(soon()));
  EXPECT_EQ(code_of(worker.pull(w, Deadline::after(50ms))), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(worker.barrier(Deadline::after(50ms))), Code::kDeadlineExceeded);
  // The other one comes, and all is well.
  auto other = job.worker();
  must(other.push(must(other.find("w", soon())), raw(ones), soon()));
  must(other.end_step(soon()));
  EXPECT_EQ(floats(must(worker.pull(w, soon())), 4), std::vector<float>(4, 2.0F));
}

TEST(BadInput, AWorkerThatPushesAndNeverPulls) {
  for (const auto consistency : {Consistency::kSync, Consistency::kAsync}) {
    Job job("tcp", {.consistency = consistency, .block_bytes = 4096, .pool_blocks = 2});
    auto worker = job.worker();
    const auto w = must(worker.init("w", f32({10000}), {}, {UpdateKind::kSum}, soon()));
    const std::vector<float> ones(10000, 1.0F);
    for (int step = 0; step < 100; ++step) {
      must(worker.push(w, raw(ones), soon()));
      must(worker.end_step(soon()));
    }
    must(worker.flush(soon()));
    EXPECT_EQ(floats(must(worker.pull(w, soon())), 10000), std::vector<float>(10000, 100.0F));
  }
}

// A lease that is held for long, and pushes meanwhile: the others are not held up, and what is held
// does not change.
TEST(Leases, ASlowReaderHoldsNobodyUp) {
  constexpr std::size_t kCount = 4096;
  Job job("shm", {.workers = 2, .consistency = Consistency::kAsync, .block_bytes = 4096});
  auto slow = job.worker();
  auto quick = job.worker();
  const auto w = must(slow.init("w", f32({kCount}), {}, {UpdateKind::kSum}, soon()));
  const auto v = must(quick.find("w", soon()));
  const std::vector<float> ones(kCount, 1.0F);
  const auto held = must(slow.pull(w, soon()));
  ASSERT_TRUE(held.in_place());
  for (int round = 1; round <= 50; ++round) {
    must(quick.push(v, raw(ones), soon()));
    must(quick.flush(soon()));
    const auto pulled = must(quick.pull(v, soon()));
    EXPECT_FALSE(pulled.in_place());  // a third version could not be written
    EXPECT_EQ(floats(pulled, kCount), std::vector<float>(kCount, static_cast<float>(round)));
  }
  EXPECT_EQ(floats(held, kCount), std::vector<float>(kCount));
  // A second one of the same worker is a copy.
  const auto second = must(slow.pull(w, soon()));
  EXPECT_FALSE(second.in_place());
  EXPECT_EQ(floats(second, kCount), std::vector<float>(kCount, 50.0F));
}

}  // namespace
}  // namespace ferry::ps::testing
