#include "ferry/base/waiting.h"
#include "ferry/ps/server/shard_internal.h"

namespace ferry::ps {

Result<std::unique_ptr<Shard>> Shard::open(fabric::Device& device, const JobOptions& job,
                                           bool alone, bool newcomer) {
  auto workers = FERRY_TRY(WorkerConnections::open(device, job));
  std::unique_ptr<Shard> shard(new Shard(device, job, std::move(workers), alone, newcomer));
  shard->thread_ = std::thread([raw = shard.get()] { raw->work(); });
  return shard;
}

Shard::~Shard() { stop(); }

void Shard::stop() {
  stop_ = true;
  device_.wake_waiters();
  if (thread_.joinable()) thread_.join();
}

void Shard::run(const Command& command) {
  LockGuard<Mutex> guard(lock_);
  commands_.push_back(&command);
  const auto mine = ++commands_given_;
  commanded_ = true;
  device_.wake_waiters();
  while (commands_run_ < mine) ran_.wait(lock_);
}

void Shard::run_commands() {
  LockGuard<Mutex> guard(lock_);
  for (; !commands_.empty(); commands_.pop_front(), ++commands_run_) (*commands_.front())(core_);
  commanded_ = false;
  ran_.notify_all();
}

void Shard::work() {
  while (!stop_) {
    if (commanded_) run_commands();
    if (!retired_ && core_.serve_all()) continue;
    (void)device_.wait_until([this] { return has_work(); }, Deadline::after(waiting::kShardSleep));
  }
}

bool Shard::has_work() const {
  if (commanded_ || stop_) return true;
  return !retired_ && core_.has_work();
}

}  // namespace ferry::ps
