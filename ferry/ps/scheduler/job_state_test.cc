#include <gtest/gtest.h>

#include "ferry/ps/scheduler/job_state_internal.h"
#include "ferry/ps/scheduler/simulation_internal.h"

namespace ferry::ps {
namespace {

using simulation::Cluster;
using simulation::job_of;
using simulation::place_of;
using simulation::Simulation;
using simulation::tensor_of;

TEST(JobState, WorkersWaitUntilAllServersAreReady) {
  Simulation cluster(job_of(2, 1, 1));
  const auto worker = cluster.connect();
  const auto question = cluster.ask(worker, JoinWorker{kNobody, 7});
  const auto init = cluster.ask(cluster.connect(), InitTensor{tensor_of("early")});
  EXPECT_EQ(cluster.answer_to(init)->error().code(), Code::kUnavailable);
  std::vector<PeerId> peers;
  for (std::uint32_t index = 0; index < 2; ++index) {
    peers.push_back(cluster.connect());
    cluster.ask(peers.back(), JoinServer{place_of(index), index});
  }
  cluster.ask(peers[0], ServerReady{});
  EXPECT_FALSE(cluster.answer_to(question));
  EXPECT_FALSE(cluster.stored) << "a job that has not begun has nothing to lose";
  cluster.ask(peers[1], ServerReady{});
  ASSERT_TRUE(cluster.answer_to(question));
  const auto answer = **cluster.answer_to(question);
  bootstrap::Decoder in(answer);
  const auto welcome = get_welcome(in);
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->servers.size(), 2U);
  EXPECT_EQ(welcome->token, 7U);
  EXPECT_TRUE(cluster.stored);
}

TEST(JobState, RefusesWhoCannotJoin) {
  struct Case {
    std::uint32_t wanted;
    Code code;
  };
  Cluster cluster(job_of(1, 2, 1));
  const auto first = cluster.join(1);
  for (const auto& each : {Case{2, Code::kOutOfRange}, Case{1, Code::kAlreadyExists},
                           Case{0, Code::kOk}, Case{kNobody, Code::kResourceExhausted}})
    EXPECT_EQ(cluster.code_of(cluster.connect(), JoinWorker{each.wanted, 1}), each.code)
        << each.wanted;
  EXPECT_EQ(cluster.code_of(cluster.join_server(1)), Code::kResourceExhausted);
  EXPECT_EQ(cluster.code_of(cluster.connect(), ServerReady{}), Code::kUnavailable);
  // A question of who is no worker of the job.
  const std::vector<Request> requests{Enter{}, Show{Show::kNeighbours}, WaitBarrier{1},
                                      Show{Show::kView}, Leave{}};
  for (const auto& request : requests)
    EXPECT_EQ(cluster.code_of(cluster.connect(), request), Code::kFailedPrecondition);
  EXPECT_EQ(cluster.code_of(cluster.connect(), CaughtUp{true}), Code::kFailedPrecondition);
  EXPECT_EQ(cluster.code_of(first, FindTensor{"none"}), Code::kNotFound);
  EXPECT_EQ(cluster.code_of(first, Show{Show::kView}), Code::kOk);
}

TEST(JobState, SpareServersAreForSynchronousReplicatedJobs) {
  auto job = job_of(2, 1, 2);
  job.consistency = Consistency::kAsync;
  Cluster async(job);
  EXPECT_EQ(async.code_of(async.join_server(2)), Code::kUnimplemented);
  Cluster sync(job_of(2, 1, 2));
  EXPECT_EQ(sync.code_of(sync.join_server(2)), Code::kUnknown);
  auto other = place_of(3);
  other.shards = 5;
  EXPECT_EQ(sync.code_of(sync.connect(), JoinServer{other, 1}), Code::kInvalidArgument);
}

TEST(JobState, AServerThatCannotBeReachedDoesNotJoin) {
  Simulation cluster(job_of(1, 1, 1));
  cluster.servers[place_of(0).control].up = false;
  const auto question = cluster.ask(cluster.connect(), JoinServer{place_of(0), 1});
  EXPECT_EQ(cluster.answer_to(question)->error().code(), Code::kUnavailable);
}

TEST(JobState, WhoeverFindsATensorWaitsForItsFirstValues) {
  Cluster cluster(job_of(2, 3, 1));
  const auto maker = cluster.enter();
  const auto other = cluster.enter();
  const auto third = cluster.enter();
  const auto made = cluster.ask(maker, InitTensor{tensor_of("w")});
  EXPECT_EQ(cluster.code_of(made), Code::kOk);
  EXPECT_EQ(cluster.code_of(maker, InitTensor{tensor_of("w")}), Code::kOk) << "asked again";
  const auto found = cluster.ask(other, FindTensor{"w"});
  const auto init = cluster.ask(third, InitTensor{tensor_of("w")});
  EXPECT_EQ(cluster.code_of(third, InitTensor{tensor_of("w", 9)}), Code::kAlreadyExists);
  EXPECT_EQ(cluster.code_of(found), Code::kUnknown);
  EXPECT_EQ(cluster.code_of(init), Code::kUnknown);
  EXPECT_TRUE((*cluster.answer_to(cluster.ask(maker, Show{Show::kTensors})))->empty());
  EXPECT_EQ(cluster.code_of(maker, TensorThere{1}), Code::kOk);
  EXPECT_EQ(cluster.code_of(found), Code::kOk);
  EXPECT_EQ(cluster.code_of(init), Code::kOk);
  EXPECT_FALSE((*cluster.answer_to(cluster.ask(maker, Show{Show::kTensors})))->empty());
}

TEST(JobState, ATensorWhoseMakerDiesIsForgotten) {
  Cluster cluster(job_of(2, 2, 1));
  const auto maker = cluster.enter();
  const auto other = cluster.enter();
  cluster.ask(maker, InitTensor{tensor_of("w")});
  const auto found = cluster.ask(other, FindTensor{"w"});
  EXPECT_EQ(cluster.server(0).tensors.size(), 1U);
  cluster.disconnect(maker);
  EXPECT_EQ(cluster.code_of(found), Code::kAborted);
  EXPECT_TRUE(cluster.server(0).tensors.empty());
  EXPECT_EQ(cluster.job().stats().tensors, 0U);
}

TEST(JobState, ATensorThatOneServerCannotHoldIsOnNone) {
  Cluster cluster(job_of(2, 1, 1));
  const auto worker = cluster.enter();
  cluster.server(1).full = true;
  EXPECT_EQ(cluster.code_of(worker, InitTensor{tensor_of("w")}), Code::kResourceExhausted);
  EXPECT_TRUE(cluster.server(0).tensors.empty());
  cluster.server(1).full = false;
  EXPECT_EQ(cluster.code_of(worker, InitTensor{tensor_of("w")}), Code::kOk);
  EXPECT_EQ(cluster.image().last_tensor, 2U) << "a number is used once";
}

TEST(JobState, ATensorIsMadeWithoutAServerThatDiesMeanwhile) {
  Cluster cluster(job_of(3, 1, 2));
  const auto worker = cluster.enter();
  cluster.server(1).up = false;
  EXPECT_EQ(cluster.code_of(worker, InitTensor{tensor_of("w")}), Code::kOk);
}

TEST(JobState, ABarrierWaitsForMembersAndLetsNobodyThroughTwice) {
  auto job = job_of(1, 3, 1);
  job.start_with = 2;
  Cluster cluster(job);
  const auto a = cluster.enter();
  const auto b = cluster.enter();
  const auto waits = cluster.ask(a, WaitBarrier{1});
  EXPECT_EQ(cluster.code_of(waits), Code::kUnknown);
  const auto late = cluster.join();  // has not entered: nobody waits for it
  EXPECT_EQ(cluster.code_of(b, WaitBarrier{1}), Code::kOk);
  EXPECT_EQ(cluster.code_of(waits), Code::kOk);
  EXPECT_EQ(cluster.code_of(b, WaitBarrier{1}), Code::kOk) << "the answer was lost";
  EXPECT_EQ(cluster.code_of(late, Enter{}), Code::kOk);
  const auto next = cluster.ask(a, WaitBarrier{2});
  cluster.disconnect(b);
  EXPECT_EQ(cluster.code_of(next), Code::kUnknown);
  cluster.disconnect(late);
  EXPECT_EQ(cluster.code_of(next), Code::kOk) << "the dead are not waited for";
}

// They used to be left without: a worker that waits for long came to the bound of its questions.
TEST(JobState, AQuestionThatIsAskedAgainIsAnswered) {
  Cluster cluster(job_of(1, 2, 1));
  const auto a = cluster.enter();
  const auto b = cluster.enter();
  cluster.ask(a, InitTensor{tensor_of("w")});
  const std::vector<Request> requests{WaitBarrier{1}, FindTensor{"w"}};
  for (const auto& request : requests) {
    const auto former = cluster.ask(b, request);
    EXPECT_EQ(cluster.code_of(former), Code::kUnknown);
    EXPECT_EQ(cluster.code_of(b, request), Code::kUnknown);
    EXPECT_EQ(cluster.code_of(former), Code::kCancelled);
  }
  EXPECT_EQ(cluster.code_of(b, InitTensor{tensor_of("w")}), Code::kUnknown);
  EXPECT_EQ(cluster.open.size(), 2U) << "the newest at the barrier, and for the tensor";
  EXPECT_EQ(cluster.code_of(b, Leave{}), Code::kOk);
  EXPECT_EQ(cluster.open.size(), 1U) << "who leaves does not wait at a barrier";
}

TEST(JobState, AQuestionThatIsAskedAgainBeforeServersAreBackIsAnswered) {
  Cluster cluster(job_of(1, 1, 1));
  const auto token = 1000 + cluster.enter();
  cluster.restart(30 * simulation::kSecond);
  const auto peer = cluster.connect();
  EXPECT_EQ(cluster.code_of(peer, WorkerBack{0, token}), Code::kOk);
  const auto former = cluster.ask(peer, WaitBarrier{1});
  const auto newest = cluster.ask(peer, WaitBarrier{1});
  EXPECT_EQ(cluster.code_of(former), Code::kCancelled);
  EXPECT_EQ(cluster.code_of(newest), Code::kUnknown);
  EXPECT_EQ(cluster.code_of(cluster.connect(), ServerBack{0, 100}), Code::kOk);
  cluster.tick(simulation::kSecond);
  EXPECT_EQ(cluster.code_of(newest), Code::kOk);
}

TEST(JobState, DecidesADepartureByWhatServersHaveSeen) {
  struct Case {
    bool merge;
    bool died;
    std::uint64_t ended[2];
    std::uint64_t folded[2];
    std::uint64_t through;
    std::uint32_t attempt;
    std::uint64_t restarted;
  };
  const Case cases[] = {
      {false, true, {3, 4}, {0, 0}, 4, 0, 0},  // what one has seen counts everywhere
      {false, true, {3, 3}, {4, 0}, 3, 1, 4},  // what was added up does not count: once more
      {false, true, {4, 4}, {4, 0}, 4, 0, 0},  // what was added up counts
      {true, true, {3, 2}, {0, 0}, 3, 1, 4},   // hosts merge: always
      {true, false, {5, 5}, {0, 0}, 5, 1, 6}, {false, false, {5, 5}, {0, 0}, 5, 0, 0},
  };
  for (const auto& each : cases) {
    auto job = job_of(2, 2, 1);
    job.merge = each.merge;
    Cluster cluster(job);
    const auto worker = cluster.enter();
    cluster.enter();
    for (std::uint32_t index = 0; index < 2; ++index) {
      cluster.server(index).ended[0] = each.ended[index];
      cluster.server(index).folded[0] = each.folded[index];
    }
    // The scheduler ends before servers are told; the next one says what was decided.
    cluster.effects_left = 4;  // write, log or answer, freeze, write
    bool crashed = false;
    try {
      if (each.died)
        cluster.disconnect(worker);
      else
        cluster.ask(worker, Leave{});
    } catch (const simulation::Crash&) {
      crashed = true;
    }
    EXPECT_TRUE(crashed);
    const auto image = *JobImage::decode(*cluster.stored, job);
    ASSERT_TRUE(image && image->departure);
    ASSERT_TRUE(image->departure->decided);
    EXPECT_EQ(image->departure->through, each.through);
    EXPECT_EQ(image->departure->attempt, each.attempt);
    EXPECT_EQ(image->departure->restarted, each.restarted);
    EXPECT_EQ(image->dead, each.died ? 1U : 0U);
  }
}

TEST(JobState, AWorkerThatEntersLateCountsFromAStepThatNobodyHasApplied) {
  for (const bool merge : {false, true}) {
    auto job = job_of(2, 2, 1);
    job.start_with = 1;
    job.merge = merge;
    Cluster cluster(job);
    cluster.enter();
    cluster.server(0).clock = 6;
    cluster.server(1).clock = 7;
    const auto worker = cluster.join();
    const auto answer = cluster.answer_to(cluster.ask(worker, Enter{"host", "device", "at"}));
    ASSERT_TRUE(answer && *answer);
    bootstrap::Decoder in(**answer);
    EXPECT_EQ(in.u64(), 7U);
    EXPECT_EQ(in.u32(), merge ? 1U : 0U);
    EXPECT_FALSE(cluster.server(0).held);
    const auto neighbours = cluster.answer_to(cluster.ask(worker, Show{Show::kNeighbours}));
    EXPECT_GT((*neighbours)->size(), 8U);
    EXPECT_EQ((*cluster.answer_to(cluster.ask(worker, Show{Show::kMembers})))->size(), 8U);
  }
}

TEST(JobState, AWorkerDoesNotEnterIfAServerCannotHold) {
  auto job = job_of(2, 2, 1);
  job.start_with = 1;
  Cluster cluster(job);
  cluster.enter();
  const auto worker = cluster.join();
  cluster.server(1).silent = true;
  EXPECT_EQ(cluster.code_of(worker, Enter{}), Code::kDeadlineExceeded);
  EXPECT_FALSE(cluster.server(0).held) << "nobody holds for ever";
  cluster.server(1).silent = false;
  EXPECT_EQ(cluster.code_of(worker, Enter{}), Code::kOk);
}

TEST(JobState, TooManyDeadEndTheJob) {
  auto job = job_of(1, 3, 1);
  job.most_dead = 1;
  Cluster cluster(job);
  const auto a = cluster.enter();
  const auto b = cluster.enter();
  cluster.enter();
  cluster.disconnect(a);
  EXPECT_FALSE(cluster.end);
  cluster.disconnect(b);
  ASSERT_TRUE(cluster.end && !*cluster.end);
  EXPECT_EQ(cluster.job().stats().dead, 2U);
}

TEST(JobState, TheJobIsOverWhenEverybodyHasLeft) {
  Cluster cluster(job_of(2, 2, 2));
  const auto a = cluster.enter();
  const auto b = cluster.enter();
  const auto spare = cluster.join_server(2);
  EXPECT_EQ(cluster.code_of(a, Leave{}), Code::kOk);
  EXPECT_FALSE(cluster.end);
  EXPECT_EQ(cluster.code_of(b, Leave{}), Code::kOk);
  ASSERT_TRUE(cluster.end);
  EXPECT_TRUE(*cluster.end);
  EXPECT_EQ(cluster.code_of(spare), Code::kUnavailable);
  EXPECT_EQ(cluster.server(0).stops, 1);
  EXPECT_EQ(cluster.job().stats().left, 2U);
  EXPECT_EQ(cluster.code_of(cluster.connect(), JoinWorker{kNobody, 1}), Code::kUnavailable);
  EXPECT_EQ(cluster.code_of(a, Leave{}), Code::kFailedPrecondition);
  cluster.kill(0);
  EXPECT_TRUE(*JobImage::decode(*cluster.stored, job_of(2, 2, 2)) == std::nullopt);
}

TEST(JobState, TakesASnapshotOfServersThatAreInOneStep) {
  Cluster cluster(job_of(2, 1, 1));
  const auto worker = cluster.enter();
  cluster.make(worker, "w");
  const auto answer = cluster.answer_to(cluster.ask(worker, TakeSnapshot{"folder"}));
  ASSERT_TRUE(answer && *answer);
  EXPECT_EQ(cluster.count_asked(Ask::kSave), 2);
  cluster.server(0).clock = 1;
  EXPECT_EQ(cluster.code_of(worker, TakeSnapshot{"folder"}), Code::kFailedPrecondition);
  cluster.server(1).clock = 1;
  cluster.snapshot_finished = fail(Code::kResourceExhausted, "disk full");
  EXPECT_EQ(cluster.code_of(worker, TakeSnapshot{"folder"}), Code::kResourceExhausted);
  cluster.server(1).silent = true;
  EXPECT_EQ(cluster.code_of(worker, TakeSnapshot{"folder"}), Code::kDeadlineExceeded);
  cluster.snapshot_path = fail(Code::kUnavailable, "no folder");
  EXPECT_EQ(cluster.code_of(worker, TakeSnapshot{"folder"}), Code::kUnavailable);
}

TEST(JobState, BeginsWithASnapshot) {
  const SnapshotToRestore snapshot{"path", {tensor_of("a"), tensor_of("b")}, 3};
  Cluster cluster(job_of(2, 1, 1), true, snapshot);
  EXPECT_EQ(cluster.code_of(cluster.ready.back()), Code::kOk);
  EXPECT_EQ(cluster.server(1).tensors.size(), 2U);
  EXPECT_EQ(cluster.code_of(cluster.enter(), FindTensor{"b"}), Code::kOk);
}

TEST(JobState, ASnapshotThatCannotBeRestoredEndsTheJob) {
  TensorInfo huge = tensor_of("huge");
  huge.spec.shape = *tensor::Shape::of({std::int64_t{1} << 62});
  for (const bool full : {true, false}) {
    Simulation cluster(job_of(1, 1, 1), true,
                       SnapshotToRestore{"path", {full ? tensor_of("a") : huge}, 1});
    const auto peer = cluster.connect();
    cluster.servers[place_of(0).control].full = full;
    cluster.ask(peer, JoinServer{place_of(0), 1});
    const auto ready = cluster.ask(peer, ServerReady{});
    ASSERT_TRUE(cluster.end && !*cluster.end);
    ASSERT_TRUE(cluster.answer_to(ready));
    EXPECT_FALSE(*cluster.answer_to(ready));
  }
}

TEST(JobState, ATensorOfTooManyBytesIsRefused) {
  Cluster cluster(job_of(1, 1, 1));
  TensorInfo huge = tensor_of("huge");
  huge.spec.shape = *tensor::Shape::of({std::int64_t{1} << 62});
  const auto code = cluster.code_of(cluster.enter(), InitTensor{huge});
  EXPECT_TRUE(code != Code::kOk && code != Code::kUnknown);
}

TEST(JobState, AStateThatCannotBeWrittenEndsTheJobBeforeAnybodyIsTold) {
  for (const bool superseded : {true, false}) {
    Cluster cluster(job_of(2, 2, 2));
    const auto worker = cluster.enter();
    const auto waits = cluster.ask(worker, WaitBarrier{1});
    cluster.write_failure = Error(Code::kAborted, "disk full", 0, "", 0);
    cluster.superseded = superseded;
    const auto joins = cluster.ask(cluster.connect(), JoinWorker{kNobody, 1});
    EXPECT_EQ(cluster.code_of(joins), Code::kAborted);
    EXPECT_EQ(cluster.code_of(waits), Code::kAborted);
    EXPECT_EQ(cluster.server(0).stops, superseded ? 0 : 1);
    EXPECT_EQ(cluster.code_of(worker, Leave{}), Code::kAborted) << "nobody would know of it";
    ASSERT_TRUE(cluster.end && !*cluster.end);
  }
}

TEST(JobState, AWorkerThatEntersWhenTheStateCannotBeWrittenHoldsNobody) {
  auto job = job_of(2, 2, 2);
  job.start_with = 1;
  Cluster cluster(job);
  cluster.enter();
  const auto worker = cluster.join();
  cluster.ask(worker, Show{Show::kMembers});
  cluster.server(0).clock = 3;
  cluster.write_failure = Error(Code::kAborted, "superseded", 0, "", 0);
  cluster.superseded = true;
  cluster.writes_left = 1;  // of where it is
  EXPECT_EQ(cluster.code_of(worker, Enter{"h", "d", ""}), Code::kAborted);
  EXPECT_EQ(cluster.count_asked(Ask::kHold), 2);
  EXPECT_FALSE(cluster.server(0).held);
  EXPECT_FALSE(cluster.server(1).held);
}
}  // namespace
}  // namespace ferry::ps
