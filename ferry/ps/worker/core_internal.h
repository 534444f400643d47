#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ferry/base/inline_function.h"
#include "ferry/fabric/device.h"
#include "ferry/ps/wire/layout_internal.h"
#include "ferry/ps/wire/rpc_internal.h"
#include "ferry/ps/wire/scheduler_link_internal.h"
#include "ferry/ps/worker.h"
#include "ferry/ps/worker/merge_internal.h"
#include "ferry/ps/worker/shard_link_internal.h"

namespace ferry::ps {

// What a worker knows of a tensor's part.
struct PartLink {
  ShardLink* link = nullptr;
  std::uint32_t number = 0;
  Run run;
  PartLayout layout;
  fabric::RemoteRegion table;
  const std::byte* mapped = nullptr;  // the table; null: it is read
  std::byte* seats = nullptr;
  std::uint16_t nonce = 0;
  bool leased = false;
  std::uint64_t last_entry = 0;  // of the last push, in the link's ring
};

struct TensorLink {
  TensorInfo info;
  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;
  std::vector<PartLink> parts;                  // by offset; then second copies, the same way
  std::uint64_t pushed_in = 0;                  // the last step in which it was pushed
  std::shared_ptr<std::vector<std::byte>> own;  // for pulls that are not in place
  fabric::Region landing;                       // where servers send what was asked to come back
  Bytes copy;                                   // of a gradient in the program's own memory (kSync)
  tensor::Tensor copy_in_place;                 // of one in memory from allocate(); servers read it
  std::optional<std::size_t> offered;  // the memory that gradients from elsewhere are copied to
  fabric::Region sum;                  // of this host
};

struct ServerLink {
  std::unique_ptr<RpcClient> control;
  fabric::Channel channel;
  fabric::Region words;        // Words of its shards
  std::uint32_t turn = 0;      // Newcomer::turn; 0: the first in its place
  std::uint32_t memories = 0;  // that the server has mapped
  std::uint32_t shards = 0;
  std::uint32_t first_shard = 0;  // counted over all servers
  std::uint32_t first_link = 0;   // its own shards, then those it has second copies of
  bool gone = false;              // the job goes on without it
};

// Memory from allocate(), and which of a server's memories it is.
struct Memory {
  fabric::Region region;
  std::vector<std::optional<std::uint32_t>> at;
};

// What was pushed in the step, in case it has to be pushed again.
struct Pushed {
  Parameter parameter = 0;
  std::span<const std::byte> gradient;                 // dense
  std::shared_ptr<const std::vector<std::byte>> rows;  // a payload for one slot
  std::uint32_t part = 0;                              // of the first copies
  std::uint64_t count = 0;
  bool back = false;  // the new values are to be sent back
};

struct PushOptions {
  bool back = false;    // the new values are to be sent back
  bool copied = false;  // kSync: what is read later is a copy
};

class WorkerCore {
 public:
  static Result<std::unique_ptr<WorkerCore>> open(WorkerOptions options, Deadline deadline);
  ~WorkerCore();

  Result<Parameter> init(std::string_view name, const tensor::Spec& spec,
                         std::span<const std::byte> values, const Update& update,
                         Deadline deadline);
  Result<Parameter> find(std::string_view name, Deadline deadline);
  Result<std::vector<std::string>> names(Deadline deadline);
  Result<TensorLink*> tensor(Parameter parameter);
  Result<std::uint64_t> version(Parameter parameter, Deadline deadline);
  Result<tensor::Tensor> allocate(const tensor::Spec& spec, Deadline deadline);
  // The gradient stays where it is until it was read; see wait_until_read().
  Status push(Parameter parameter, std::span<const std::byte> gradient, Deadline deadline,
              const PushOptions& options = {});
  // The gradient's memory is the program's again when it returns, also after a failure (kSync).
  Status push_own(Parameter parameter, std::span<const std::byte> gradient, Deadline deadline);
  Result<Loan> lend_gradient(Parameter parameter, std::span<const std::byte> gradient,
                             Deadline deadline);
  // Waits until servers have read the gradient that was pushed last; in kSync until its step, which
  // was ended, is applied.
  Status wait_until_read(Parameter parameter, std::uint64_t step, Deadline deadline);
  Status push_rows(Parameter parameter, std::span<const std::uint64_t> rows,
                   std::span<const std::byte> values, Deadline deadline);
  Status end_step(Deadline deadline);
  Status flush(Deadline deadline);
  Result<Pulled> pull(Parameter parameter, Deadline deadline);
  Result<Pulled> push_pull(Parameter parameter, std::span<const std::byte> gradient,
                           Deadline deadline);
  Status pull_to(Parameter parameter, std::span<std::byte> out, Deadline deadline);
  Status pull_rows(Parameter parameter, std::span<const std::uint64_t> rows,
                   std::span<std::byte> out, Deadline deadline);
  Status barrier(Deadline deadline);
  Result<std::vector<std::uint32_t>> members(Deadline deadline);
  Result<std::string> snapshot(const std::string& folder, Deadline deadline);
  Status leave(Deadline deadline);
  Status let_go(Parameter parameter, std::span<const Pulled::Lease> leases);

  // Two threads may use a kAsync worker; where servers may be lost they take turns, since either
  // finds it out for both.
  using Turn = std::unique_ptr<WorkerCore, void (*)(WorkerCore*)>;
  Result<Turn> turn(Deadline deadline);

  std::uint32_t rank() const { return rank_; }
  const JobOptions& job() const { return job_; }
  std::uint64_t step() const { return step_; }
  const WorkerStats& stats() const { return stats_; }

 private:
  // While it is there, no newcomer is met.
  struct Posting {
    explicit Posting(int& count) : count_(count) { ++count_; }
    ~Posting() { --count_; }
    Posting(const Posting&) = delete;
    Posting& operator=(const Posting&) = delete;
    int& count_;
  };
  // A row of a pull.
  struct RowAt {
    std::uint64_t offset = 0;  // within the part
    std::span<std::byte> out;
  };
  WorkerCore() = default;
  bool sync() const { return job_.consistency == Consistency::kSync; }
  Status join(Deadline deadline);
  Status enter(Deadline deadline);
  void add_links(std::uint32_t server, std::uint32_t shards);
  Status prepare_links(std::uint32_t server);
  Status attach(std::uint32_t server, const ServerPlace& place, Deadline deadline);
  Result<Parameter> open_tensor(TensorInfo info, Deadline deadline);
  Status open_parts(TensorLink& tensor, std::uint32_t server, Deadline deadline);
  Status assign(Parameter parameter, std::span<const std::byte> values, Deadline deadline);
  // Asks the scheduler what is answered when others have done something, and so may be asked twice.
  // They may be waiting for a step that this worker has to push again meanwhile.
  Result<Bytes> ask_and_look(Ask what, const Bytes& body, Nanos slice, Deadline deadline);
  // Nothing if the job goes on without the server.
  Result<std::optional<Bytes>> ask_server(std::uint32_t server, Ask what, const Bytes& wish,
                                          Deadline deadline);
  // Which of the server's memories it is, if it has mapped it.
  Result<std::optional<std::uint32_t>> lend(std::uint32_t server, const fabric::Region& region,
                                            Deadline deadline);

  // Copies of a shard, and of a part: see the design note.
  ShardLink& link_of(std::uint32_t shard, std::uint32_t copy);
  // The index of the copy that is read: the first, unless its server is gone.
  static std::size_t shown(const TensorLink& tensor, std::uint32_t run);
  // Whether it is so for every shard that there is.
  template <class Check>
  bool everywhere(Check check) const {
    return std::all_of(shards_.begin(), shards_.end(),
                       [&](const ShardLink& link) { return link.is_removed() || check(link); });
  }
  // The same for those that have this step.
  template <class Check>
  bool everywhere_in(std::uint64_t step, Check check) const {
    return everywhere([&](const ShardLink& link) { return !link.has_step(step) || check(link); });
  }
  // A shard that has been there from the beginning, or has caught up.
  const ShardLink& settled() const;
  // Whether shards say that the job goes on without a server that this worker counts on.
  bool moved() const;
  Status see_view(Deadline deadline);
  // Between two calls' entries, where newcomers can be met: those there are were met afterwards.
  Status look_around(Deadline deadline);
  Status learn_view(Deadline deadline);
  void go_without(std::uint32_t server);
  // False: it is not there, which the scheduler is about to see.
  bool meet(const Newcomer& newcomer, Deadline deadline);
  Status introduce(const Newcomer& newcomer, Deadline deadline);
  // After a failure at a server: well if the job goes on without it, which is waited for.
  Status outlive(std::uint32_t server, const Error& problem, Deadline deadline);
  // kUnavailable once the job goes on without the server.
  Status see_server(std::uint32_t server, Deadline deadline);
  // Waits for an operation on the server's channel; no longer than the server is part of the job.
  Status await(std::uint32_t server, fabric::Transfer transfer, Deadline deadline);

  // Waits until it is so, and sees to what comes up meanwhile.
  Status wait_for(InlineFunction<bool()> ready, Deadline deadline, const char* what);
  bool stirred() const;
  Status look_after(Deadline deadline);
  Status push_again(Deadline deadline);
  Status begin_anew(std::uint64_t attempt, Deadline deadline);
  // Fails if a part of the step was not posted in time: then it cannot be ended, nor posted again.
  Status whole(Deadline deadline) { return half_ == 0 ? Status() : look_after(deadline); }
  Status lost() const;

  bool is_applied(std::uint64_t step) const;  // kSync
  // Memory of the worker's for a copy of the gradient, which servers may still be reading.
  Result<std::span<std::byte>> room_for_copy(Parameter parameter,
                                             std::span<const std::byte> gradient,
                                             Deadline deadline);
  Status check_gradient(const TensorLink& tensor, std::span<const std::byte> gradient);
  Status begin_push(TensorLink& tensor, Deadline deadline);
  Status make_landing(TensorLink& tensor, Deadline deadline);
  Status offer_landing(const TensorLink& tensor, std::uint32_t server, Deadline deadline);
  // Waits until an entry, and its payload if that goes through a slot, can be posted.
  Status make_room(ShardLink& link, bool slot, Deadline deadline);
  // The same for a part of a tensor, whose step is only half posted if there is no room in time.
  Status room_for(ShardLink& link, Operation operation, bool slot, Deadline deadline);
  // Posts a block, and counts it.
  void post_slot(ShardLink& link, const Entry& entry, std::span<const std::byte> payload);
  // These stop, and say that all is well, when the step was begun anew while they waited: then
  // push_again() has pushed everything.
  Status post_dense(Parameter parameter, Operation operation, std::span<const std::byte> values,
                    bool back, Deadline deadline);
  Status post_rows(const Pushed& rows, Deadline deadline);
  Status post_end(Deadline deadline);
  const Memory* memory_of(std::span<const std::byte> bytes) const;

  // Gradients of one host that leave it as one.
  struct HostSum {
    Parameter parameter = 0;
    std::vector<const float*> sources;
  };
  Status open_for_neighbours();
  Status begin_merging();
  Status show_memory(const fabric::Region& region, std::size_t index);
  // Stores the step into a word of the own block, and wakes who looks at it.
  void say(std::size_t word);
  void choose_mode();
  bool merges() const {
    return merging_.step == pushing_ && merging_.mode != Merging::Mode::kAlone;
  }
  // What was pushed in the step, while it merges.
  std::span<const Pushed> held_back() const {
    return pushed_step_ == pushing_ ? std::span<const Pushed>(pushed_) : std::span<const Pushed>();
  }
  // Whether the gradients of the step are out of its hands: others may have read what there was.
  bool handed_over() const;
  void go_alone();
  Status push_alone(Deadline deadline);
  // merges() says afterwards whether the next push of this tensor may wait for the end of the step.
  Status hold_back(const TensorLink& tensor, std::span<const std::byte> gradient,
                   Deadline deadline);
  Status merge(Deadline deadline);
  Status follow(Deadline deadline);
  Result<Offer> offer(const Pushed& pushed);
  Status lead(Deadline deadline);
  Status merge_not(const Error& why, Deadline deadline);
  Result<std::vector<HostSum>> gather();
  Result<Parameter> offered_tensor(const Offer& offer) const;
  Result<std::span<const std::byte>> offered_bytes(Follower& follower, const Offer& offer,
                                                   std::uint64_t bytes);
  void end_merged(Deadline deadline);
  // How long a neighbour may take to show what it has.
  Deadline meeting() const;
  Status meet_neighbours(Deadline deadline);

  Status wait_fresh(Deadline deadline);
  // kUnavailable: a server that alone has a part of the tensor is gone. Memory that is mapped could
  // still be read, and would show what the server published last for ever.
  Status check_servers_of(const TensorLink& tensor) const;
  Status pull_part(TensorLink& from, std::uint32_t run, Pulled& pulled, Deadline deadline);
  // True: the views lie in the server's memory, under the worker's lease.
  Result<bool> lease(PartLink& part, Pulled& pulled) const;
  bool look(const PartLink& part, std::uint32_t block, std::uint64_t& current) const;
  bool leaves_room(const PartLink& part, std::uint64_t epoch) const;
  std::byte* seat(const PartLink& part, std::size_t which) const;
  Pulled::Lease take_lease(const PartLink& part, std::size_t which, std::uint64_t epoch) const;
  Status end_lease(const PartLink& part, const Pulled::Lease& lease) const;
  // False: there are no values yet.
  Result<bool> fetch(PartLink& part, std::span<std::byte> out, Deadline deadline);
  Result<bool> copy(const PartLink& part, std::span<std::byte> out) const;
  Result<bool> read(const PartLink& part, std::span<std::byte> out, Deadline deadline);
  // Gets it from the copy that is shown, from the next one if that is gone, once it is there.
  template <class Get>
  Status when_there(TensorLink& from, std::uint32_t run, Deadline deadline, Get get);
  Status fetch_when_there(TensorLink& from, std::uint32_t run, std::span<std::byte> out,
                          Deadline deadline);
  Result<bool> fetch_rows(const PartLink& part, std::span<const RowAt> rows, Deadline deadline);
  Result<bool> copy_rows(const PartLink& part, std::span<const RowAt> rows) const;
  Result<bool> read_rows(const PartLink& part, std::span<const RowAt> rows, Deadline deadline);
  Result<std::uint64_t> read_version(const PartLink& part, Deadline deadline);
  static std::uint32_t part_at(const TensorLink& tensor, std::uint64_t offset);

  Mutex turn_lock_;
  std::condition_variable_any turn_free_;
  bool turn_taken_ FERRY_GUARDED_BY(turn_lock_) = false;
  WorkerOptions options_;
  JobOptions job_;
  std::uint32_t rank_ = 0;
  std::optional<fabric::Device> asking_;
  std::unique_ptr<SchedulerLink> scheduler_;
  std::optional<fabric::Device> data_;
  mail::WaitSpin spin_;  // of data_
  std::vector<ServerLink> servers_;
  // Servers whose place was taken: the user may look at their memory, and leases are let go of
  // there.
  std::vector<ServerLink> past_;
  JobView known_;  // what the scheduler said last
  std::deque<ShardLink> shards_;
  std::deque<TensorLink> tensors_;
  std::map<std::string, Parameter, std::less<>> names_;
  std::vector<Memory> memories_;
  Merging merging_;
  std::vector<Pushed> pushed_;     // in the step that is not known to be applied
  std::uint64_t pushed_step_ = 0;  // the step of these
  std::uint64_t entered_ = 0;      // the last step that this worker is not part of
  std::uint64_t step_ = 0;         // ended
  std::uint64_t pushing_ = 0;      // the step of what is posted
  std::uint32_t attempt_ = 0;
  std::uint64_t half_ = 0;  // the step that is posted in part, by a call that ran out of time
  std::uint64_t owed_ = 0;  // the step that was pushed again, and whose END is still to be posted
  std::uint64_t view_ = 0;
  std::uint64_t barriers_ = 0;  // that were asked for
  bool again_ = false;          // push_again() is running
  int posting_ = 0;             // entries of a call are being posted: no newcomer is met meanwhile
  bool behind_ = false;         // there is one to be met
  bool joined_ = false;
  bool left_ = false;
  WorkerStats stats_;
};

}  // namespace ferry::ps
