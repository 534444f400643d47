#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "ferry/base/log.h"
#include "ferry/bootstrap/endpoint.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/fabric/control_internal.h"
#include "ferry/fabric/device_core_internal.h"

namespace ferry::fabric {

namespace {
constexpr std::int64_t kTickNs = 100'000'000;
constexpr std::int64_t kSleptNs = 1'000'000'000;  // a gap between ticks: this process was stopped
constexpr std::size_t kMaxNewcomers = 128;
constexpr auto kNewcomerLimit = std::chrono::seconds(5);
}  // namespace

Result<std::unique_ptr<Control>> Control::open(DeviceCore& device) {
  std::unique_ptr<Control> control(new Control(device));
  control->loop_ = FERRY_TRY(Loop::open("ferry-control", device.options.spin, true));
  FERRY_TRY(control->listen());
  control->loop_->add(control.get());
  return control;
}

Status Control::ready() {
  return loop_->watch(listener_.get(), EPOLLIN, this, static_cast<std::uint64_t>(listener_.get()));
}

Control::~Control() {
  if (loop_ != nullptr) loop_->remove(this);  // null: opening it failed
  by_fd_.clear();
  newcomers_.clear();
}

Status Control::listen() {
  auto wanted = FERRY_TRY(bootstrap::Endpoint::parse(device_.options.listen));
  listener_ = FERRY_TRY(bootstrap::listen_tcp(wanted, 1024));
  auto bound = FERRY_TRY(bootstrap::local_endpoint(listener_.get()));
  endpoint_ = bound.to_string();
  spare_ = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return {};
}

int Control::progress_on_loop() {
  if (!any_trouble_.load(std::memory_order_acquire)) return 0;
  std::vector<Trouble> troubles;
  {
    LockGuard<Mutex> guard(lock_);
    troubles.swap(troubles_);
    any_trouble_.store(false, std::memory_order_relaxed);
  }
  for (auto& [session, cause, lane] : troubles) {
    if (lane == nullptr)
      end_on_loop(session, cause);
    else
      session->lane_broken_on_loop(lane, cause);
  }
  return static_cast<int>(troubles.size());
}

void Control::ready_on_loop(std::uint64_t cookie, std::uint32_t events) {
  int fd = static_cast<int>(cookie);
  if (fd == listener_.get()) return accept_on_loop();
  if (newcomers_.contains(fd)) return advance_on_loop(fd);
  auto found = by_fd_.find(fd);
  if (found == by_fd_.end()) return;
  auto session = found->second;  // may leave the map meanwhile
  session->ready_on_loop({}, events);
}

bool Control::has_pending() const {
  return now_ns() - last_tick_seen_.load(std::memory_order_relaxed) >= kTickNs;
}

void Control::tick_on_loop(std::int64_t now) {
  bool we_slept = last_tick_ != 0 && now - last_tick_ > kSleptNs;
  last_tick_ = now;
  last_tick_seen_.store(now, std::memory_order_relaxed);
  for (auto it = newcomers_.begin(); it != newcomers_.end();) {
    auto fd = it->first;
    bool late = it->second.deadline.ns() <= now;
    ++it;
    if (!late) continue;
    loop_->unwatch(fd);
    newcomers_.erase(fd);
    device_.peers_refused.add();
  }
  auto sessions = by_fd_;
  for (auto& [fd, session] : sessions) session->heartbeat_on_loop(now, we_slept);
  device_.book.expire(now);
}

void Control::accept_on_loop() {
  for (int i = 0; i < 64; ++i) {
    auto socket = bootstrap::accept_tcp(listener_.get());
    if (!socket && socket.error().code() == Code::kResourceExhausted && spare_) {
      // Out of descriptors: take the connection with the spare one and drop it, else the listener
      // would stay ready for ever.
      spare_.reset();
      Fd dropped(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      dropped.reset();
      spare_ = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      device_.peers_refused.add();
      logger().warn("refused a connection: {}", socket.error().to_string());
      return;
    }
    if (!socket || !*socket) return;
    welcome_on_loop(*std::move(socket));
  }
}

// Those who stall give way to those who come.
void Control::drop_oldest_newcomer_on_loop() {
  auto oldest = std::min_element(newcomers_.begin(), newcomers_.end(), [](auto& a, auto& b) {
    return a.second.deadline < b.second.deadline;
  });
  loop_->unwatch(oldest->first);
  newcomers_.erase(oldest);
  device_.peers_refused.add();
}

void Control::welcome_on_loop(Fd socket) {
  if (shut_.load(std::memory_order_relaxed)) return;
  if (newcomers_.size() >= kMaxNewcomers) drop_oldest_newcomer_on_loop();
  bootstrap::Hello mine;
  mine.device = device_.id.bytes;
  auto number = next_number();
  mine.session = number;
  mine.blob = device_.introduction();
  auto handshake = bootstrap::Handshake::open(
      bootstrap::Role::kAcceptor, device_.secret, std::move(mine),
      [this](const bootstrap::Hello& hello) { return admissible(hello); });
  if (!handshake) return;
  int fd = socket.get();
  auto limit = Nanos(kNewcomerLimit) * device_.options.patience;
  newcomers_.emplace(fd, Newcomer{std::move(socket), number, *std::move(handshake),
                                  Deadline::after(std::chrono::duration_cast<Nanos>(limit))});
  if (!loop_->watch(fd, EPOLLIN, this, static_cast<std::uint64_t>(fd))) newcomers_.erase(fd);
}

Status Control::admissible(const bootstrap::Hello& hello) const {
  if (shut_.load(std::memory_order_relaxed))
    return fail(Code::kUnavailable, "the device at {} is being closed", endpoint_);
  if (hello.purpose == bootstrap::Purpose::kGuest)
    return fail(Code::kInvalidArgument, "{} is a device, not the guest's own port", endpoint_);
  if (hello.purpose == bootstrap::Purpose::kControl && sessions() >= device_.options.max_sessions)
    return fail(Code::kResourceExhausted, "the device at {} has {} sessions, its max_sessions",
                endpoint_, sessions());
  return {};
}

void Control::advance_on_loop(int fd) {
  auto found = newcomers_.find(fd);
  auto status = step_on_loop(found->second);
  if (!status) {
    logger().info("refused a peer: {}", status.error().to_string());
    device_.peers_refused.add();
    loop_->unwatch(fd);
    ::shutdown(fd, SHUT_WR);  // so that the refusal arrives before the connection goes
    newcomers_.erase(found);
    return;
  }
  auto& handshake = found->second.handshake;
  if (!handshake.done() || !handshake.output().empty()) return;
  loop_->unwatch(fd);
  auto newcomer = std::move(found->second);
  newcomers_.erase(found);
  admit_on_loop(std::move(newcomer));
}

// Moves what bytes there are; the last words of a refusal are sent as far as the socket takes them.
Status Control::step_on_loop(Newcomer& newcomer) {
  std::byte buffer[4096];
  Status status;
  while (status && !newcomer.handshake.done()) {
    auto got = ::recv(newcomer.socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) return fail_errno(errno, "reading a newcomer's handshake");
    if (got == 0) {
      status = newcomer.handshake.peer_closed();
      break;
    }
    status = newcomer.handshake.consume({buffer, static_cast<std::size_t>(got)});
  }
  auto output = newcomer.handshake.output();
  if (!output.empty()) {
    auto sent =
        ::send(newcomer.socket.get(), output.data(), output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) newcomer.handshake.consumed_output(static_cast<std::size_t>(sent));
  }
  bool more = !newcomer.handshake.output().empty();
  if (status && more)
    status = loop_->watch(newcomer.socket.get(), EPOLLIN | EPOLLOUT, this,
                          static_cast<std::uint64_t>(newcomer.socket.get()));
  return status;
}

void Control::admit_on_loop(Newcomer newcomer) {
  auto& handshake = newcomer.handshake;
  if (handshake.peer().purpose == bootstrap::Purpose::kLane) {
    auto* provider = device_.provider("tcp");
    auto status = provider == nullptr ? fail(Code::kUnavailable, "this device has no tcp provider")
                                      : provider->adopt(std::move(newcomer.socket),
                                                        handshake.peer().session, handshake.rest());
    if (!status) {
      device_.peers_refused.add();
      logger().warn("refused a lane: {}", status.error().to_string());
    }
    return;
  }
  auto introduction = Introduction::decode(handshake.peer().blob);
  if (!introduction) {
    device_.peers_refused.add();
    logger().warn("refused a peer: {}", introduction.error().to_string());
    return;
  }
  auto session = std::make_shared<Session>(device_, false, std::move(newcomer.socket),
                                           newcomer.number, handshake.peer(),
                                           handshake.session_key(), *std::move(introduction));
  std::vector<std::byte> first(handshake.rest().begin(), handshake.rest().end());
  by_fd_.emplace(session->fd(), session);
  count_.fetch_add(1, std::memory_order_relaxed);
  session->start();
  if (!first.empty()) session->ready_on_loop(first, EPOLLIN);
}

Status Control::add(std::shared_ptr<Session> session, std::span<const std::byte> first) {
  {
    LockGuard<Mutex> guard(lock_);
    dialled_[session->identity().endpoint] = session;
  }
  loop_->with_token([&] {
    by_fd_.emplace(session->fd(), session);
    count_.fetch_add(1, std::memory_order_relaxed);
    session->start();
    if (!first.empty()) session->ready_on_loop(first, EPOLLIN);
  });
  if (shut_.load()) see_to({session, fail(Code::kCancelled, "the device was closed").value()});
  return session->check_alive();
}

Status Control::watch(Session& session, std::uint32_t events) {
  return loop_->watch(session.fd(), events, this, static_cast<std::uint64_t>(session.fd()));
}

std::shared_ptr<Session> Control::find(std::string_view endpoint) {
  LockGuard<Mutex> guard(lock_);
  auto found = dialled_.find(endpoint);
  if (found == dialled_.end()) return nullptr;
  auto session = found->second.lock();
  if (session == nullptr || !session->alive()) {
    dialled_.erase(found);
    return nullptr;
  }
  return session;
}

void Control::see_to(Trouble trouble) {
  {
    LockGuard<Mutex> guard(lock_);
    troubles_.push_back(std::move(trouble));
    any_trouble_.store(true, std::memory_order_release);
  }
  loop_->notify();
}

void Control::end_on_loop(const std::shared_ptr<Session>& session, const Error& cause) {
  auto found = by_fd_.find(session->fd());
  if (found == by_fd_.end() || found->second != session) return;
  by_fd_.erase(found);
  loop_->unwatch(session->fd());
  count_.fetch_sub(1, std::memory_order_relaxed);
  session->end_on_loop(cause);
}

void Control::shut(const Error& cause) {
  if (shut_.exchange(true)) return;
  loop_->with_token([&] {
    loop_->unwatch(listener_.get());
    listener_.reset();
    for (auto& [fd, newcomer] : newcomers_) loop_->unwatch(fd);
    newcomers_.clear();
    auto sessions = by_fd_;
    for (auto& [fd, session] : sessions) end_on_loop(session, cause);
  });
  loop_->notify();
}

}  // namespace ferry::fabric
