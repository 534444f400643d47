#include <gtest/gtest.h>

#include <map>

#include "ferry/ps/scheduler/job_state_internal.h"
#include "ferry/ps/scheduler/simulation_internal.h"

namespace ferry::ps {
namespace {

using simulation::Cluster;
using simulation::job_of;
using simulation::kSecond;
using simulation::WithSpare;

// The scheduler is started again.
struct Restarted : Cluster {
  Restarted() : Cluster(job_of(3, 3, 2)) {
    for (int each = 0; each < 3; ++each) workers.push_back(enter());
    make(workers[0], "w");
    restart(30 * kSecond);
  }
  Code server_back(std::uint32_t index, std::uint64_t token) {
    const auto peer = connect();
    const auto code = code_of(peer, ServerBack{index, token});
    if (code == Code::kOk) peers[index] = peer;
    return code;
  }
  Code worker_back(std::uint32_t rank) {
    const auto peer = connect();
    const auto code = code_of(peer, WorkerBack{rank, 1000 + workers[rank]});
    if (code == Code::kOk) returned[rank] = peer;
    return code;
  }
  std::vector<PeerId> workers;
  std::map<std::uint32_t, PeerId> returned;
};

TEST(JobStateReturn, QuestionsWaitUntilAllServersAreBack) {
  Restarted cluster;
  EXPECT_EQ(cluster.worker_back(0), Code::kOk);
  const auto question = cluster.ask(cluster.returned[0], FindTensor{"w"});
  const auto forgotten = cluster.ask(cluster.connect(), Show{Show::kMembers});
  EXPECT_EQ(cluster.code_of(question), Code::kUnknown);
  cluster.disconnect(forgotten.peer);
  for (std::uint32_t index = 0; index < 3; ++index)
    EXPECT_EQ(cluster.server_back(index, 100 + index), Code::kOk);
  EXPECT_EQ(cluster.server_back(0, 100), Code::kOk) << "on another connection";
  cluster.take(ServerSilent{0});  // is not looked at yet
  cluster.tick(kSecond);
  EXPECT_EQ(cluster.code_of(question), Code::kOk);
  EXPECT_FALSE(cluster.answer_to(forgotten));
  EXPECT_EQ(cluster.server_back(1, 101), Code::kUnavailable) << "it is there";
  EXPECT_EQ(cluster.worker_back(1), Code::kOk);
  EXPECT_EQ(cluster.worker_back(1), Code::kUnavailable) << "it is there";
  EXPECT_TRUE(cluster.image().view.gone.empty());
  EXPECT_FALSE(cluster.end);
}

TEST(JobStateReturn, StrangersAreRefused) {
  Restarted cluster;
  EXPECT_EQ(cluster.server_back(7, 1), Code::kPermissionDenied);
  EXPECT_EQ(cluster.server_back(0, 1), Code::kPermissionDenied);
  EXPECT_EQ(cluster.code_of(cluster.connect(), WorkerBack{9, 1}), Code::kPermissionDenied);
  EXPECT_EQ(cluster.code_of(cluster.connect(), WorkerBack{0, 1}), Code::kPermissionDenied);
}

TEST(JobStateReturn, AServerThatHasEndedIsNotWaitedFor) {
  Restarted cluster;
  EXPECT_EQ(cluster.server_back(0, 100), Code::kOk);
  EXPECT_EQ(cluster.server_back(1, 101), Code::kOk);
  cluster.tick(kSecond);
  EXPECT_TRUE(cluster.image().view.gone.empty());
  cluster.server(2).up = false;
  cluster.tick(kSecond + 1);  // too early to look again
  EXPECT_TRUE(cluster.image().view.gone.empty());
  cluster.tick(2 * kSecond);
  EXPECT_EQ(cluster.image().view.gone, std::vector<std::uint32_t>{2});
  EXPECT_EQ(cluster.server_back(2, 102), Code::kUnavailable);
}

TEST(JobStateReturn, WhoIsNotBackInTimeIsGone) {
  Restarted cluster;
  EXPECT_EQ(cluster.server_back(0, 100), Code::kOk);
  EXPECT_EQ(cluster.server_back(1, 101), Code::kOk);
  EXPECT_EQ(cluster.worker_back(0), Code::kOk);
  EXPECT_EQ(cluster.worker_back(1), Code::kOk);
  cluster.disconnect(cluster.peers[1]);  // and is back once more
  cluster.disconnect(cluster.returned[1]);
  EXPECT_EQ(cluster.server_back(1, 101), Code::kOk);
  cluster.tick(31 * kSecond);
  EXPECT_EQ(cluster.image().view.gone, std::vector<std::uint32_t>{2});
  EXPECT_EQ(cluster.job().stats().dead, 2U);
  EXPECT_EQ(cluster.code_of(cluster.returned[0], WaitBarrier{1}), Code::kOk);
}

TEST(JobStateReturn, AWorkerWhoseChannelHasEndedIsNotWaitedFor) {
  Restarted cluster;
  for (std::uint32_t index = 0; index < 3; ++index) cluster.server_back(index, 100 + index);
  EXPECT_EQ(cluster.worker_back(0), Code::kOk);
  cluster.tick(kSecond);
  EXPECT_EQ(cluster.job().stats().dead, 0U);
  cluster.ended_workers = {0, 1};
  cluster.tick(2 * kSecond);
  EXPECT_EQ(cluster.job().stats().dead, 1U) << "one that is back is there";
  EXPECT_EQ(cluster.worker_back(2), Code::kOk);
  cluster.tick(3 * kSecond);
  const auto asked = cluster.count_asked(Ask::kKnown);
  cluster.tick(4 * kSecond);
  EXPECT_EQ(cluster.count_asked(Ask::kKnown), asked) << "nobody is away any more";
}

TEST(JobStateReturn, WhoHasLeftIsToldSo) {
  Restarted cluster;
  for (std::uint32_t index = 0; index < 3; ++index) cluster.server_back(index, 100 + index);
  EXPECT_EQ(cluster.worker_back(0), Code::kOk);
  cluster.tick(kSecond);
  EXPECT_EQ(cluster.code_of(cluster.returned[0], Leave{}), Code::kOk);
  cluster.restart(60 * kSecond);
  EXPECT_EQ(cluster.worker_back(0), Code::kAlreadyExists);
}

TEST(JobStateReturn, AFailedReturnAnswersWhatWasAsked) {
  Restarted cluster;
  const auto question = cluster.ask(cluster.connect(), Show{Show::kMembers});
  cluster.server(0).up = cluster.server(1).up = false;
  cluster.tick(kSecond);
  ASSERT_TRUE(cluster.end && !*cluster.end);
  EXPECT_EQ(cluster.code_of(question), Code::kAborted);
  cluster.tick(2 * kSecond);
}

TEST(JobStateReturn, ACandidateGoesOnCatchingUp) {
  WithSpare cluster;
  cluster.let_make_shards();
  cluster.restart(30 * kSecond);
  for (const auto& [index, token] : {std::pair{0U, 100U}, {1U, 103U}, {2U, 102U}}) {
    const auto peer = cluster.connect();
    EXPECT_EQ(cluster.code_of(peer, ServerBack{index, token}), Code::kOk);
    cluster.peers[index] = peer;
  }
  cluster.tick(kSecond);
  EXPECT_EQ(cluster.image().view.coming, 1U) << "it says that it was told already";
  EXPECT_EQ(cluster.code_of(cluster.peers[1], CaughtUp{true}), Code::kOk);
  EXPECT_TRUE(cluster.image().view.gone.empty());
}
}  // namespace
}  // namespace ferry::ps
