#include <gtest/gtest.h>

#include <functional>

#include "ferry/ps/scheduler/job_state_internal.h"
#include "ferry/ps/scheduler/simulation_internal.h"
#include "ferry/ps/wire/protocol_version_internal.h"

namespace ferry::ps {
namespace {

using simulation::Cluster;
using simulation::job_of;
using simulation::place_of;
using simulation::Simulation;
using simulation::tensor_of;
using simulation::WithSpare;

TEST(JobStateServers, AServerThatIsGoneWithoutACopyEndsTheJob) {
  Cluster cluster(job_of(2, 2, 1));
  const auto worker = cluster.enter();
  cluster.enter();
  const auto waits = cluster.ask(worker, WaitBarrier{1});
  cluster.kill(0);
  ASSERT_TRUE(cluster.end && !*cluster.end);
  EXPECT_EQ(cluster.end->error().code(), Code::kAborted);
  EXPECT_EQ(cluster.code_of(waits), Code::kAborted);
  EXPECT_EQ(cluster.server(1).stops, 1);
  EXPECT_EQ(cluster.code_of(worker, Show{Show::kMembers}), Code::kAborted);
  EXPECT_EQ(cluster.code_of(worker, Leave{}), Code::kOk);
  cluster.kill(1);
  EXPECT_FALSE(JobImage::decode(*cluster.stored, job_of(2, 2, 1)));
}

TEST(JobStateServers, AServerThatIsGoneBeforeTheJobBeginsEndsIt) {
  Simulation cluster(job_of(2, 1, 2));
  const auto peer = cluster.connect();
  cluster.ask(peer, JoinServer{place_of(0), 1});
  const auto worker = cluster.ask(cluster.connect(), JoinWorker{kNobody, 1});
  cluster.disconnect(peer);
  EXPECT_TRUE(cluster.end && !*cluster.end);
  EXPECT_TRUE(cluster.answer_to(worker));
  EXPECT_FALSE(cluster.stored);
}

TEST(JobStateServers, ASilentServerIsTakenOverByItsCopy) {
  Cluster cluster(job_of(3, 1, 2));
  const auto worker = cluster.enter();
  cluster.server(1).silent = true;
  cluster.take(ServerSilent{1});
  EXPECT_FALSE(cluster.end);
  EXPECT_EQ(cluster.image().view.gone, std::vector<std::uint32_t>{1});
  EXPECT_EQ(cluster.server(2).view, 1U);
  EXPECT_EQ(cluster.job().stats().servers_gone, 1U);
  cluster.take(ServerSilent{1});  // it is known
  EXPECT_EQ(cluster.image().view.number, 1U);
  EXPECT_EQ(cluster.code_of(cluster.peers[1], ServerReady{}), Code::kUnavailable);
  // Of three servers any two are neighbours.
  cluster.kill(2);
  ASSERT_TRUE(cluster.end && !*cluster.end);
  EXPECT_NE(cluster.end->error().message().find("both copies"), std::string::npos);
  EXPECT_EQ(cluster.code_of(worker, Show{Show::kView}), Code::kAborted);
}

TEST(JobStateServers, AServerThatCannotFreezeAWorkerIsTakenOutFirst) {
  Cluster cluster(job_of(3, 2, 2));
  const auto worker = cluster.enter();
  cluster.enter();
  cluster.server(2).silent = true;
  cluster.disconnect(worker);
  EXPECT_FALSE(cluster.end);
  EXPECT_TRUE(cluster.image().view.is_gone(2));
  std::vector<Ask> order;
  for (const auto& [what, index] : cluster.asked)
    if (index == 0) order.push_back(what);
  const auto moved = std::find(order.rbegin(), order.rend(), Ask::kApplyView);
  const auto told = std::find(order.rbegin(), order.rend(), Ask::kDepart);
  EXPECT_GT(moved - order.rbegin(), told - order.rbegin()) << "the view comes before what counts";
  EXPECT_FALSE(cluster.image().departure);
}

TEST(JobStateServers, ADepartureThatFindsBothCopiesGoneEndsTheJob) {
  Cluster cluster(job_of(3, 2, 2));
  const auto worker = cluster.enter();
  cluster.enter();
  cluster.server(1).silent = cluster.server(2).silent = true;
  cluster.disconnect(worker);
  ASSERT_TRUE(cluster.end && !*cluster.end);
}

TEST(JobStateServers, ASpareTakesThePlaceOfAServerThatIsGone) {
  WithSpare cluster;
  ASSERT_TRUE(cluster.is_placed());
  const auto answer = **cluster.answer_to(cluster.question);
  bootstrap::Decoder in(answer);
  EXPECT_TRUE(check_protocol_version(in, "server", "scheduler"));
  EXPECT_EQ(in.u32(), 1U);  // the place
  EXPECT_EQ(in.u32(), 2U);  // its first shard
  EXPECT_EQ(in.u8(), 1U);
  cluster.server(0).clock = 8;
  cluster.let_make_shards();
  EXPECT_EQ(cluster.image().view.coming, 1U);
  EXPECT_EQ(cluster.image().view.newcomers.front().since, 9U);
  EXPECT_EQ(cluster.server(3).tensors.size(), 1U);
  EXPECT_TRUE(cluster.server(3).catching_up);
  EXPECT_FALSE(cluster.server(0).held);
  // Whoever enters waits for it.
  const auto other = cluster.join();
  const auto member = cluster.code_of(other, Enter{});
  EXPECT_EQ(member, Code::kOk) << "the first steps wait for it already";
  EXPECT_EQ(cluster.code_of(cluster.peers[3], CaughtUp{true}), Code::kOk);
  EXPECT_TRUE(cluster.image().view.gone.empty());
  cluster.kill(2);
  EXPECT_FALSE(cluster.end) << "its neighbours may go again";
}

TEST(JobStateServers, WorkersEnterWhenACandidateHasCaughtUp) {
  for (const bool well : {true, false}) {
    WithSpare cluster;
    cluster.let_make_shards();
    const auto other = cluster.enter();
    cluster.disconnect(other);
    const auto back = cluster.join();
    const auto entering = cluster.ask(back, Enter{});
    EXPECT_EQ(cluster.code_of(entering), Code::kUnknown);
    EXPECT_EQ(cluster.code_of(cluster.peers[3], CaughtUp{well}), Code::kOk);
    EXPECT_EQ(cluster.code_of(entering), Code::kOk);
    EXPECT_EQ(cluster.image().view.gone.size(), well ? 0U : 1U);
  }
}

TEST(JobStateServers, ACandidateGivesWayIfNobodyIsLeftToEndAStep) {
  WithSpare cluster;
  const auto other = cluster.enter();
  cluster.let_make_shards();
  cluster.disconnect(cluster.worker);
  const auto back = cluster.join();
  const auto entering = cluster.ask(back, Enter{});
  EXPECT_EQ(cluster.code_of(entering), Code::kUnknown);
  cluster.disconnect(other);
  EXPECT_EQ(cluster.code_of(entering), Code::kOk);
  EXPECT_EQ(cluster.image().view.coming, JobView::kNobody);
}

TEST(JobStateServers, ACandidateThatFailsMakesRoomForTheNext) {
  struct Case {
    const char* what;
    std::function<void(WithSpare&)> happens;
  };
  const Case cases[] = {
      {"it has no memory",
       [](WithSpare& cluster) {
         cluster.server(3).full = true;
         cluster.let_make_shards();
       }},
      {"it ends while it makes its shards", [](WithSpare& cluster) { cluster.kill(3); }},
      {"it is silent when all hold",
       [](WithSpare& cluster) {
         cluster.disconnect(cluster.worker);
         cluster.server(3).silent = true;
         cluster.let_make_shards();
       }},
      {"it ends while it catches up",
       [](WithSpare& cluster) {
         cluster.let_make_shards();
         cluster.kill(3);
       }},
      {"it got no copies",
       [](WithSpare& cluster) {
         cluster.let_make_shards();
         cluster.ask(cluster.peers[3], CaughtUp{false});
       }},
  };
  for (const auto& each : cases) {
    WithSpare cluster;
    const auto other = cluster.enter();
    const auto next = cluster.join_server(4);
    EXPECT_EQ(cluster.code_of(next), Code::kUnknown) << each.what;
    each.happens(cluster);
    EXPECT_FALSE(cluster.end) << each.what;
    EXPECT_EQ(cluster.code_of(next), Code::kOk) << each.what;
    EXPECT_EQ(cluster.code_of(cluster.peers[4], ServerReady{}), Code::kOk);
    EXPECT_EQ(cluster.code_of(cluster.peers[4], CaughtUp{true}), Code::kOk) << each.what;
    EXPECT_TRUE(cluster.image().view.gone.empty()) << each.what;
    EXPECT_EQ(cluster.code_of(other, Show{Show::kView}), Code::kOk);
  }
}

TEST(JobStateServers, ASpareThatCannotBeReachedIsToldSo) {
  Cluster cluster(job_of(3, 1, 2));
  cluster.enter();
  const auto spare = cluster.join_server(3);
  const auto next = cluster.join_server(4);
  cluster.server(3).up = false;
  cluster.kill(0);
  EXPECT_EQ(cluster.code_of(spare), Code::kUnavailable);
  EXPECT_EQ(cluster.code_of(next), Code::kOk);
}

TEST(JobStateServers, ASpareThatHasGoneIsNotGivenAPlace) {
  Cluster cluster(job_of(3, 1, 2));
  cluster.enter();
  const auto spare = cluster.join_server(3);
  const auto next = cluster.join_server(4);
  cluster.kill(3);
  cluster.kill(0);
  EXPECT_EQ(cluster.code_of(spare), Code::kUnknown) << "nobody listens to an answer";
  EXPECT_EQ(cluster.code_of(next), Code::kOk);
}

TEST(JobStateServers, SparesAreToldThatTheJobHasFailed) {
  auto job = job_of(3, 2, 2);
  job.most_dead = 0;
  Cluster cluster(job);
  const auto worker = cluster.enter();
  const auto spare = cluster.join_server(3);
  const auto next = cluster.join_server(4);
  EXPECT_EQ(cluster.code_of(spare), Code::kUnknown);
  cluster.disconnect(worker);
  EXPECT_EQ(cluster.code_of(spare), Code::kAborted);
  EXPECT_EQ(cluster.code_of(next), Code::kAborted);
}

TEST(JobStateServers, ASpareGetsNoPlaceThatTheNextSchedulerWouldNotKnow) {
  Cluster cluster(job_of(3, 1, 2));
  cluster.enter();
  const auto spare = cluster.join_server(3);
  cluster.write_failure =
      Error(Code::kResourceExhausted, "the disk is full", 0, __FILE__, __LINE__);
  cluster.kill(1);  // its place is free, and the state says so: which cannot be written
  ASSERT_TRUE(cluster.end && !*cluster.end);
  EXPECT_EQ(cluster.code_of(spare), Code::kResourceExhausted);
}

TEST(JobStateServers, ASpareWaitsUntilAllTensorsAreThere) {
  Cluster cluster(job_of(3, 1, 2));
  const auto worker = cluster.enter();
  cluster.ask(worker, InitTensor{tensor_of("w")});
  cluster.join_server(3);
  cluster.kill(1);
  cluster.ask(cluster.peers[3], ServerReady{});
  EXPECT_EQ(cluster.image().view.coming, JobView::kNobody);
  cluster.ask(worker, TensorThere{1});
  EXPECT_EQ(cluster.image().view.coming, 1U);
}

TEST(JobStateServers, ANeighbourThatGoesWhileACandidateCatchesUpEndsTheJob) {
  WithSpare cluster;
  cluster.server(0).silent = true;
  cluster.let_make_shards();  // a server that cannot hold is gone
  EXPECT_TRUE(cluster.end && !*cluster.end);
}
}  // namespace
}  // namespace ferry::ps
