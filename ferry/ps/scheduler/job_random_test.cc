#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ferry/ps/scheduler/job_state_internal.h"
#include "ferry/ps/scheduler/simulation_internal.h"

// Random jobs: members come, go, fall silent and ask; the scheduler ends in the middle of effects
// and another one goes on. Simulation holds the promises about single effects, this file those that
// hold between events.

namespace ferry::ps {
namespace {

using simulation::kSecond;
using simulation::place_of;
using simulation::Simulation;
using simulation::tensor_of;

JobOptions random_job(std::mt19937& random) {
  JobOptions job;
  job.servers = 2 + random() % 3;
  job.workers = 1 + random() % 4;
  job.replicas = random() % 4 == 0 ? 1 : 2;
  job.start_with = random() % 2 == 0 ? 0 : 1 + random() % job.workers;
  job.merge = random() % 2 == 0;
  job.most_dead = random() % 4 == 0 ? 2 : ~0U;
  return job;
}

class RandomJob {
 public:
  explicit RandomJob(std::uint32_t seed) : random_(seed), job_(random_job(random_)), world_(job_) {
    for (std::uint32_t index = 0; index < job_.servers; ++index) join_server();
    for (auto& server : servers_) world_.ask(server.peer, ServerReady{});
  }

  void play(int events) {
    for (int event = 0; event < events && !world_.end && !testing::Test::HasFailure(); ++event) {
      try {
        act();
        learn();
      } catch (const simulation::Crash&) {
        go_on_after_crash();
      }
      check();
    }
    finish();
  }

  std::uint64_t restarts() const { return restarts_; }
  bool is_over() const { return world_.end && *world_.end; }

 private:
  struct Worker {
    PeerId peer = kNoPeer;
    std::uint64_t token = 0;
    std::uint32_t rank = kNobody;
    std::optional<Question> question{};  // that it waits for
    Request request{};                   // the same
    bool entered = false;
    std::uint64_t barriers = 0;
    std::uint64_t step = 0;
    std::vector<std::uint32_t> to_fill{};  // tensors whose first values it brings
  };
  struct Server {
    std::uint32_t number = 0;
    PeerId peer = kNoPeer;
    std::uint64_t token = 0;
    Question question{};  // to join
    bool ready = false;
  };

  std::uint32_t roll(std::uint32_t sides) { return static_cast<std::uint32_t>(random_()) % sides; }
  simulation::SimulatedServer& machine(const Server& server) {
    return world_.servers[place_of(server.number).control];
  }

  void join_server() {
    const auto number = ++last_server_;
    Server server{number, world_.connect(), 100 + number};
    servers_.push_back(server);
    servers_.back().question = world_.ask(server.peer, JoinServer{place_of(number), server.token});
  }

  void act() {
    if (roll(40) == 0) world_.effects_left = roll(8);
    switch (roll(12)) {
      case 0:
        return join_worker();
      case 1:
        return move_time();
      case 2:
        return act_server();
      case 3:
        return apply_steps();
      default:
        return act_worker();
    }
  }

  void join_worker() {
    if (workers_.size() > job_.workers) return;
    Worker worker{.peer = world_.connect(), .token = ++last_token_};
    workers_.push_back(worker);
    const auto wanted = roll(2) == 0 ? kNobody : roll(job_.workers + 1);
    ask(workers_.back(), JoinWorker{wanted, worker.token});
  }

  void move_time() {
    now_ns_ += roll(30) == 0 ? 31 * kSecond : roll(300) * (kSecond / 1000);
    world_.tick(now_ns_);
  }

  // Everybody applies a step, at one moment; nobody does where somebody holds.
  void apply_steps() {
    for (const auto& [endpoint, server] : world_.servers)
      if (server.held) return;
    ++clock_;
    for (auto& [endpoint, server] : world_.servers) server.clock = clock_;
  }

  void act_server() {
    auto& server = servers_[roll(static_cast<std::uint32_t>(servers_.size()))];
    auto& machine_of = machine(server);
    const auto what = roll(10);
    if (what == 0 && roll(3) == 0) {
      machine_of.up = false;
      const auto peer = server.peer;
      std::erase_if(servers_, [&](const auto& each) { return each.peer == peer; });
      if (servers_.empty()) join_server();
      world_.disconnect(peer);
    } else if (what == 1 && roll(3) == 0) {
      machine_of.silent = true;
    } else if (what == 2) {
      machine_of.full = !machine_of.full;
    } else if (what == 3) {
      for (const auto& [index, endpoint] : std::map(world_.clients))
        if (world_.servers[endpoint].silent) world_.take(ServerSilent{index});
    } else if (what == 4 && servers_.size() < 6) {
      join_server();
    } else if (!server.ready) {
      server.ready = true;
      world_.ask(server.peer, ServerReady{});
    } else if (machine_of.catching_up) {
      catch_up(server);
    }
  }

  void catch_up(Server& server) {
    machine(server).catching_up = false;
    // The copies have what the others have seen.
    for (const auto& [endpoint, other] : world_.servers)
      for (const auto& [rank, step] : other.ended) {
        auto& ended = machine(server).ended[rank];
        ended = std::max(ended, step);
      }
    world_.ask(server.peer, CaughtUp{roll(4) != 0});
  }

  void act_worker() {
    if (workers_.empty()) return join_worker();
    const auto at = roll(static_cast<std::uint32_t>(workers_.size()));
    auto& worker = workers_[at];
    if (roll(25) == 0) {  // it dies
      const auto gone = worker;
      workers_.erase(workers_.begin() + at);
      if (gone.rank != kNobody) world_.ended_workers.insert(gone.rank);
      return world_.disconnect(gone.peer);
    }
    if (worker.question && roll(3) == 0 && is_resent(worker.request))
      return ask(worker, worker.request);
    if (worker.question || worker.rank == kNobody) return;
    if (!worker.entered) return ask(worker, Enter{"host", "device", roll(2) == 0 ? "" : "at"});
    ask_something(worker);
  }

  static bool is_resent(const Request& request) {
    return std::holds_alternative<InitTensor>(request) ||
           std::holds_alternative<FindTensor>(request) ||
           std::holds_alternative<WaitBarrier>(request);
  }

  void ask_something(Worker& worker) {
    const auto name = "tensor-" + std::to_string(roll(4));
    switch (roll(12)) {
      case 0:
        return ask(worker, InitTensor{tensor_of(name)});
      case 1:
        return ask(worker, FindTensor{name});
      case 2:
        return ask(worker, WaitBarrier{worker.barriers + 1});
      case 3:
        if (roll(6) == 0) ask(worker, Leave{});
        return;
      case 4:
        return ask(worker, TakeSnapshot{"folder"});
      case 5:
        return ask(worker, Show{Show::kView});
      case 6:
        return ask(worker, Show{Show::kNeighbours});
      case 7:
        if (worker.to_fill.empty()) return ask(worker, Show{Show::kTensors});
        ask(worker, TensorThere{worker.to_fill.back()});
        return worker.to_fill.pop_back();
      default:
        return end_step(worker);
    }
  }

  // Some servers see that the worker has ended its step; if all do, the step is acknowledged.
  void end_step(Worker& worker) {
    const bool all = roll(2) == 0;
    ++worker.step;
    for (auto& [endpoint, server] : world_.servers) {
      auto& ended = server.ended[worker.rank];
      if (all || roll(2) == 0) ended = std::max(ended, worker.step);
      server.folded[worker.rank] = roll(3) == 0 ? worker.step + 1 : 0;
    }
    if (all) world_.acknowledged[worker.rank] = worker.step;
  }

  void ask(Worker& worker, Request request) {
    asked_ = request;
    const auto peer = worker.peer;
    worker.request = request;
    const auto question = world_.ask(peer, std::move(request));
    for (auto& each : workers_)
      if (each.peer == peer) each.question = question;
  }

  // Workers learn the answers to what they have asked.
  void learn() {
    for (auto& worker : workers_) {
      if (!worker.question) continue;
      const auto answer = world_.answer_to(*worker.question);
      if (!answer) continue;
      worker.question.reset();
      learn(worker, *answer);
    }
    std::erase_if(workers_, [](const auto& worker) { return worker.peer == kNoPeer; });
  }

  void learn(Worker& worker, const Result<Bytes>& answer) {
    if (worker.rank == kNobody) {
      if (!answer) return world_.disconnect(std::exchange(worker.peer, kNoPeer));
      bootstrap::Decoder in(*answer);
      worker.rank = in.u32();
      begin_rank(worker.rank);
      return;
    }
    if (!answer) return;
    if (!worker.entered) {
      worker.entered = true;
      worker.step = bootstrap::Decoder(*answer).u64();
      return;
    }
    if (std::holds_alternative<Leave>(asked_)) return leave(worker);
    if (std::holds_alternative<WaitBarrier>(asked_)) ++worker.barriers;
    if (!std::holds_alternative<InitTensor>(asked_)) return;
    bootstrap::Decoder in(*answer);
    if (in.u8() == 0) return;
    (void)in.u64();
    worker.to_fill.push_back(in.u32());
  }

  void leave(Worker& worker) {
    world_.ended_workers.insert(worker.rank);
    worker.peer = kNoPeer;
  }

  // Nothing is known of this worker yet at any server.
  void begin_rank(std::uint32_t rank) {
    world_.ended_workers.erase(rank);
    world_.acknowledged.erase(rank);
    for (auto& [endpoint, server] : world_.servers) {
      server.ended.erase(rank);
      server.folded.erase(rank);
    }
  }

  void go_on_after_crash() {
    ++restarts_;
    if (!world_.stored) {  // nothing was lost
      world_.end = Status();
      return world_.open.clear();
    }
    const auto image = JobImage::decode(*world_.stored, job_);
    if (!image || !*image) {
      world_.end = Status();
      return world_.open.clear();
    }
    world_.restart(now_ns_ + 30 * kSecond);
    for (auto& server : servers_) return_server(server, **image);
    for (auto& worker : workers_) return_worker(worker);
    std::erase_if(workers_, [](const auto& worker) { return worker.peer == kNoPeer; });
    std::erase_if(servers_, [](const auto& server) { return server.peer == kNoPeer; });
    if (servers_.empty()) join_server();
  }

  void return_server(Server& server, const JobImage& image) {
    const auto found = std::find_if(image.servers.begin(), image.servers.end(),
                                    [&](const auto& each) { return each.token == server.token; });
    server.peer = world_.connect();
    const auto index = static_cast<std::uint32_t>(found - image.servers.begin());
    std::optional<Result<Bytes>> answer;
    if (found != image.servers.end() && roll(10) != 0)
      answer = world_.answer_to(world_.ask(server.peer, ServerBack{index, server.token}));
    if (answer && *answer) return;
    machine(server).up = false;  // it ends
    world_.disconnect(std::exchange(server.peer, kNoPeer));
  }

  void return_worker(Worker& worker) {
    worker.question.reset();
    worker.peer = world_.connect();
    std::optional<Result<Bytes>> answer;
    if (worker.rank != kNobody && roll(10) != 0)
      answer = world_.answer_to(world_.ask(worker.peer, WorkerBack{worker.rank, worker.token}));
    if (answer && *answer) return;
    world_.disconnect(std::exchange(worker.peer, kNoPeer));
  }

  void check() {
    if (world_.end) return;
    const auto view = world_.image().view;
    for (std::uint32_t server = 0; server < job_.servers && job_.replicas > 1; ++server) {
      const bool both = view.is_gone(server) && view.is_gone(second_of(job_, server));
      ASSERT_FALSE(both) << "nobody has the blocks of server " << server;
    }
    if (!world_.stored) return;
    const auto image = JobImage::decode(*world_.stored, job_);
    ASSERT_TRUE(image && *image);
    const JobState restored({job_, true, {}}, **image, 0);
    ASSERT_EQ(restored.image(), *world_.stored);
  }

  // Whatever a question waits for, it is answered at the end, once.
  void finish() {
    world_.writes_left = -1;
    world_.effects_left.reset();
    if (!world_.end)
      world_.take(StateNotWritten{Error(Code::kAborted, "the test is over", 0, "", 0), false});
    EXPECT_TRUE(world_.open.empty()) << world_.open.size() << " questions have no answer";
  }

  std::mt19937 random_;
  const JobOptions job_;
  Simulation world_;
  std::vector<Server> servers_;
  std::vector<Worker> workers_;
  Request asked_;
  std::uint32_t last_server_ = 0;
  std::uint64_t last_token_ = 1000;
  std::int64_t now_ns_ = kSecond;
  std::uint64_t clock_ = 0;
  std::uint64_t restarts_ = 0;
};

TEST(RandomJobs, KeepTheirPromises) {
  std::uint64_t restarts = 0;
  int over = 0;
  for (std::uint32_t seed = 1; seed <= 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomJob job(seed);
    job.play(400);
    restarts += job.restarts();
    over += job.is_over() ? 1 : 0;
  }
  EXPECT_GT(restarts, 100U);
  EXPECT_GT(over, 10);
}

}  // namespace
}  // namespace ferry::ps
