#include <algorithm>
#include <cerrno>
#include <chrono>

#include "ferry/base/log.h"
#include "ferry/ps/wire/scheduler_link_internal.h"

namespace ferry::ps {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWatchEvery{50};
constexpr milliseconds kBetweenTries{100};
constexpr std::chrono::seconds kOneTry{10};  // to connect, and to be heard

// One that is started later than those who look for it is waited for.
Result<std::unique_ptr<RpcClient>> first_client(fabric::Device& device, const std::string& endpoint,
                                                Deadline deadline) {
  for (bool said = false;;) {
    auto client = RpcClient::connect(device, endpoint, deadline);
    if (client || client.error().os_code() != ECONNREFUSED || deadline.left() <= kBetweenTries)
      return client;
    if (!std::exchange(said, true))
      logger().warn("there is no scheduler at {} yet; it is waited for", endpoint);
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace

Result<std::unique_ptr<SchedulerLink>> SchedulerLink::connect(fabric::Device& device,
                                                              std::string endpoint,
                                                              Deadline deadline) {
  std::unique_ptr<SchedulerLink> link(new SchedulerLink(std::move(endpoint)));
  auto client = FERRY_TRY(first_client(device, link->endpoint_, deadline));
  LockGuard<Mutex> guard(link->lock_);
  link->client_ = std::move(client);
  return link;
}

SchedulerLink::~SchedulerLink() {
  end();
  if (watcher_.joinable()) watcher_.join();
}

void SchedulerLink::end() {
  LockGuard<Mutex> guard(lock_);
  stop_ = true;
  changed_.notify_all();
}

void SchedulerLink::stay(Ask back, const Bytes& who, const JobOptions& job,
                         const fabric::Options& data) {
  options_ = control_options(data);
  back_ = back;
  who_ = who;
  away_ = milliseconds(job.scheduler_away_ms);
  if (away_ > Nanos(0)) watcher_ = std::thread([this] { watch(); });
}

Result<std::shared_ptr<RpcClient>> SchedulerLink::client_but(const RpcClient* stale,
                                                             Deadline deadline) {
  LockGuard<Mutex> guard(lock_);
  // The connection that failed is not used again, whatever it says of itself.
  if (stale != nullptr && client_.get() == stale) set_aside();
  changed_.notify_all();
  for (;;) {
    if (lost_) return tl::unexpected<Error>(*lost_);
    if (client_ != nullptr) return client_;
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded, "the scheduler at {} is gone, and is not back yet",
                  endpoint_);
    (void)changed_.wait_for(lock_, std::min<Nanos>(deadline.left(), kBetweenTries));
  }
}

Result<Bytes> SchedulerLink::call(Ask what, const Bytes& body, Deadline deadline) {
  auto client = FERRY_TRY(client_but(nullptr, deadline));
  for (;;) {
    auto asked = client->ask(what, body, deadline);
    if (asked) return *std::move(asked);
    if (away_ == Nanos(0) || asked.error().code() == Code::kDeadlineExceeded)
      return tl::unexpected<Error>(asked.error());
    client = FERRY_TRY(client_but(client.get(), deadline));
  }
}

Result<Bytes> SchedulerLink::join(Ask as, const Bytes& body, Deadline deadline) {
  auto answer = call(as, body, deadline);
  if (answer || answer.error().code() != Code::kDeadlineExceeded) return answer;
  const bool server = as == Ask::kJoinServer;
  return fail(Code::kDeadlineExceeded, "the scheduler at {} had no place for this {} in time: {}",
              endpoint_, server ? "server" : "worker",
              server ? "the job has its servers, and none of them has gone"
                     : "servers of the job are missing");
}

bool SchedulerLink::alive() {
  LockGuard<Mutex> guard(lock_);
  return !lost_ && (away_ > Nanos(0) || is_connected());
}

Status SchedulerLink::lost() {
  LockGuard<Mutex> guard(lock_);
  if (lost_) return tl::unexpected<Error>(*lost_);
  if (away_ > Nanos(0) || is_connected()) return {};
  return rejected();
}

tl::unexpected<Error> SchedulerLink::rejected() const {
  return fail(Code::kUnavailable, "the scheduler at {} is gone, or goes on without this one",
              endpoint_);
}

std::uint64_t SchedulerLink::made() {
  LockGuard<Mutex> guard(lock_);
  return made_;
}

void SchedulerLink::suspect(std::uint64_t made) {
  LockGuard<Mutex> guard(lock_);
  if (made != made_) return;
  if (away_ == Nanos(0) && !lost_) lost_ = rejected().value();
  set_aside();
  changed_.notify_all();
}

void SchedulerLink::set_aside() {
  if (client_ != nullptr) former_.push_back(std::move(client_));
  client_ = nullptr;
}

void SchedulerLink::rest(Nanos span) {
  LockGuard<Mutex> guard(lock_);
  if (!stop_) (void)changed_.wait_for(lock_, span);
}

void SchedulerLink::watch() {
  for (;;) {
    rest(kWatchEvery);
    {
      LockGuard<Mutex> guard(lock_);
      if (stop_ || lost_) return;
      if (is_connected()) continue;
      set_aside();
    }
    reconnect();
  }
}

void SchedulerLink::reconnect() {
  logger().warn("the scheduler at {} is gone; it is looked for", endpoint_);
  const auto until = Deadline::after(away_);
  for (;;) {
    auto client = try_reconnect(until);
    {
      LockGuard<Mutex> guard(lock_);
      if (stop_) return;
      if (client) client_ = *client;
      if (!client) lost_ = client.error();
      if (!lost_ && client_ == nullptr && until.expired())
        lost_ = Error(Code::kUnavailable,
                      fmt::format("the scheduler at {} is gone, and was not back within {} s",
                                  endpoint_, std::chrono::duration<double>(away_).count()),
                      0, __FILE__, __LINE__);
      changed_.notify_all();
      if (lost_ || client_ != nullptr) return;
    }
    rest(kBetweenTries);
  }
}

Result<std::shared_ptr<RpcClient>> SchedulerLink::try_reconnect(Deadline deadline) {
  const std::shared_ptr<RpcClient> none;
  const auto one_try = scaled(kOneTry, options_);
  // A device that knows nothing of the scheduler that was at this address before.
  auto opened = fabric::Device::open(options_);
  if (!opened) return none;
  const auto device = std::make_shared<fabric::Device>(*std::move(opened));
  auto connected =
      RpcClient::connect(*device, endpoint_, std::min(deadline, Deadline::after(one_try)));
  if (!connected) return none;
  std::shared_ptr<RpcClient> client(connected->release(), [device](RpcClient* done) {
    std::unique_ptr<RpcClient>(done).reset();
  });
  {
    LockGuard<Mutex> guard(lock_);
    ++made_;  // before the scheduler turns to this one
  }
  const auto asked = client->ask(back_, who_, Deadline::after(one_try));
  if (!asked) return none;
  if (*asked) return client;
  logger().warn("the scheduler at {} does not take this one back: {}", endpoint_,
                asked->error().message());
  return tl::unexpected<Error>(asked->error());
}

}  // namespace ferry::ps
