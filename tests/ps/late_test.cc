#include <signal.h>

#include <algorithm>
#include <atomic>

#include "tests/ps/roles.h"
#include "tests/stall.h"

// Pulls that are stopped between their look at a block and the copy, while the server goes on to
// the next versions: what a worker gets is an error or whole. See docs/design/late-readers.md.

namespace ferry::ps::testing {
namespace {

using trial::Stall;

constexpr std::int64_t kValues = 1024;

// A server that adds gradients and stops in the middle of one of the blocks that it writes.
struct HalfWriter {
  std::atomic<int> calls{0};
  std::atomic<int> stop_in{0};  // which call
  std::atomic<bool> half{false};
  std::atomic<bool> go{false};

  void add_to(ServerOptions& server) {
    server.functions["half"] = [this](const UpdateCall& call) {
      const bool stops = ++calls == stop_in;
      for (std::size_t each = 0; each < call.count; ++each) {
        if (stops && each == call.count / 2) {
          half = true;
          const auto patience = Deadline::after(60s * kSlower);
          while (!go && !patience.expired()) std::this_thread::sleep_for(1ms);
        }
        call.updated[each] = call.weights[each] + call.gradient.sources[0][each];
      }
    };
  }
};

bool is_whole(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](float value) { return value == values.front(); });
}

Status pull_all(Worker& worker, Parameter w, std::vector<float>& out, bool rows) {
  const auto bytes = std::as_writable_bytes(std::span(out));
  const std::vector<std::uint64_t> row = {0};
  return rows ? worker.pull_rows(w, row, bytes, soon()) : worker.pull_to(w, bytes, soon());
}

// Exit status of the role below.
enum Late : int { kToldSo = 0, kWhole = 11, kTorn = 12, kOtherError = 13 };

int outcome(const Status& status, const std::vector<float>& values) {
  if (!status) {
    std::fprintf(stderr, "late: %s\n", status.error().to_string().c_str());
    return status.error().code() == Code::kUnavailable ? kToldSo : kOtherError;
  }
  return is_whole(values) ? kWhole : kTorn;
}

StallPoint stop_at{};
void stop_here(StallPoint at) {
  if (at != stop_at) return;
  stall_hook = nullptr;
  ::raise(SIGSTOP);
}

}  // namespace

// A worker process that stops itself while it pulls, and says how the pull ended.
int pull_late(const std::vector<std::string>& words) {
  auto worker = must(
      Worker::open({.scheduler = words.at(0), .device = device_options("shm"), .rank = 0}, soon()));
  const auto w = must(worker.find("w", soon()));
  const auto& how = words.at(1);
  std::vector<float> out(kValues);
  if (how == "held") {
    auto pulled = must(worker.pull(w, soon()));
    if (!pulled.in_place()) return kOtherError;
    ::raise(SIGSTOP);
    out = floats(pulled, kValues);
    return outcome(pulled.release(), out);
  }
  stop_at = how == "lease" ? StallPoint::kEndLookAtLease : StallPoint::kCopyBlock;
  stall_hook = &stop_here;
  if (how != "lease") return outcome(pull_all(worker, w, out, how == "rows"), out);
  auto pulled = worker.pull(w, soon());
  if (!pulled) return outcome(Status(tl::unexpected(pulled.error())), out);
  out = floats(*pulled, kValues);
  return outcome(pulled->release(), out);
}

namespace {

class LatePull : public ::testing::Test {
 protected:
  void open(const char* provider, Nanos give_up = 60s) {
    job_.emplace(
        provider,
        JobOptions{.workers = 2, .consistency = Consistency::kAsync, .block_bytes = 65536}, 1,
        [this](ServerOptions& server) { writer_.add_to(server); }, give_up);
    other_.emplace(job_->worker(1));
    w_ = must(other_->init("w", f32({1, kValues}), {},
                           {.kind = UpdateKind::kFunction, .function = "half"}, soon()));
  }
  // Two versions beside the one that the late worker has looked at, and the half of a third, which
  // has no other place than that one's. The third push returns when the writer may go on.
  void overtake() {
    push();
    push();
    writer_.stop_in = writer_.calls + 1;
    pushing_ = std::thread([this] { push(); });
  }
  void push() { must(other_->push(w_, raw(ones_), soon())); }
  void end_push() {
    writer_.go = true;
    if (pushing_.joinable()) pushing_.join();
  }
  void TearDown() override {
    end_push();
    other_.reset();
  }

  HalfWriter writer_;
  std::optional<Job> job_;
  std::optional<Worker> other_;
  Parameter w_ = 0;
  const std::vector<float> ones_ = std::vector<float>(kValues, 1.0F);
  std::thread pushing_;
};

class GivenUp : public LatePull, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(While, GivenUp, ::testing::Values("copy", "rows", "held"),
                         [](const auto& how) { return std::string(how.param); });

TEST_P(GivenUp, APullSaysThatItCannotBeTrusted) {
  open("shm", 2s * kSlower);
  auto late = Process::start({"--role", "pull-late", job_->scheduler().endpoint(), GetParam()});
  late.wait_for_stop();
  // A lease that is held leaves the server a plane to write: it goes when another worker comes.
  std::optional<Worker> next;
  if (GetParam() == std::string("held")) {
    ASSERT_TRUE(until([this] { return job_->scheduler().stats().dead == 1; }));
    next.emplace(job_->worker(0));
  }
  overtake();
  EXPECT_TRUE(until([this] { return writer_.half.load(); }));
  late.signal(SIGCONT);
  EXPECT_EQ(late.wait(), kToldSo);
}

// It has its rank from a worker that was stopped when it was about to bound its own lease.
TEST_F(LatePull, ALeaseIsNotBoundedByAWorkerThatHadTheSeatBefore) {
  open("shm", 2s * kSlower);
  auto late = Process::start({"--role", "pull-late", job_->scheduler().endpoint(), "lease"});
  late.wait_for_stop();
  ASSERT_TRUE(until([this] { return job_->scheduler().stats().dead == 1; }));
  push();
  auto next = job_->worker(0);
  auto held = must(next.pull(must(next.find("w", soon())), soon()));
  ASSERT_TRUE(held.in_place());
  late.signal(SIGCONT);
  EXPECT_EQ(late.wait(), kToldSo);
  for (int each = 0; each < 4; ++each) push();
  EXPECT_EQ(floats(held, kValues), ones_);
  must(held.release());
}

class Stalled : public LatePull, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Pulls, Stalled, ::testing::Bool(),
                         [](const auto& rows) { return rows.param ? "rows" : "all"; });

TEST_P(Stalled, WhatIsBeingCopiedIsNotOverwritten) {
  open("shm");
  auto worker = job_->worker(0);
  const auto w = must(worker.find("w", soon()));
  Stall stall(StallPoint::kCopyBlock);
  std::vector<float> out(kValues);
  Status pulled;
  std::thread late([&] { pulled = pull_all(worker, w, out, GetParam()); });
  const bool stopped = Stall::await(soon());
  overtake();
  for (const auto enough = Deadline::after(300ms); !writer_.half && !enough.expired();)
    std::this_thread::sleep_for(1ms);
  Stall::let_go();
  late.join();
  ASSERT_TRUE(stopped);
  must(pulled);
  EXPECT_TRUE(is_whole(out));
}

// No lease: the stamp of what was read differs before and after.
TEST_P(Stalled, WhatWasOverwrittenIsReadAgain) {
  open("tcp");
  auto worker = job_->worker(0);
  const auto w = must(worker.find("w", soon()));
  Stall stall(StallPoint::kReadBlocks);
  std::vector<float> out(kValues);
  Status pulled;
  std::thread late([&] { pulled = pull_all(worker, w, out, GetParam()); });
  const bool stopped = Stall::await(soon());
  overtake();
  EXPECT_TRUE(until([this] { return writer_.half.load(); }));
  Stall::let_go();
  late.join();
  ASSERT_TRUE(stopped);
  must(pulled);
  EXPECT_TRUE(is_whole(out));
  EXPECT_GT(worker.stats().torn_reads, 0U);
}

}  // namespace
}  // namespace ferry::ps::testing
