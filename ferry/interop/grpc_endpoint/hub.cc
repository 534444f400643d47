#include <pthread.h>

#include <algorithm>
#include <thread>

#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/interop/grpc_endpoint/endpoint_internal.h"
#include "ferry/interop/grpc_endpoint/hand_over_internal.h"
#include "ferry/interop/grpc_endpoint/hub_internal.h"

namespace ferry::interop {

namespace {

constexpr std::size_t kHubArena = std::size_t{4} << 20;
constexpr std::uint32_t kMostLanes = 1 << 20;
constexpr std::size_t kMostAtOnce = 12;  // connections that a thread serves before gRPC goes on
constexpr std::size_t kMostReports = 10'000;
constexpr auto kDrainTurn = std::chrono::milliseconds(20);

fabric::Options device_options(const PluginOptions& options, const SecretSource& secret,
                               const std::string& reached_at) {
  fabric::Options made;
  made.provider = options.provider;
  made.secret = secret.text;
  made.secret_file = secret.file;
  if (!reached_at.empty()) made.listen = reached_at;
  if (!options.listen.empty()) made.listen = options.listen;
  made.arena_bytes = kHubArena;
  made.patience = options.patience;
  made.give_up = options.give_up;
  made.max_lanes_per_peer = kMostLanes;
  return made;
}

// An epoll of its own around the device's descriptor: gRPC closes what it watches, and an epoll
// that has seen a duplicate knows it for as long as the original is open.
Result<Fd> wrap_descriptor(int descriptor) {
  Fd wrapper(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!wrapper || ::epoll_ctl(wrapper.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
    return fail_errno(errno, "making a descriptor that wakes gRPC's threads");
  return wrapper;
}

}  // namespace

Hub& Hub::get() {
  static Hub* const hub = new Hub;  // outlives every thread
  return *hub;
}

Status Hub::open(const std::string& reached_at) {
  LockGuard<Mutex> guard(lock_);
  if (!opened_) {
    opened_ = open_now(reached_at);
    if (!*opened_)
      logger().warn("gRPC stays on TCP in this process: {}", opened_->error().to_string());
  }
  return *opened_;
}

Status Hub::open_now(const std::string& reached_at) {
  const auto& options = PluginOptions::get();
  const auto source = FERRY_TRY(SecretSource::find(options));
  secret_.emplace(FERRY_TRY(source.read()));
  device_.emplace(FERRY_TRY(fabric::Device::open(device_options(options, source, reached_at))));
  FERRY_TRY(device_->wait_descriptor());
  mail::MailRoomOptions room;
  room.tuning = mail::TuningUse::kCached;
  room.budget_bytes = options.memory;
  room.shared_bytes = options.memory;
  room_.emplace(FERRY_TRY(mail::MailRoom::open(*device_, room)));
  ::pthread_atfork(nullptr, nullptr, [] { Hub::get().disown(); });
  return {};
}

// The lock may be held by a thread that the child does not have.
void Hub::disown() {
  new (&lock_) Mutex;
  LockGuard<Mutex> guard(lock_);
  opened_ = fail(Code::kFailedPrecondition, "the process was forked after gRPC was used");
  belled_ = false;  // an epoll of the child's may have the number of the parent's
  grpc_epoll_ = -1;
  armed_ = false;
}

Status Hub::attach() {
  LockGuard<Mutex> guard(bell_lock_);
  if (attached_ != 0) {
    ++attached_;
    return {};
  }
  const int descriptor = FERRY_TRY(wrap_descriptor(*device_->wait_descriptor())).release();
  ++attached_;
  bell_ = new Doorbell;  // deleted when gRPC has told that it is shut down
  bell_->hub = this;
  our_descriptor_.store(descriptor);
  bell_->fd = grpc_fd_create(descriptor, "tensorferry", false);
  our_descriptor_.store(-1);
  bell_->rung.cb = &Hub::rung;
  bell_->rung.cb_arg = bell_;
  to_grpc(bell_);
  belled_.store(true, std::memory_order_seq_cst);
  grpc_fd_notify_on_read(bell_->fd, &bell_->rung);
  grpc_fd_set_readable(bell_->fd);  // looks around, and arms if nobody else does
  return {};
}

// What was posted and not run yet may want the caller's locks: it is run when gRPC has told that
// the descriptor is shut down.
void Hub::detach() {
  LockGuard<Mutex> guard(bell_lock_);
  if (--attached_ != 0) return;
  belled_.store(false, std::memory_order_relaxed);
  grpc_fd_shutdown(std::exchange(bell_, nullptr)->fd,
                   absl::CancelledError("no connection is left"));
}

void Hub::watch(grpc_pollset* pollset) {
  LockGuard<Mutex> guard(bell_lock_);
  grpc_pollset_add_fd(pollset, bell_->fd);
}

void Hub::watch(grpc_pollset_set* set, bool on) {
  LockGuard<Mutex> guard(bell_lock_);
  if (on) {
    grpc_pollset_set_add_fd(set, bell_->fd);
  } else {
    grpc_pollset_set_del_fd(set, bell_->fd);
  }
}

void Hub::rung(void* doorbell, absl::Status status) {
  from_grpc(doorbell);
  auto* bell = static_cast<Doorbell*>(doorbell);
  auto& hub = *bell->hub;
  if (status.ok()) {
    hub.on_rung(*bell);
    return;
  }
  {
    LockGuard<Mutex> guard(hub.bell_lock_);
    if (hub.bell_ == nullptr && !hub.hooked_.load()) hub.end_sleep();
  }
  hub.run_tasks();
  grpc_fd_orphan(bell->fd, nullptr, nullptr, "no connection is left");
  delete bell;
}

// What comes after the arming rings, what came before is looked for here. With the hook it is the
// thread that sleeps next that arms, and looks; but one may sleep since before there was a bell.
void Hub::on_rung(Doorbell& bell) {
  if (!hooked_.load(std::memory_order_relaxed) || somebody_waits_plain()) {
    LockGuard<Mutex> guard(arm_lock_);
    if (armed_.exchange(false)) device_->disarm();
    device_->take_in();
    while (!device_->arm()) continue;
    armed_ = true;
  } else {
    device_->take_in();
  }
  const bool more = pump();
  grpc_fd_notify_on_read(bell.fd, &bell.rung);
  if (more) nudge();
}

// A few at a time, so that the first is not kept waiting until the last was looked at; true: there
// may be more.
bool Hub::pump() {
  run_tasks();
  std::shared_ptr<const Endpoints> endpoints;
  {
    LockGuard<SpinLock> guard(list_lock_);
    endpoints = endpoints_;
  }
  std::size_t found = 0;
  const auto count = endpoints->size();
  for (std::size_t looked = 0; looked < count; ++looked) {
    const auto turn = turn_.fetch_add(1, std::memory_order_relaxed);
    if ((*endpoints)[turn % count]->pump() && ++found == kMostAtOnce) return true;
  }
  return false;
}

void Hub::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    LockGuard<SpinLock> guard(list_lock_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

void Hub::add(const std::shared_ptr<FerryEndpoint>& endpoint) {
  LockGuard<SpinLock> guard(list_lock_);
  if (!endpoint->maps()) unmapped_.fetch_add(1);
  auto more = std::make_shared<Endpoints>(*endpoints_);
  more->push_back(endpoint);
  endpoints_ = std::move(more);
}

void Hub::remove(const FerryEndpoint* endpoint) {
  std::shared_ptr<const Endpoints> before;  // lets go without the lock
  LockGuard<SpinLock> guard(list_lock_);
  if (!endpoint->maps()) unmapped_.fetch_sub(1);
  before = endpoints_;
  auto fewer = std::make_shared<Endpoints>(*endpoints_);
  std::erase_if(*fewer, [&](const auto& one) { return one.get() == endpoint; });
  endpoints_ = std::move(fewer);
}

void Hub::post(std::function<void()> task) {
  bool attached = false;
  {
    LockGuard<Mutex> guard(bell_lock_);
    attached = attached_ != 0;
    LockGuard<SpinLock> list_guard(list_lock_);
    if (attached) tasks_.push_back(std::move(task));
  }
  if (attached) {
    device_->wake_waiters();
  } else {
    task();
  }
}

void Hub::aside(std::function<void()> task) { std::thread(std::move(task)).detach(); }

Nanos Hub::scaled(Nanos span) const {
  return std::chrono::duration_cast<Nanos>(span * PluginOptions::get().patience);
}

void Hub::know(Link* link) {
  LockGuard<Mutex> guard(grave_lock_);
  links_.insert(link);
}

PluginTraffic Hub::traffic() {
  LockGuard<Mutex> guard(grave_lock_);
  auto all = past_;
  for (const auto* link : links_) all += link->traffic();
  return all;
}

void Hub::bury(Link* link) {
  LockGuard<Mutex> guard(grave_lock_);
  graves_.push_back(link);
  if (!std::exchange(undertaker_, true)) aside([this] { undertake(); });
  grave_wake_.notify_all();
}

void Hub::ring_soon() {
  LockGuard<Mutex> guard(grave_lock_);
  ring_until_ = Deadline::after(scaled(FerryEndpoint::kDrain) + 2 * kDrainTurn).ns();
  if (!std::exchange(undertaker_, true)) aside([this] { undertake(); });
  grave_wake_.notify_all();
}

// Closes links, and rings for endpoints that wait for the end.
void Hub::undertake() {
  for (;;) {
    std::vector<Link*> dead;
    bool ring = false;
    {
      LockGuard<Mutex> guard(grave_lock_);
      ring = now_ns() < ring_until_;
      if (graves_.empty()) {
        const auto turn = ring ? Nanos(kDrainTurn) : Nanos(std::chrono::seconds(3600));
        grave_wake_.wait_for(grave_lock_, turn);
      }
      dead.swap(graves_);
      for (auto* link : dead) {
        report(link->report());
        past_ += link->traffic();
        links_.erase(link);
      }
    }
    if (ring) device_->wake_waiters();
    for (auto* link : dead) delete link;
    if (!dead.empty() && others_may_go_on()) nudge();
  }
}

void Hub::note_unshared(const Error& why) {
  if (unshared_.fetch_add(1, std::memory_order_relaxed) == 0)
    logger().info("gRPC's messages are copied before they are sent: {}", why.message());
}

void Hub::report(std::string line) {
  if (PluginOptions::get().stats.empty()) return;
  if (reports_.size() < kMostReports)
    reports_.push_back(std::move(line));
  else
    ++unreported_;
}

void Hub::note_plain(bool client, const std::string& peer, const std::string& why) {
  logger().info("gRPC's connection {} {} stays on TCP: {}", client ? "to" : "from", peer, why);
  LockGuard<Mutex> guard(grave_lock_);
  report(fmt::format("{} {} stays on TCP: {}", client ? "to" : "from", peer, why));
}

void Hub::print_stats() {
  const auto& where = PluginOptions::get().stats;
  if (where.empty()) return;
  std::string text;
  {
    LockGuard<Mutex> guard(grave_lock_);
    for (const auto& report : reports_) text += fmt::format("tensorferry grpc {}\n", report);
    for (const auto* link : links_) text += fmt::format("tensorferry grpc {}\n", link->report());
    if (unreported_ != 0)
      text += fmt::format("tensorferry grpc reports of {} more connections were not kept\n",
                          unreported_);
  }
  if (const auto slices = unshared_.load(); slices != 0)
    text += fmt::format(
        "tensorferry grpc memory: {} slices were made where peers cannot read, and copied, because "
        "all {} bytes for them were in use\n",
        slices, PluginOptions::get().memory);
  std::FILE* file = where == "1" ? stderr : std::fopen(where.c_str(), "ae");
  if (file == nullptr) return;
  std::fputs(text.c_str(), file);
  if (file != stderr) std::fclose(file);
}

}  // namespace ferry::interop
