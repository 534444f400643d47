#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "ferry/ps/wire/job_end_internal.h"
#include "ferry/ps/wire/rpc_internal.h"
#include "ferry/ps/scheduler.h"
#include "ferry/ps/scheduler/block_placement_internal.h"
#include "ferry/ps/scheduler/store_internal.h"
#include "ferry/ps/server/snapshot_internal.h"

namespace ferry::ps {

class Scheduler::Core final : public RpcServer::Handler {
 public:
  static Result<std::unique_ptr<Core>> open(SchedulerOptions options);

  std::string endpoint() const { return control_->endpoint(); }
  Status wait(Deadline deadline) { return end_.wait(deadline); }
  SchedulerStats stats();

  Result<std::optional<Bytes>> asked(const RpcServer::Question& question,
                                     bootstrap::Decoder& body) override;
  void gone(std::uint64_t peer) override;
  Status about_to_answer() override { return keep(); }
  void tick() override;

 private:
  struct ServerAt {
    std::uint64_t peer = 0;
    ServerPlace place;
    std::unique_ptr<RpcClient> client{};
    bool ready = false;
    bool alive = true;
    std::uint64_t token = 0;  // shows that a server that comes back is this one
  };
  static constexpr std::uint32_t kNobody = ~0U;
  enum class State : std::uint8_t { kExpected, kThere, kOut };
  struct WorkerAt {
    std::uint64_t peer = 0;
    State state = State::kExpected;
    bool member = true;       // steps wait for it
    std::uint64_t since = 0;  // the last step that it is not part of
    // That it begins with. An older one than is in force at its first step is put right by the word
    // `redo`; a newer one is not, and what it pushes would be ignored.
    std::uint32_t attempt = 0;
    std::uint64_t token = 0;
    bool left = false;           // it said so
    std::uint64_t barrier = 0;   // the last one it has asked for
    std::uint64_t barriers = 0;  // the last one it was let through
    std::string host{};
    std::string device{};     // its DeviceId for data, as text
    std::string neighbour{};  // where those of its host find it; empty: it does not merge
  };
  // What servers are told of a worker that enters.
  struct Admission {
    std::uint32_t rank = kNobody;
    std::uint64_t since = 0;
    std::uint32_t attempt = 0;  // at its first step; 0: that is not begun anew
  };
  // What servers are told of a worker that is out.
  struct Verdict {
    std::uint32_t rank = 0;
    bool counted = false;  // steps waited for it
    bool known = false;    // else servers are to be asked first
    std::uint64_t through = 0;
    std::uint32_t attempt = 0;
    std::uint64_t anew = 0;  // the step that is begun anew under it
  };
  Core() = default;
  // How long a server may take to answer. Without a second copy the job ends with it: it gets all
  // the time there is.
  Nanos server_answers() const {
    const auto span = scaled(std::chrono::seconds(10), options_.device);
    return job_.replicas > 1 ? span : std::max(span, options_.device.give_up);
  }
  Result<std::optional<Bytes>> join_server(const RpcServer::Question& question,
                                           bootstrap::Decoder& in);
  static Result<std::uint64_t> random_token();
  Bytes answer_server(std::uint32_t index, bool newcomer) const;
  void fill_place();
  void bring_up();
  Result<Bytes> caught_up(std::uint64_t peer, bootstrap::Decoder& in);
  void let_catch_up();
  void lose_newcomer();
  void give_way();
  bool catches_up() const { return view_.coming != JobView::kNobody; }
  void settle_view();
  void let_enter();
  Result<std::optional<Bytes>> server_ready(std::uint64_t peer);
  Result<std::optional<Bytes>> join_worker(const RpcServer::Question& question,
                                           bootstrap::Decoder& in);
  Result<Bytes> welcome(std::uint64_t peer, std::uint32_t wanted);
  Result<std::uint32_t> choose_rank(std::uint32_t wanted) const;
  Result<std::optional<Bytes>> enter(const RpcServer::Question& question);
  Status take_host(std::uint64_t peer, bootstrap::Decoder& in);
  Result<Bytes> neighbours(std::uint64_t peer) const;
  // The last step that was applied anywhere, or that counts of whoever had this rank; no shard goes
  // on until release().
  Result<std::uint64_t> hold(std::uint32_t rank);
  void release(const Admission& admission);
  struct TensorAt {
    TensorInfo info;
    std::uint64_t creator = 0;  // the peer that brings its first values
    bool there = false;
    std::vector<RpcServer::Question> waiting{};  // for these
  };
  Result<std::optional<Bytes>> init(const RpcServer::Question& question, bootstrap::Decoder& in);
  Result<std::optional<Bytes>> create(const RpcServer::Question& question, TensorInfo info);
  Result<std::optional<Bytes>> find(const RpcServer::Question& question, bootstrap::Decoder& in);
  std::optional<Bytes> show(const RpcServer::Question& question, TensorAt& tensor);
  Result<Bytes> tensor_there(bootstrap::Decoder& in);
  void forget_tensors_of(std::uint64_t peer);
  Result<Bytes> snapshot(bootstrap::Decoder& in);
  // Before the job begins: what restore() is to begin with, once all servers are there.
  Status find_snapshot();
  Status restore();
  void drop(const TensorInfo& info);
  Result<std::optional<Bytes>> barrier(const RpcServer::Question& question, bootstrap::Decoder& in);
  Result<Bytes> members() const;
  Result<Bytes> names() const;
  Result<std::uint32_t> rank_of(std::uint64_t peer) const;
  bool all_ready() const;
  void look_at_barrier();
  void settle(std::uint32_t rank, bool counted);
  void tell_verdict();
  void take_out(std::uint32_t rank, bool died);
  void end_if_over();
  void fail_job(const Error& cause);
  void dismiss(const Error& cause);
  void look_at_leases();
  void server_gone(std::uint32_t index);
  void go_without(std::uint32_t index);
  // To the servers that are left, and so to the workers.
  void tell_view();
  void count();

  // What stands for the connection of one who may come back, until then.
  static std::uint64_t away_server(std::uint32_t index) { return kAway + index; }
  static std::uint64_t away_worker(std::uint32_t rank) { return 2 * kAway + rank; }
  static bool is_away(std::uint64_t peer) { return peer >= kAway; }
  static constexpr std::uint64_t kAway = std::uint64_t{1} << 62;

  // The state on disk, and going on with it: scheduler_state.cc, scheduler_return.cc.
  Status open_store();
  Result<std::optional<Bytes>> load();
  Status keep();
  Status save(const Bytes& image);
  void put_state(Bytes& image) const;
  Status get_state(const Bytes& image);
  Status get_servers(bootstrap::Decoder& in);
  Status get_workers(bootstrap::Decoder& in);
  Status get_tensors(bootstrap::Decoder& in);
  Result<Bytes> back_server(std::uint64_t peer, bootstrap::Decoder& in);
  Result<Bytes> back_worker(std::uint64_t peer, bootstrap::Decoder& in);
  void away_again(std::uint64_t peer);
  void set_peer(WorkerAt& worker, std::uint64_t peer);
  void look_who_is_back();
  void go_on();
  std::set<std::uint32_t> tell_known();
  void miss_servers();
  void miss_workers(bool all);
  Result<Bytes> ask_server(ServerAt& server, Ask what, const Bytes& body,
                           std::optional<Nanos> patience = {});
  // Every server that is there. One that dies meanwhile is left out if the job can do without it;
  // else the first failure ends it.
  Status ask_servers(Ask what, const Bytes& body, Nanos patience);

  SchedulerOptions options_;
  JobOptions job_;
  std::vector<ServerAt> servers_;
  std::vector<WorkerAt> workers_;
  std::map<std::string, TensorAt, std::less<>> tensors_;
  std::optional<BlockPlacement> placement_;
  std::uint32_t last_tensor_ = 0;
  std::uint32_t last_attempt_ = 0;
  std::uint32_t dead_ = 0;
  std::uint32_t left_ = 0;
  JobView view_;
  struct Standby {
    RpcServer::Question question;
    ServerPlace place;
  };
  std::deque<Standby> standby_;          // servers that wait for a place
  std::optional<std::uint32_t> coming_;  // the place that a newcomer is about to take
  bool newcomer_ready_ = false;          // it has made its shards
  std::uint32_t last_turn_ = 0;
  std::vector<RpcServer::Question> entering_;  // workers that wait until it has
  struct Waiting {
    RpcServer::Question question;
    std::uint32_t wanted = 0;
  };
  std::vector<Waiting> joining_;                          // workers that came before the servers
  std::map<std::uint32_t, RpcServer::Question> barrier_;  // by rank
  std::optional<Error> failure_;
  bool over_ = false;  // every worker has left

  std::optional<Snapshots::Found> to_restore_;
  std::unique_ptr<Store> store_;        // null: nothing is kept
  Bytes kept_;                          // the image that is in it
  std::optional<Error> not_kept_;       // it could not be kept, and the job has ended
  std::optional<Verdict> verdict_;      // that not all servers may have been told
  std::optional<Admission> admission_;  // the same
  std::string endpoint_;                // of the scheduler before this one; empty: there was none
  std::optional<Deadline> back_by_{};   // those who were there may still come back
  bool servers_away_ = false;           // some of them are servers; then questions wait
  Deadline look_again_;                 // for those who have ended meanwhile
  struct Held {
    RpcServer::Question question;
    Bytes body;
  };
  std::vector<Held> held_;

  JobEnd end_;
  Mutex lock_;
  SchedulerStats stats_ FERRY_GUARDED_BY(lock_);
  std::optional<fabric::Device> asking_;
  std::unique_ptr<RpcServer> control_;  // its thread stops first, and uses it until then
};

}  // namespace ferry::ps
