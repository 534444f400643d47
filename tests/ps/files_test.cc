#include <atomic>
#include <future>

#include "ferry/interop/fuse/model_files_internal.h"
#include "tests/ps/kit.h"

namespace ferry::interop {
namespace {

using namespace ps::testing;  // NOLINT(google-build-using-namespace): the kit of these tests

constexpr std::size_t kCount = 1000;

// One mount of a job, without the file system. While `gives_up` is set, its waits end
// unsuccessfully as they do when its patience is over.
struct Mount {
  explicit Mount(const Job& job)
      : files(job.worker(), 30s * kSlower, [this] { return gives_up.load(); }) {}

  std::shared_ptr<TensorFile> tensor(const std::string& name,
                                     ps::UpdateKind kind = ps::UpdateKind::kSum) {
    return must(files.make(name, f32({kCount}), {}, {kind}));
  }
  void write(TensorFile& tensor, float value, std::size_t from = 0, std::size_t to = kCount) {
    const std::vector<float> values(to - from, value);
    must(files.write(tensor, from * sizeof(float), raw(values)));
  }
  void commit_in_vain() {
    gives_up = true;
    EXPECT_EQ(code_of(files.commit()), Code::kCancelled);
    gives_up = false;
  }
  // The only value that all elements have.
  float value(TensorFile& tensor) {
    files.drop_cached(tensor);
    Piece piece;
    must(files.read_value(tensor, 0, tensor.bytes, piece));
    std::vector<float> all;
    for (const auto& span : piece.spans)
      for (const auto each : floats(span)) all.push_back(each);
    EXPECT_EQ(all, std::vector<float>(kCount, all.at(0)));
    return all.at(0);
  }

  std::atomic<bool> gives_up{false};
  ModelFiles files;
};

// A synchronous job of two mounts, and a tensor that sums up what both write.
class TwoMounts : public ::testing::Test {
 protected:
  // Both commit at the same time, as workers in step do.
  void commit_both() {
    auto other = std::async(std::launch::async, [this] { return b_.files.commit(); });
    must(a_.files.commit());
    must(other.get());
  }
  void expect_value(float expected) {
    EXPECT_EQ(a_.value(*in_a_), expected);
    EXPECT_EQ(b_.value(*in_b_), expected);
  }
  // The mounts are in step: a step of both adds what both have written, and nothing else.
  void expect_in_step(float before) {
    a_.write(*in_a_, 1000);
    b_.write(*in_b_, 2000);
    commit_both();
    expect_value(before + 3000);
  }

  Job job_{"shm", {.workers = 2}};
  Mount a_{job_};
  Mount b_{job_};
  std::shared_ptr<TensorFile> in_a_ = a_.tensor("w");
  std::shared_ptr<TensorFile> in_b_ = b_.tensor("w");
};

TEST_F(TwoMounts, ACommitThatFailedAndIsTriedAgainIsOneStep) {
  a_.write(*in_a_, 1);
  a_.commit_in_vain();
  a_.commit_in_vain();
  b_.write(*in_b_, 10);
  must(b_.files.commit());
  must(a_.files.commit());
  expect_value(11);
  expect_in_step(11);
}

TEST_F(TwoMounts, AnEmptyCommitThatFailedAndIsTriedAgainIsOneStep) {
  a_.commit_in_vain();
  b_.write(*in_b_, 10);
  must(b_.files.commit());
  must(a_.files.commit());
  expect_value(10);
  expect_in_step(10);
}

TEST_F(TwoMounts, ACommitThatFailedAndIsWrittenAndTriedAgainIsOneStep) {
  for (const bool truncates : {false, true}) {
    const auto before = a_.value(*in_a_);
    a_.write(*in_a_, 1);
    a_.commit_in_vain();
    if (truncates) must(a_.files.forget(*in_a_));
    a_.write(*in_a_, 1, 0, 700);
    a_.write(*in_a_, 1, 700, kCount);
    b_.write(*in_b_, 10);
    must(b_.files.commit());
    must(a_.files.commit());
    expect_value(before + 11);
  }
  expect_in_step(22);
}

TEST_F(TwoMounts, OtherBytesAfterACommitThatFailedAreTheNextStep) {
  a_.write(*in_a_, 1);
  a_.commit_in_vain();
  b_.write(*in_b_, 10);
  must(b_.files.commit());
  // A part that is the same as before, and one that is not: together they are one gradient.
  a_.write(*in_a_, 1, 0, 500);
  a_.write(*in_a_, 2, 500, 600);
  a_.write(*in_a_, 1, 600, kCount);
  a_.write(*in_a_, 1, 500, 600);
  b_.write(*in_b_, 10);
  commit_both();
  expect_value(22);
  expect_in_step(22);
}

TEST_F(TwoMounts, OtherTensorsAfterACommitThatFailedAreTheNextStep) {
  const auto more_in_a = a_.tensor("more");
  const auto more_in_b = b_.tensor("more");
  a_.write(*in_a_, 1);
  a_.commit_in_vain();
  a_.write(*in_a_, 1);
  a_.write(*more_in_a, 5);
  b_.write(*in_b_, 10);
  must(b_.files.commit());
  b_.write(*in_b_, 20);
  commit_both();
  expect_value(32);
  EXPECT_EQ(a_.value(*more_in_a), 5);
  EXPECT_EQ(b_.value(*more_in_b), 5);
  expect_in_step(32);
}

TEST_F(TwoMounts, AnAssignedTensorThatIsTruncatedAndWrittenAgainIsOneStep) {
  const auto assigned_in_a = a_.tensor("v", ps::UpdateKind::kAssign);
  a_.write(*assigned_in_a, 7);
  a_.commit_in_vain();
  must(a_.files.forget(*assigned_in_a));
  a_.write(*assigned_in_a, 7);
  must(b_.files.commit());
  must(a_.files.commit());
  EXPECT_EQ(a_.value(*assigned_in_a), 7);
  expect_in_step(0);
}

// A job without steps in common, whose servers do not read gradients for as long as `held` is set.
class LateServer : public ::testing::TestWithParam<ps::Consistency> {
 protected:
  ~LateServer() override { held_ = false; }

  void add_to(ps::ServerOptions& server) {
    server.functions["late"] = [this](const ps::UpdateCall& call) {
      const auto patience = Deadline::after(120s * kSlower);
      while (held_ && !patience.expired()) std::this_thread::sleep_for(1ms);
      for (std::size_t each = 0; each < call.count; ++each)
        call.updated[each] = call.weights[each] + call.gradient.sources[0][each];
    };
  }

  std::atomic<bool> held_{false};
  Job job_{
      "shm", {.consistency = GetParam()}, 1, [this](ps::ServerOptions& server) { add_to(server); }};
  Mount mount_{job_};
  std::shared_ptr<TensorFile> tensor_ = must(mount_.files.make(
      "w", f32({kCount}), {}, {.kind = ps::UpdateKind::kFunction, .function = "late"}));
};
INSTANTIATE_TEST_SUITE_P(WithoutSteps, LateServer,
                         ::testing::Values(ps::Consistency::kAsync, ps::Consistency::kBounded));

TEST_P(LateServer, ACommitThatFailedAndIsTriedAgainIsPushedOnce) {
  mount_.write(*tensor_, 1);
  held_ = true;
  mount_.commit_in_vain();
  mount_.commit_in_vain();
  held_ = false;
  must(mount_.files.commit());
  EXPECT_EQ(mount_.value(*tensor_), 1);
}

TEST_P(LateServer, AWriteAfterACommitThatFailedWaitsUntilServersHaveReadTheGradient) {
  mount_.write(*tensor_, 1);
  held_ = true;
  mount_.commit_in_vain();
  auto writer = std::async(std::launch::async, [this] { mount_.write(*tensor_, 100); });
  // A write that does not wait is done by then; one that waits goes on when the servers do.
  (void)writer.wait_for(300ms);
  held_ = false;
  writer.get();
  must(mount_.files.commit());
  EXPECT_EQ(mount_.value(*tensor_), 101);
}

}  // namespace
}  // namespace ferry::interop
