#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ferry/ps/scheduler/job_state_internal.h"

// For tests: a job's servers and disk without processes, threads and time. It performs the effects
// of a JobState as the scheduler's service does, and fails the test when a promise is broken.

namespace ferry::ps::simulation {

// The scheduler ends in the middle of an effect.
struct Crash {};

struct SimulatedServer {
  bool up = true;       // else nobody listens at its endpoint
  bool silent = false;  // it does not answer
  bool full = false;    // it has no memory for tensors
  std::set<std::uint32_t> tensors{};
  std::map<std::uint32_t, std::uint64_t> ended{};  // the last step that it has seen of a rank
  std::map<std::uint32_t, std::uint64_t> folded{};
  std::uint64_t clock = 0;
  std::uint64_t view = 0;
  bool held = false;
  bool catching_up = false;
  int stops = 0;
};

class Simulation {
 public:
  explicit Simulation(const JobOptions& job, bool writes_state = true,
                      std::optional<SnapshotToRestore> snapshot = {})
      : job_options_(job), setup_{job, writes_state, std::move(snapshot)} {
    job_ = std::make_unique<JobState>(setup_);
    job_->set_endpoint("scheduler");
  }

  JobState& job() { return *job_; }
  JobImage image() const {
    auto image = JobImage::decode(job_->image(), job_options_);
    EXPECT_TRUE(image && *image);
    return image && *image ? **image : JobImage();
  }

  // Answers that have come; a question that is not there waits.
  std::optional<Result<Bytes>> answer_to(const Question& question) const {
    const auto found = answers.find({question.peer, question.id});
    if (found == answers.end()) return std::nullopt;
    return found->second;
  }

  PeerId connect() { return ++last_peer_; }
  Question ask(PeerId peer, Request request) {
    const Question question{peer, ++last_question_};
    open[{peer, question.id}] = request;
    take(Asked{question, std::move(request)});
    check_asked_again(peer);
    return question;
  }
  void disconnect(PeerId peer) {
    std::erase_if(open, [&](const auto& each) { return each.first.first == peer; });
    take(Disconnected{peer});
  }
  void tick(std::int64_t now_ns) { take(Tick{now_ns}); }

  void take(const Event& event) {
    const auto effects = job_->take(event);
    std::optional<StateNotWritten> not_written;
    for (const auto& effect : effects) {
      if (effects_left && (*effects_left)-- == 0) throw Crash();
      if (const auto* write = std::get_if<WriteState>(&effect)) {
        EXPECT_EQ(&effect, effects.data()) << "a state that is written late";
        const bool fails = write_failure && writes_left-- == 0;
        if (fails) not_written = StateNotWritten{*write_failure, superseded};
        if (!fails) stored = write->image;
        continue;
      }
      const auto* answer = std::get_if<Answer>(&effect);
      if (not_written && answer == nullptr) continue;
      if (not_written && answer->answer) {
        note(Answer{answer->question, tl::unexpected<Error>(not_written->cause)});
        continue;
      }
      const auto outcome = std::visit([&](const auto& each) { return perform(each); }, effect);
      if (outcome) take(*outcome);
    }
    if (not_written) take(*not_written);
  }

  // Another scheduler goes on with what was written last. Whoever was connected is not any more.
  void restart(std::int64_t back_by_ns) {
    effects_left.reset();
    open.clear();
    clients.clear();
    const auto image = JobImage::decode(*stored, job_options_);
    ASSERT_TRUE(image && *image) << (image ? "over" : image.error().message());
    job_ = std::make_unique<JobState>(setup_, **image, back_by_ns);
    EXPECT_EQ(job_->image(), *stored) << "a restored state is not the one that was written";
    job_->set_endpoint("scheduler");
  }

  std::map<std::string, SimulatedServer> servers;  // by control endpoint
  std::map<std::uint32_t, std::string> clients;    // endpoints of servers that can be asked
  std::map<std::pair<PeerId, std::uint64_t>, Request> open;
  std::map<std::pair<PeerId, std::uint64_t>, Result<Bytes>> answers;
  std::map<std::uint32_t, std::uint64_t> acknowledged;  // by rank: steps that must count
  std::set<std::uint32_t> ended_workers;                // whose channels have ended
  std::optional<Bytes> stored;
  std::optional<Error> write_failure;
  int writes_left = 0;  // before one fails
  bool superseded = false;
  std::optional<std::uint64_t> effects_left;  // before a crash
  std::optional<Status> end;
  Result<std::string> snapshot_path = std::string("folder/snapshot-1");
  Status snapshot_finished{};
  std::vector<std::pair<Ask, std::uint32_t>> asked;  // of which servers, in order
  std::vector<std::string> log;

 private:
  std::optional<Event> perform(const WriteState& /*effect*/) { return std::nullopt; }
  std::optional<Event> perform(const Answer& effect) {
    note(effect);
    return std::nullopt;
  }
  std::optional<Event> perform(const AskServers& effect) {
    check_written();
    ServersAnswered event;
    for (const auto& [server, body] : effect.questions)
      event.answers.push_back({server, ask_server(server, effect.what, body)});
    return event;
  }
  std::optional<Event> perform(const TellServers& effect) {
    check_written();
    for (const auto server : effect.servers) (void)ask_server(server, effect.what, effect.body);
    return std::nullopt;
  }
  std::optional<Event> perform(const Connect& effect) {
    clients.erase(effect.server);
    const auto& server = servers[effect.endpoint];
    if (!server.up || server.silent) return Connected{fail(Code::kUnavailable, "nobody there")};
    clients[effect.server] = effect.endpoint;
    return Connected{};
  }
  std::optional<Event> perform(const Disconnect& effect) {
    clients.erase(effect.server);
    return std::nullopt;
  }
  std::optional<Event> perform(const Probe& effect) {
    Probed event;
    for (const auto& [server, endpoint] : effect.targets)
      if (!servers[endpoint].up) event.refused.push_back(server);
    return event;
  }
  std::optional<Event> perform(const BeginSnapshot& /*effect*/) {
    return SnapshotBegun{snapshot_path};
  }
  std::optional<Event> perform(const FinishSnapshot& /*effect*/) {
    return SnapshotFinished{snapshot_finished};
  }
  std::optional<Event> perform(const Log& effect) {
    log.push_back(effect.text);
    return std::nullopt;
  }
  std::optional<Event> perform(const EndJob& effect) {
    if (!end) end = effect.status;
    return std::nullopt;
  }

  // Nobody is told what the next scheduler would not know.
  void check_written() const {
    if (setup_.writes_state && stored && writes_left >= 0) {
      EXPECT_EQ(*stored, job_->image());
    }
  }

  // Who asks again has one question that waits: the scheduler keeps count of them all.
  void check_asked_again(PeerId peer) const {
    int at_barrier = 0;
    std::map<std::string, int> for_tensor;
    for (const auto& [key, request] : open) {
      if (key.first != peer) continue;
      if (std::holds_alternative<WaitBarrier>(request)) ++at_barrier;
      if (const auto* find = std::get_if<FindTensor>(&request)) ++for_tensor[find->name];
      if (const auto* init = std::get_if<InitTensor>(&request)) ++for_tensor[init->info.name];
    }
    EXPECT_LE(at_barrier, 1) << "a question that was asked again has no answer";
    for (const auto& [name, count] : for_tensor)
      EXPECT_LE(count, 1) << "a question for " << name << " that was asked again has no answer";
  }

  void note(const Answer& effect) {
    const std::pair key{effect.question.peer, effect.question.id};
    const auto asked_for = open.find(key);
    if (answers.contains(key)) ADD_FAILURE() << "a question was answered twice";
    if (asked_for != open.end() && effect.answer) {
      check_written();
      if (setup_.writes_state && stored && !end) check_promise(effect.question, asked_for->second);
    }
    if (asked_for != open.end()) open.erase(asked_for);
    answers.emplace(key, effect.answer);
  }

  // What was acknowledged is in the image that is on disk.
  void check_promise(const Question& question, const Request& request) const {
    const auto decoded = JobImage::decode(*stored, job_options_);
    ASSERT_TRUE(decoded);
    if (!*decoded) return;  // it is over
    const auto& image = **decoded;
    const auto& tensors = image.tensors;
    if (const auto* join = std::get_if<JoinWorker>(&request)) {
      EXPECT_TRUE(std::any_of(image.workers.begin(), image.workers.end(),
                              [&](const auto& each) { return each.token == join->token; }));
    } else if (const auto* init = std::get_if<InitTensor>(&request)) {
      EXPECT_TRUE(std::any_of(tensors.begin(), tensors.end(),
                              [&](const auto& each) { return each.info.name == init->info.name; }));
    } else if (const auto* there = std::get_if<TensorThere>(&request)) {
      for (const auto& tensor : tensors) EXPECT_TRUE(tensor.info.id != there->id || tensor.there);
    } else if (const auto* barrier = std::get_if<WaitBarrier>(&request)) {
      EXPECT_TRUE(std::any_of(image.workers.begin(), image.workers.end(), [&](const auto& each) {
        return each.barriers == barrier->number;
      })) << question.peer;
    }
  }

  Result<Bytes> ask_server(std::uint32_t index, Ask what, const Bytes& body) {
    asked.emplace_back(what, index);
    if (!clients.contains(index)) return fail(Code::kUnavailable, "not connected");
    auto& server = servers[clients[index]];
    if (!server.up) return fail(Code::kUnavailable, "gone");
    if (server.silent) return fail(Code::kDeadlineExceeded, "silent");
    bootstrap::Decoder in(body);
    Bytes answer;
    bootstrap::Encoder out(answer);
    switch (what) {
      case Ask::kFreeze: {
        const auto rank = in.u32();
        out.u64(server.ended[rank]).u64(server.folded[rank]);
        break;
      }
      case Ask::kHold:
        server.held = true;
        out.u64(server.clock);
        break;
      case Ask::kSave:
        out.u64(server.clock);
        break;
      case Ask::kStop:
        ++server.stops;
        break;
      case Ask::kCatchUp:
        if (server.catching_up) return fail(Code::kFailedPrecondition, "told already");
        server.catching_up = true;
        break;
      case Ask::kKnown:
        for (const auto rank : ended_workers) out.u32(rank);
        [[fallthrough]];
      case Ask::kCreate:
      case Ask::kRestore:
      case Ask::kDrop:
        FERRY_TRY(change_tensors(server, what, in));
        break;
      default:
        FERRY_TRY(check_decision(server, what, body));
    }
    return answer;
  }

  static Status change_tensors(SimulatedServer& server, Ask what, bootstrap::Decoder& in) {
    if (what == Ask::kDrop) {
      server.tensors.erase(in.u32());
    } else if (what == Ask::kKnown) {
      std::set<std::uint32_t> known;
      while (in.remaining() > 0) known.insert(in.u32());
      std::erase_if(server.tensors, [&](auto id) { return !known.contains(id); });
    } else {
      if (server.full) return fail(Code::kResourceExhausted, "no memory");
      if (what == Ask::kRestore) {
        (void)in.string(kMostPath);
        (void)in.u32();
      }
      server.tensors.insert(FERRY_TRY(get_tensor(in)).id);
    }
    return {};
  }

  // What servers are told of workers and of each other.
  Status check_decision(SimulatedServer& server, Ask what, const Bytes& body) {
    bootstrap::Decoder in(body);
    if (what == Ask::kApplyView) {
      const auto view = FERRY_TRY(get_view(in, job_options_));
      EXPECT_GE(view.number, server.view) << "a view that is older than the one before";
      server.view = view.number;
      check_same(views_, {0, view.number}, body);
      return {};
    }
    const auto rank = in.u32();
    const auto step = in.u64();
    if (what == Ask::kDepart) {
      EXPECT_GE(step, acknowledged[rank]) << "an acknowledged step does not count";
      check_same(departures_, {rank, token_of(rank)}, body);
    } else if (what == Ask::kAdmit) {
      if (rank != kNobody) {
        // Another scheduler may say it once more, when steps have been applied with the worker.
        const bool first = check_same(admissions_, {rank, token_of(rank)}, body);
        EXPECT_TRUE(!first || step >= server.clock) << "it counts in a step that was applied";
      }
      server.held = false;
    } else {
      ADD_FAILURE() << "servers do not answer " << static_cast<int>(what);
    }
    return {};
  }

  using Decisions = std::map<std::pair<std::uint32_t, std::uint64_t>, Bytes>;
  // All servers hear the same, of every scheduler that says it. True: for the first time.
  static bool check_same(Decisions& decisions, std::pair<std::uint32_t, std::uint64_t> key,
                         const Bytes& body) {
    const auto [found, first] = decisions.emplace(key, body);
    EXPECT_EQ(found->second, body)
        << "two decisions on one thing: " << key.first << ", " << key.second;
    return first;
  }

  // Tells workers of a rank from each other; 0 if the job has ended.
  std::uint64_t token_of(std::uint32_t rank) const {
    const auto image = JobImage::decode(job_->image(), job_options_);
    return image && *image ? (*image)->workers[rank].token : 0;
  }

  const JobOptions job_options_;
  const JobState::Setup setup_;
  std::unique_ptr<JobState> job_;
  PeerId last_peer_ = 0;
  std::uint64_t last_question_ = 0;
  Decisions departures_, admissions_, views_;
};

inline ServerPlace place_of(std::uint32_t number) {
  return {"control-" + std::to_string(number), "data-" + std::to_string(number), 2};
}

inline TensorInfo tensor_of(const std::string& name, std::int64_t length = 1000) {
  TensorInfo info;
  info.name = name;
  info.spec = {tensor::ElementType::kF32, *tensor::Shape::of({length})};
  return info;
}

inline constexpr std::int64_t kSecond = 1'000'000'000;

inline JobOptions job_of(std::uint32_t servers, std::uint32_t workers, std::uint32_t replicas) {
  JobOptions job;
  job.servers = servers;
  job.workers = workers;
  job.replicas = replicas;
  return job;
}

// A job whose servers are ready.
struct Cluster : Simulation {
  explicit Cluster(const JobOptions& job, bool writes_state = true,
                   std::optional<SnapshotToRestore> snapshot = {})
      : Simulation(job, writes_state, std::move(snapshot)) {
    for (std::uint32_t index = 0; index < job.servers; ++index) join_server(index);
    for (const auto peer : peers) ready.push_back(ask(peer, ServerReady{}));
  }
  Question join_server(std::uint32_t number) {
    peers.push_back(connect());
    return ask(peers.back(), JoinServer{place_of(number), 100 + number});
  }
  SimulatedServer& server(std::uint32_t number) { return servers[place_of(number).control]; }
  // A server that has ended, and that the scheduler hears of.
  void kill(std::uint32_t number) {
    server(number).up = false;
    disconnect(peers[number]);
  }
  PeerId join(std::uint32_t wanted = kNobody) {
    const auto peer = connect();
    const auto answer = answer_to(ask(peer, JoinWorker{wanted, 1000 + peer}));
    EXPECT_TRUE(answer && *answer);
    return peer;
  }
  PeerId enter(std::uint32_t wanted = kNobody) {
    const auto peer = join(wanted);
    const auto answer = answer_to(ask(peer, Enter{"host", "device", "at"}));
    EXPECT_TRUE(answer && *answer);
    return peer;
  }
  Code code_of(const Question& question) {
    const auto answer = answer_to(question);
    if (!answer) return Code::kUnknown;  // it waits
    return *answer ? Code::kOk : answer->error().code();
  }
  Code code_of(PeerId peer, Request request) { return code_of(ask(peer, std::move(request))); }
  std::uint32_t make(PeerId peer, const std::string& name) {
    EXPECT_EQ(code_of(peer, InitTensor{tensor_of(name)}), Code::kOk);
    const auto id = image().last_tensor;
    EXPECT_EQ(code_of(peer, TensorThere{id}), Code::kOk);
    return id;
  }
  int count_asked(Ask what) const {
    return static_cast<int>(std::count_if(asked.begin(), asked.end(),
                                          [&](const auto& each) { return each.first == what; }));
  }
  std::vector<PeerId> peers;  // of servers, as they came
  std::vector<Question> ready;
};

// A spare up to the moment at which it catches up.
struct WithSpare : Cluster {
  WithSpare() : Cluster(job_of(3, 2, 2)) {
    worker = enter();
    make(worker, "w");
    question = join_server(3);
    kill(1);
  }
  bool is_placed() { return code_of(question) == Code::kOk; }
  void let_make_shards() { EXPECT_EQ(code_of(peers[3], ServerReady{}), Code::kOk); }
  PeerId worker = 0;
  Question question;
};

}  // namespace ferry::ps::simulation
