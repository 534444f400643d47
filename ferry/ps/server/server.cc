#include "ferry/ps/server.h"

#include <algorithm>
#include <chrono>

#include "ferry/ps/server/server_core_internal.h"

namespace ferry::ps {

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
  put(out, ServerPlace{control_->endpoint(), data_->endpoint(), options_.shards});
  const auto answer = FERRY_TRY(scheduler_->join(Ask::kJoinServer, body, deadline));
  bootstrap::Decoder in(answer);
  index_ = in.u32();
  first_shard_ = in.u32();
  const bool newcomer = in.u8() != 0;
  job_ = FERRY_TRY(get_job(in));
  const auto token = in.u64();
  FERRY_TRY(in.finish("the scheduler's answer"));
  Bytes who;
  bootstrap::Encoder(who).u32(index_).u64(token);
  scheduler_->stay(Ask::kBackServer, who, job_, options_.device);
  workers_.resize(job_.workers);
  const bool alone = job_.servers == 1 && options_.shards == 1;
  for (std::uint32_t each = 0; each < options_.shards * job_.replicas; ++each)
    shards_.push_back(FERRY_TRY(Shard::open(*data_, job_, alone, newcomer)));
  acceptor_ = std::thread([this] { accept_data(); });
  joined_ = true;
  FERRY_TRY(scheduler_->call(Ask::kServerReady, {}, deadline));
  return {};
}

// Shards may wait for workers to let go of a plane: nobody holds one from now on.
Server::Core::~Core() {
  stop_ = true;
  control_.reset();  // its thread starts the copier
  if (copier_.joinable()) copier_.join();
  for (auto& [id, parts] : tensors_)
    for (auto& at : parts)
      for (std::uint32_t rank = 0; rank < job_.workers; ++rank) at.part->clear_seat(rank);
  for (auto& shard : shards_) shard->stop();
  // No send reads from parts any more.
  {
    LockGuard<Mutex> guard(lock_);
    for (auto& channel : channels_) channel->close();
  }
  shards_.clear();
  if (acceptor_.joinable()) acceptor_.join();
}

void Server::Core::accept_data() {
  while (!stop_) {
    auto channel = data_->accept(Deadline::after(std::chrono::milliseconds(100)));
    if (!channel) continue;
    LockGuard<Mutex> guard(lock_);
    // Those of workers that are gone are known to nobody else, once their ranks have others.
    std::erase_if(channels_,
                  [](const auto& each) { return !each->alive() && each.use_count() == 1; });
    spin_.add(*data_, *channel);
    channels_.push_back(std::make_shared<fabric::Channel>(std::move(*channel)));
    changed_.notify_all();
  }
}

Result<std::shared_ptr<fabric::Channel>> Server::Core::channel_of(const fabric::DeviceId& device) {
  const auto deadline = Deadline::after(scaled(std::chrono::seconds(5), options_.device));
  LockGuard<Mutex> guard(lock_);
  for (;;) {
    bool came = false;
    for (auto& channel : channels_) {
      if (channel->peer() != device) continue;
      if (channel->alive()) return channel;
      came = true;
    }
    if (came)
      return fail(Code::kUnavailable, "the data channel of device {} has broken",
                  device.to_string());
    if (deadline.expired())
      return fail(Code::kFailedPrecondition,
                  "no data channel of device {} has come to {}; connect first", device.to_string(),
                  data_->endpoint());
    (void)changed_.wait_for(lock_, deadline.left());
  }
}

// With copies, the job may go on without this server: then its connection ends.
void Server::Core::heard_scheduler(std::uint64_t peer) {
  if (job_.replicas == 1) return;
  scheduler_peer_ = peer;
  scheduler_made_ = scheduler_->made();
}

void Server::Core::gone(std::uint64_t peer) {
  if (peer == scheduler_peer_ && joined_) scheduler_->doubt(scheduler_made_);
}

void Server::Core::tick() {
  if (!joined_) return;
  if (const auto lost = scheduler_->lost(); !lost) scheduler_gone(lost.error());
}

void Server::Core::scheduler_gone(const Error& how) {
  if (end_.is_set()) return;
  // If only this server was cut off, or hung, the others go on with its blocks.
  if (job_.replicas > 1)
    for (auto& shard : shards_) shard->retire();
  end_.set(fail(Code::kUnavailable, "{}", how.message()));
}

ServerStats Server::Core::stats() {
  ServerStats all;
  all.tensors = tensor_count_;
  all.memory_bytes = data_->stats().memory.in_use;
  {
    LockGuard<Mutex> guard(lock_);
    all.spin = spin_.now();
  }
  for (auto& shard : shards_) {
    shard->run([&] {
      const auto& one = shard->stats();
      all.entries += one.entries;
      all.bytes += one.bytes;
      all.in_place += one.in_place;
      all.steps += one.steps;
      all.breaches += one.breaches;
    });
  }
  return all;
}

}  // namespace ferry::ps
