#pragma once

#include <condition_variable>
#include <map>
#include <optional>
#include <vector>

#include "ferry/ps/server.h"
#include "ferry/ps/server/shard_internal.h"
#include "ferry/ps/wire/job_end_internal.h"
#include "ferry/ps/wire/rpc_internal.h"
#include "ferry/ps/wire/scheduler_link_internal.h"

namespace ferry::ps {

class Server::Core final : public RpcServer::Handler {
 public:
  static Result<std::unique_ptr<Core>> open(ServerOptions options, Deadline deadline);
  ~Core();

  std::uint32_t index() const { return index_; }
  std::string endpoint() const { return data_->endpoint(); }
  Status wait(Deadline deadline) { return end_.wait(deadline); }
  ServerStats stats();

  Result<std::optional<Bytes>> asked(const RpcServer::Question& question,
                                     bootstrap::Decoder& body) override;
  void gone(std::uint64_t peer) override;
  void tick() override;

 private:
  struct PartAt {
    std::uint32_t shard = 0;  // of this server
    std::uint32_t number = 0;
    std::uint32_t run = 0;
    std::uint64_t offset = 0;  // in bytes of the tensor
    Part* part = nullptr;
    fabric::RemoteRegion table{};
    fabric::RemoteRegion seats{};
  };
  struct WorkerAt {
    std::shared_ptr<fabric::Channel> channel;
    std::uint16_t nonce = 0;
    std::uint64_t asker = 0;  // what its connection is to control_
  };
  Core() = default;
  // Which of shards_ has this shard of the job: its own ones, then those it has second copies of.
  std::optional<std::uint32_t> local_shard(std::uint32_t shard) const;
  Status join(Deadline deadline);
  void accept_data();
  void scheduler_gone(const Error& how);
  Result<std::shared_ptr<fabric::Channel>> channel_of(const fabric::DeviceId& device);
  void heard_scheduler(std::uint64_t peer);
  Result<Bytes> create(bootstrap::Decoder& in);
  Status make(const TensorInfo& info);
  Status create_part(const TensorInfo& info, std::uint32_t run, std::vector<PartAt>& parts);
  void remove(std::vector<PartAt>& parts);
  Result<Bytes> drop(bootstrap::Decoder& in);
  void drop_tensor(std::uint32_t id);
  Result<Bytes> drop_unknown(bootstrap::Decoder& in);
  Result<Bytes> save(bootstrap::Decoder& in);
  Result<Bytes> restore(bootstrap::Decoder& in);
  Result<Bytes> attach(std::uint64_t peer, bootstrap::Decoder& in);
  Result<Bytes> open_tensor(std::uint64_t peer, bootstrap::Decoder& in);
  Result<Bytes> map_memory(std::uint64_t peer, bootstrap::Decoder& in);
  Result<Bytes> add_landing(std::uint64_t peer, bootstrap::Decoder& in);
  Result<Bytes> freeze(bootstrap::Decoder& in);
  Result<Bytes> settle(bootstrap::Decoder& in);
  Result<Bytes> hold(bootstrap::Decoder& in);
  Result<Bytes> admit(bootstrap::Decoder& in);
  Result<Bytes> move_on(bootstrap::Decoder& in);
  void give_images(const JobView& view);
  Result<Bytes> show_image(bootstrap::Decoder& in);
  Result<Bytes> catch_up(bootstrap::Decoder& in);
  Status copy_shards(const std::string& from, std::uint32_t shard, std::uint32_t local);
  Status copy_shard(RpcClient& from, std::uint32_t number, Shard& shard);
  Result<Bytes> stop(bootstrap::Decoder& in);
  Result<std::uint32_t> get_rank(bootstrap::Decoder& in) const;
  // The rank of a worker that has attached, and asks on the same connection.
  Result<std::uint32_t> get_attached(std::uint64_t peer, bootstrap::Decoder& in) const;

  ServerOptions options_;
  JobOptions job_;
  std::uint32_t index_ = 0;
  std::optional<fabric::Device> data_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::map<std::uint32_t, std::vector<PartAt>> tensors_;
  std::map<std::uint32_t, TensorInfo> infos_;
  std::vector<WorkerAt> workers_;
  std::uint64_t scheduler_peer_ = 0;  // what it is to control_, once it has asked
  std::uint64_t scheduler_made_ = 0;  // its SchedulerLink::made() then
  std::uint32_t first_shard_ = 0;     // of this server, counted over all
  bool first_gone_ = false;  // the job goes on without the server that this one is second of

  JobEnd end_;
  Mutex lock_;
  std::condition_variable_any changed_;
  std::vector<std::shared_ptr<fabric::Channel>> channels_ FERRY_GUARDED_BY(lock_);
  transfer::WaitSpin spin_ FERRY_GUARDED_BY(lock_);  // of data_
  std::atomic<std::uint64_t> tensor_count_{0};
  std::atomic<bool> joined_{false};
  std::atomic<bool> stop_{false};
  std::thread acceptor_;
  std::thread copier_;
  std::unique_ptr<RpcServer> control_;
  std::optional<fabric::Device> asking_;
  std::unique_ptr<SchedulerLink> scheduler_;
};

}  // namespace ferry::ps
