#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/types.h"
#include "ferry/ps/options.h"
#include "ferry/ps/update.h"
#include "ferry/tensor/shape.h"

// What travels between roles over control connections. Everything that is read was written by a
// member of the cluster, and is checked all the same.

namespace ferry::ps {

using Bytes = std::vector<std::byte>;

enum class Ask : std::uint32_t {
  // of the scheduler
  // protocol version (8), ServerPlace -> protocol version (8), index (4), first shard (4), in
  // another's place (1), JobOptions, token (8)
  kJoinServer = 1,
  // protocol version (8), wanted rank (4; all ones: any) -> Welcome, once all servers are ready
  kJoinWorker = 2,
  kInit = 3,  // name, spec, update -> created (1), view (8), TensorInfo; unless created, once there
  kFind = 4,  // name -> created (1): 0, view (8), TensorInfo; once it is there
  kBarrier = 5,      // how many of its barriers this is (8) -> nothing, once every worker has asked
  kMembers = 6,      // -> ranks
  kLeave = 7,        // -> nothing
  kServerReady = 8,  // -> nothing
  kThere = 9,        // id (4): its first values are there -> nothing
  kSnapshot = 10,    // folder -> path of the snapshot
  kNames = 11,       // -> names of tensors that are there
  kView = 12,        // -> JobView
  // attached to all servers; host, id of the data device as text, its endpoint if it merges, else
  // empty -> the last step that it is not part of (8), attempt (4)
  kEnter = 13,
  kCaughtUp = 14,  // whether the newcomer has its copies (1) -> nothing
  // To a scheduler that was started again, from those who knew the one before.
  kBackServer = 15,  // protocol version (8), index (4), token (8) -> nothing
  kBackWorker = 16,  // protocol version (8), rank (4), token (8) -> nothing
  // -> the job's attempt (4); then rank (4), data device and its endpoint of each worker of the
  // asking one's host that merges, itself too, by rank
  kNeighbours = 17,
  // of a server
  kCreate = 32,  // TensorInfo -> nothing
  kDrop = 33,    // id (4) -> nothing
  kAttach = 34,  // rank (4), device (16), grant of words -> ShardPlace each
  kOpen = 35,    // rank (4), id (4) -> PartPlace for each part
  kGrant = 36,   // rank (4), grant of memory -> whether it is used in place (1)
  kFreeze = 37,  // rank (4) -> last step that was ended (8), open step where it was added up (8)
  // rank (4), last step that counts (8), new attempt (4; 0: none), the step that restarts with it
  // (8) -> nothing
  kDepart = 38,
  kStop = 39,       // StopNotice -> nothing
  kLanding = 40,    // rank (4), id (4), grant of memory for the whole tensor -> nothing
  kSave = 41,       // path, number of the file (4) -> clock (8)
  kRestore = 42,    // path, how many files it has (4), TensorInfo -> nothing
  kApplyView = 43,  // JobView -> nothing
  // rank (4; all ones: nobody): no step is applied until kAdmit -> the largest clock, or the last
  // step that counts of whoever had the rank (8)
  kHold = 44,
  // rank (4; all ones: nobody), the last step it is not part of (8), new attempt at the next one
  // (4; 0: none) -> nothing
  kAdmit = 45,
  // shard of the job (4), tensor (4), section (4), offset (8) -> bytes, a piece of them; tensor 0:
  // what there is. kNotFound: not yet
  kImage = 46,
  kCatchUp = 47,  // control endpoints of the servers before and after it -> nothing
  // ids of all tensors (4 each): there are no others -> ranks whose data channel has ended (4 each)
  kKnown = 48,
};

// Part of a tensor on one shard. Shards are counted over all servers.
struct Run {
  std::uint32_t shard = 0;
  std::uint64_t offset = 0;  // in bytes of the tensor
  std::uint64_t bytes = 0;
  friend bool operator==(const Run&, const Run&) = default;
};

struct TensorInfo {
  std::uint32_t id = 0;
  std::string name;
  tensor::Spec spec;
  Update update;
  std::uint64_t block_bytes = 0;
  std::vector<Run> runs;  // by offset, without gaps
};

struct ServerPlace {
  std::string control;  // endpoints
  std::string data;
  std::uint32_t shards = 0;
};

struct Welcome {
  std::uint32_t rank = 0;
  JobOptions job;
  std::vector<ServerPlace> servers;
  std::uint64_t token = 0;  // shows that a worker that comes back is this one
};

struct ShardPlace {
  fabric::RemoteRegion ring;
  fabric::RemoteRegion pool;
  std::uint32_t first_slot = 0;  // of the worker's own
};

struct PartPlace {
  std::uint32_t run = 0;   // index of TensorInfo::runs
  std::uint32_t part = 0;  // its number at its shard
  fabric::RemoteRegion table;
  fabric::RemoteRegion seats;  // of all workers, by rank
  std::uint16_t nonce = 0;
};

// A server in the place of one that is gone.
struct Newcomer {
  std::uint32_t server = 0;
  std::uint32_t turn = 0;  // tells newcomers from each other
  ServerPlace place;
  std::uint64_t since = 0;  // it has the steps after that one
};

// Which servers the job goes on without, and who has come instead. Its number grows with each.
struct JobView {
  static constexpr std::uint32_t kNobody = ~0U;
  std::uint64_t number = 0;
  std::vector<std::uint32_t> gone;
  std::vector<Newcomer> newcomers{};  // the last one of each place
  std::uint32_t coming = kNobody;     // the place, still among `gone`, whose newcomer catches up

  const Newcomer* newcomer(std::uint32_t server) const;
  bool is_gone(std::uint32_t server) const;
};

// The server that has the second copy of what is on this one.
inline std::uint32_t second_of(const JobOptions& job, std::uint32_t server) {
  return (server + 1) % job.servers;
}
// The server whose blocks this one has the second copy of.
inline std::uint32_t first_of(const JobOptions& job, std::uint32_t server) {
  return (server + job.servers - 1) % job.servers;
}

// Readers leave a message that is cut off to Decoder::finish(), and fail if a value cannot be.
void put(bootstrap::Encoder& out, const JobOptions& job);
void put(bootstrap::Encoder& out, const tensor::Spec& spec);
void put(bootstrap::Encoder& out, const Update& update);
void put(bootstrap::Encoder& out, const TensorInfo& info);
void put(bootstrap::Encoder& out, const ServerPlace& place);
void put(bootstrap::Encoder& out, const Welcome& welcome);
void put(bootstrap::Encoder& out, const fabric::RemoteRegion& region);
void put(bootstrap::Encoder& out, const ShardPlace& place);
void put(bootstrap::Encoder& out, const PartPlace& place);
void put(bootstrap::Encoder& out, const JobView& view);

Result<JobOptions> get_job(bootstrap::Decoder& in);
Result<tensor::Spec> get_spec(bootstrap::Decoder& in);
Result<Update> get_update(bootstrap::Decoder& in);
Result<TensorInfo> get_tensor(bootstrap::Decoder& in);
Result<ServerPlace> get_server(bootstrap::Decoder& in);
Result<Welcome> get_welcome(bootstrap::Decoder& in);
Result<fabric::RemoteRegion> get_region(bootstrap::Decoder& in);
Result<ShardPlace> get_shard_place(bootstrap::Decoder& in);
Result<PartPlace> get_part_place(bootstrap::Decoder& in);
Result<JobView> get_view(bootstrap::Decoder& in, const JobOptions& job);

inline constexpr std::size_t kMostName = 1024;
inline constexpr std::size_t kMostPath = 4096;
// kInvalidArgument or kOutOfRange says which number cannot be.
Status check_job(const JobOptions& job);
// Whether the first step waits for this worker.
bool starts(const JobOptions& job, std::uint32_t rank);
// Slots that each worker has of a shard's pool.
std::uint32_t slots_each(const JobOptions& job);

}  // namespace ferry::ps
