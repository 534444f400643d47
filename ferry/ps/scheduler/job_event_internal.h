#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ferry/ps/wire/messages_internal.h"

// What happens to a job, and what is to be done about it. Plain data: the scheduler's service makes
// events of messages and performs effects, and JobState turns the ones into the others.

namespace ferry::ps {

// A connection to the scheduler. Connections are numbered from 1 on, and no number comes twice.
using PeerId = std::uint64_t;
inline constexpr PeerId kNoPeer = 0;
inline constexpr std::uint32_t kNobody = ~0U;  // no rank, no server

// Which peer, and which of its questions.
struct Question {
  PeerId peer = kNoPeer;
  std::uint64_t id = 0;
  friend bool operator==(const Question&, const Question&) = default;
};

// What peers ask of the scheduler; the messages are described at Ask. Tokens are random numbers
// that the service has made for whoever joins.
struct JoinServer {
  ServerPlace place;
  std::uint64_t token = 0;
};
struct ServerReady {};
struct JoinWorker {
  std::uint32_t wanted = kNobody;
  std::uint64_t token = 0;
};
struct Enter {
  std::string host, device, neighbour;
};
struct CaughtUp {
  bool complete = false;
};
struct InitTensor {
  TensorInfo info;  // name, spec and update
};
struct FindTensor {
  std::string name;
};
struct TensorThere {
  std::uint32_t id = 0;
};
struct TakeSnapshot {
  std::string folder;
};
struct WaitBarrier {
  std::uint64_t number = 0;
};
struct Show {  // what changes nothing
  enum What : std::uint8_t { kNeighbours, kTensors, kView, kMembers } what{};
};
struct Leave {};
struct ServerBack {
  std::uint32_t index = 0;
  std::uint64_t token = 0;
};
struct WorkerBack {
  std::uint32_t rank = 0;
  std::uint64_t token = 0;
};
using Request =
    std::variant<JoinServer, ServerReady, JoinWorker, Enter, CaughtUp, InitTensor, FindTensor,
                 TensorThere, TakeSnapshot, WaitBarrier, Show, Leave, ServerBack, WorkerBack>;

// `token` is for whoever joins by this request.
Result<Request> decode_request(Ask what, bootstrap::Decoder& in, std::uint64_t token);

// Events from outside.
struct Asked {
  Question question;
  Request request;
};
struct Disconnected {
  PeerId peer = kNoPeer;
};
// The connection on which the scheduler asks this server has been silent for its lease, or lost.
struct ServerSilent {
  std::uint32_t server = 0;
};
struct Tick {
  std::int64_t now_ns = 0;
};

// Events that are the outcome of an effect; each comes before the next event from outside.
struct ServerAnswer {
  std::uint32_t server = 0;
  Result<Bytes> answer;
};
struct ServersAnswered {  // of AskServers, in its order
  std::vector<ServerAnswer> answers;
};
struct Connected {  // of Connect
  Status status;
};
struct Probed {  // of Probe
  std::vector<std::uint32_t> refused;
};
struct SnapshotBegun {  // of BeginSnapshot
  Result<std::string> path;
};
struct SnapshotFinished {  // of FinishSnapshot
  Status status;
};
// Of WriteState, if it failed. Superseded: the state and the servers are another scheduler's now.
struct StateNotWritten {
  Error cause;
  bool superseded = false;
};
using Event = std::variant<Asked, Disconnected, ServerSilent, Tick, ServersAnswered, Connected,
                           Probed, SnapshotBegun, SnapshotFinished, StateNotWritten>;

// Effects. A list of them is performed in order. If WriteState fails, nothing of the rest of its
// list is performed but answers, and these say what went wrong.
struct WriteState {
  Bytes image;
};
struct Answer {
  Question question;
  Result<Bytes> answer;
};
// To a former question of who has asked again, and listens to the answer to the newest one alone.
inline Answer asked_again(const Question& former) {
  return {former, fail(Code::kCancelled, "it was asked again")};
}
struct ServerQuestion {
  std::uint32_t server = 0;
  Bytes body;
};
struct AskServers {  // one after the other; all of them, whatever some answer
  Ask what{};
  std::vector<ServerQuestion> questions;
};
struct TellServers {  // the same, where nothing depends on the answers
  Ask what{};
  std::vector<std::uint32_t> servers;
  Bytes body;
};
struct Connect {  // to ask this server, in the place of a former connection
  std::uint32_t server = 0;
  std::string endpoint;
};
struct Disconnect {  // a server that is there after all sees that it is not counted on
  std::uint32_t server = 0;
};
struct Probe {  // is there anybody at these servers' endpoints?
  struct Target {
    std::uint32_t server = 0;
    std::string endpoint;
  };
  std::vector<Target> targets;
};
struct BeginSnapshot {
  std::string folder;
};
struct FinishSnapshot {
  std::string folder;
  std::string path;
  std::vector<TensorInfo> tensors;
  std::uint32_t files = 0;
};
struct Log {
  enum class Level : std::uint8_t { kInfo, kWarning, kError } level{};
  std::string text;
};
struct EndJob {
  Status status;
};
using Effect = std::variant<WriteState, Answer, AskServers, TellServers, Connect, Disconnect, Probe,
                            BeginSnapshot, FinishSnapshot, Log, EndJob>;
using Effects = std::vector<Effect>;

}  // namespace ferry::ps
