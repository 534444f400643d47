#include "ferry/ps/server.h"

#include <chrono>

#include "ferry/ps/server/server_core_internal.h"
#include "ferry/ps/wire/protocol_version_internal.h"

namespace ferry::ps {
namespace {

constexpr std::chrono::seconds kChannelMayBeLate{5};
constexpr std::chrono::seconds kCopyPatience{10};

}  // namespace

Result<Server> Server::open(ServerOptions options, Deadline deadline) {
  return Server(FERRY_TRY(Core::open(std::move(options), deadline)));
}
Server::Server(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;
std::uint32_t Server::index() const { return core_->index(); }
std::string Server::endpoint() const { return core_->endpoint(); }
Status Server::wait(Deadline deadline) { return core_->wait(deadline); }
ServerStats Server::stats() const { return core_->stats(); }

Result<std::unique_ptr<Server::Core>> Server::Core::open(ServerOptions options, Deadline deadline) {
  if (options.shards == 0 || options.shards > 256)
    return fail(Code::kOutOfRange, "a server has 1 to 256 shards, not {}", options.shards);
  std::unique_ptr<Core> core(new Core());
  core->options_ = std::move(options);
  auto device = core->options_.device;
  if (core->options_.memory_bytes > 0) device.budget_bytes = core->options_.memory_bytes;
  core->data_.emplace(FERRY_TRY(fabric::Device::open(device)));
  FERRY_TRY(RpcServer::open(control_options(device), *core, core->control_));
  core->asking_.emplace(FERRY_TRY(fabric::Device::open(control_options(device))));
  FERRY_TRY(core->join(deadline));
  return core;
}

Status Server::Core::join(Deadline deadline) {
  scheduler_ = FERRY_TRY(SchedulerLink::connect(*asking_, options_.scheduler, deadline));
  Bytes body;
  bootstrap::Encoder out(body);
  put_protocol_version(out);
  put(out, ServerPlace{control_->endpoint(), data_->endpoint(), options_.shards});
  const auto answer = FERRY_TRY(scheduler_->join(Ask::kJoinServer, body, deadline));
  bootstrap::Decoder in(answer);
  FERRY_TRY(check_protocol_version(in, "server", "scheduler"));
  ServerRole role;
  role.shards = options_.shards;
  role.index = in.u32();
  role.first_shard = in.u32();
  const bool newcomer = in.u8() != 0;
  role.job = FERRY_TRY(get_job(in));
  const auto token = in.u64();
  FERRY_TRY(in.finish("the scheduler's answer"));
  Bytes who;
  bootstrap::Encoder back(who);
  put_protocol_version(back);
  back.u32(role.index).u64(token);
  scheduler_->stay(Ask::kBackServer, who, role.job, options_.device);
  shards_ = FERRY_TRY(ShardSet::open(*data_, role, newcomer));
  tensors_.emplace(*data_, *shards_, options_.functions);
  channels_.emplace(*data_);
  workers_.emplace(*channels_, *shards_, *tensors_, scaled(kChannelMayBeLate, options_.device));
  copies_.emplace(*asking_, *shards_, scaled(kCopyPatience, options_.device));
  joined_ = true;
  FERRY_TRY(scheduler_->call(Ask::kServerReady, {}, deadline));
  return {};
}

// The order matters: nobody asks any more, shards wait for no lease, no transfer reads from parts.
Server::Core::~Core() {
  control_.reset();
  copies_.reset();
  if (shards_ == nullptr) return;
  if (tensors_)
    for (std::uint32_t rank = 0; rank < shards_->role().job.workers; ++rank)
      tensors_->clear_seats(rank);
  shards_->stop();
  if (channels_) channels_->close();
  shards_->close();
}

void Server::Core::note_scheduler(std::uint64_t peer) {
  if (shards_->role().job.replicas == 1) return;
  scheduler_peer_ = peer;
  scheduler_made_ = scheduler_->made();
}

void Server::Core::gone(std::uint64_t peer) {
  if (peer == scheduler_peer_ && joined_) scheduler_->suspect(scheduler_made_);
}

void Server::Core::tick() {
  if (!joined_) return;
  if (const auto lost = scheduler_->lost(); !lost) scheduler_lost(lost.error());
}

void Server::Core::scheduler_lost(const Error& how) {
  if (end_.is_set()) return;
  // If only this server was cut off, or hung, the others go on with its blocks.
  if (shards_->role().job.replicas > 1) shards_->retire();
  end_.set(fail(Code::kUnavailable, "{}", how.message()));
}

ServerStats Server::Core::stats() {
  ServerStats all;
  all.tensors = tensors_->size();
  all.memory_bytes = data_->stats().memory.in_use;
  all.spin = channels_->spin();
  shards_->run_all([&](ShardCore& shard) {
    const auto& one = shard.stats();
    all.entries += one.entries;
    all.bytes += one.bytes;
    all.in_place += one.in_place;
    all.steps += one.steps;
    all.breaches += one.breaches;
  });
  return all;
}

}  // namespace ferry::ps
