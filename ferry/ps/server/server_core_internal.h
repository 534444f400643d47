#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "ferry/ps/server.h"
#include "ferry/ps/server/attached_workers_internal.h"
#include "ferry/ps/server/shard_copies_internal.h"
#include "ferry/ps/wire/job_end_internal.h"
#include "ferry/ps/wire/scheduler_link_internal.h"

namespace ferry::ps {

// A server: joins the job, and answers what the scheduler and workers ask. Its parts do the work;
// what is here is their life, and the scheduler's commands for all shards. asked(), gone() and
// tick() run on the thread of its RpcServer; the rest is thread-safe.
class Server::Core final : public RpcServer::Handler {
 public:
  static Result<std::unique_ptr<Core>> open(ServerOptions options, Deadline deadline);
  ~Core();

  std::uint32_t index() const { return shards_->role().index; }
  std::string endpoint() const { return data_->endpoint(); }
  Status wait(Deadline deadline) { return end_.wait(deadline); }
  ServerStats stats();

  Result<std::optional<Bytes>> asked(const RpcServer::Question& question,
                                     bootstrap::Decoder& body) override;
  void gone(std::uint64_t peer) override;
  void tick() override;

 private:
  Core() = default;
  // Asks the scheduler for a place, opens the shards, and says that this server is ready.
  Status join(Deadline deadline);
  // Which connection is the scheduler's. With copies, the job may go on without this server: then
  // the scheduler ends it.
  void note_scheduler(std::uint64_t peer);
  // The scheduler does not come back: this server's part in the job ends. With copies its shards
  // take no entries any more, since the job may go on without it.
  void scheduler_lost(const Error& how);
  // Answers one question of the scheduler or of a worker.
  Result<Bytes> answer(const RpcServer::Question& question, bootstrap::Decoder& in);

  // The scheduler's commands, each with the answer to it: docs/wire/ps.md has their bodies.
  Result<Bytes> create(bootstrap::Decoder& in);
  Result<Bytes> drop(bootstrap::Decoder& in);
  // Drops what was made for a scheduler that did not live to tell anybody.
  Result<Bytes> drop_unknown(bootstrap::Decoder& in);
  Result<Bytes> save(bootstrap::Decoder& in);
  Result<Bytes> restore(bootstrap::Decoder& in);
  Result<Bytes> freeze(bootstrap::Decoder& in);
  Result<Bytes> commit_departure(bootstrap::Decoder& in);
  Result<Bytes> hold(bootstrap::Decoder& in);
  Result<Bytes> admit(bootstrap::Decoder& in);
  Result<Bytes> apply_view(bootstrap::Decoder& in);
  Result<Bytes> catch_up(bootstrap::Decoder& in);
  // The newcomer has its copies, or cannot get them: the scheduler is told.
  void caught_up(Status copied);
  Result<Bytes> stop(bootstrap::Decoder& in);

  ServerOptions options_;
  std::optional<fabric::Device> data_;
  std::unique_ptr<ShardSet> shards_;
  std::optional<PartDirectory> tensors_;
  std::optional<DataChannels> channels_;
  std::optional<AttachedWorkers> workers_;
  std::uint64_t scheduler_peer_ = 0;  // its connection to control_, once it has asked
  std::uint64_t scheduler_made_ = 0;  // its SchedulerLink::made() then
  bool first_gone_ = false;           // the server that this one is second of is out
  JobEnd end_;
  std::atomic<bool> joined_{false};
  std::unique_ptr<RpcServer> control_;
  std::optional<fabric::Device> asking_;
  std::unique_ptr<SchedulerLink> scheduler_;
  std::optional<ShardCopies> copies_;
};

}  // namespace ferry::ps
