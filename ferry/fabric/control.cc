#include "ferry/base/log.h"
#include "ferry/bootstrap/endpoint.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/fabric/control_internal.h"

namespace ferry::fabric {

namespace {
constexpr std::int64_t kTickNs = 100'000'000;
}  // namespace

Result<std::unique_ptr<Control>> Control::open(const DeviceId& id, const bootstrap::Secret& secret,
                                               SessionContext lent) {
  std::unique_ptr<Control> control(new Control(std::move(lent)));
  auto* raw = control.get();
  auto& context = raw->context_;
  raw->loop_ = FERRY_TRY(Loop::open("ferry-control", context.options->spin, true));
  context.control = raw->loop_.get();
  context.watch = [raw](int socket, std::uint32_t events) {
    return raw->loop_->watch(socket, events, raw, static_cast<std::uint64_t>(socket));
  };
  context.report = [raw](SessionFailure failure) { raw->report(std::move(failure)); };
  raw->processes_.emplace(*raw->loop_, static_cast<Loop::Source&>(*raw),
                          identity_of_this_process(""));
  Admission::Owner owner;
  owner.options = context.options;
  owner.id = id;
  owner.secret = &secret;
  owner.refused = &context.peers->refused;
  owner.loop = raw->loop_.get();
  owner.source = raw;
  owner.next_number = [raw] { return raw->next_number(); };
  owner.admit = [raw](const bootstrap::Hello& hello) { return raw->admissible(hello); };
  owner.joined = [raw](Admission::Joined joined) { raw->admit_on_loop(std::move(joined)); };
  raw->admission_ = std::make_unique<Admission>(std::move(owner));
  FERRY_TRY(raw->admission_->listen());
  raw->loop_->add(raw);
  return control;
}

Status Control::ready(std::vector<std::byte> introduction) {
  return admission_->start(std::move(introduction));
}

Control::~Control() {
  if (loop_ != nullptr) loop_->remove(this);  // null: opening it failed
  by_fd_.clear();
}

int Control::progress_on_loop() {
  if (!any_failure_.load(std::memory_order_acquire)) return 0;
  std::vector<SessionFailure> failures;
  {
    LockGuard<Mutex> guard(lock_);
    failures.swap(failures_);
    any_failure_.store(false, std::memory_order_relaxed);
  }
  for (auto& [session, cause, lane] : failures) {
    if (lane == nullptr)
      end_on_loop(session, cause);
    else
      session->lane_broken_on_loop(lane, cause);
  }
  return static_cast<int>(failures.size());
}

void Control::ready_on_loop(std::uint64_t cookie, std::uint32_t) {
  int fd = static_cast<int>(cookie);
  if (admission_->ready_on_loop(fd)) return;
  auto found = by_fd_.find(fd);
  if (found == by_fd_.end()) return not_a_session_on_loop(fd);
  auto session = found->second;  // may leave the map meanwhile
  session->ready_on_loop({});
}

void Control::not_a_session_on_loop(int fd) {
  auto pid = processes_->ended_on_loop(fd);
  if (!pid) return loop_->unwatch(fd);
  if (*pid == 0) return;
  for (auto& [session_fd, session] : by_fd_)
    if (session->identity().pid == *pid && processes_->is_near(session->identity()))
      session->process_ended_on_loop();
}

bool Control::has_pending() const {
  return admission_->is_full() ||
         now_ns() - last_tick_seen_.load(std::memory_order_relaxed) >= kTickNs;
}

void Control::tick_on_loop(std::int64_t now) {
  admission_->tick_on_loop(now);
  if (now - last_tick_ < kTickNs) return;
  refused_.report(now);
  const auto awake = PeerWatch::awake_in(Nanos(last_tick_ == 0 ? 0 : now - last_tick_));
  last_tick_ = now;
  last_tick_seen_.store(now, std::memory_order_relaxed);
  auto sessions = by_fd_;
  for (auto& [fd, session] : sessions) session->heartbeat_on_loop(awake);
  context_.book->expire(now);
}

Status Control::admissible(const bootstrap::Hello& hello) const {
  if (shut_.load(std::memory_order_relaxed))
    return fail(Code::kUnavailable, "the device at {} is being closed", endpoint());
  if (hello.purpose == bootstrap::Purpose::kGuest)
    return fail(Code::kInvalidArgument, "{} is a device, not the guest's own port", endpoint());
  if (hello.purpose == bootstrap::Purpose::kControl && sessions() >= context_.options->max_sessions)
    return fail(Code::kResourceExhausted, "the device at {} has {} sessions, its max_sessions",
                endpoint(), sessions());
  return {};
}

void Control::admit_on_loop(Admission::Joined newcomer) {
  auto& handshake = newcomer.handshake;
  if (handshake.peer().purpose == bootstrap::Purpose::kLane) {
    auto* provider = context_.provider("tcp");
    auto status = provider == nullptr ? fail(Code::kUnavailable, "this device has no tcp provider")
                                      : provider->adopt(std::move(newcomer.socket),
                                                        handshake.peer().session, handshake.rest());
    if (!status) {
      context_.peers->refused.add();
      refused_.warn("refused a lane: {}", status.error().to_string());
    }
    return;
  }
  auto introduction = Introduction::decode(handshake.peer().blob);
  if (!introduction) {
    context_.peers->refused.add();
    refused_.warn("refused a peer: {}", introduction.error().to_string());
    return;
  }
  auto session = std::make_shared<Session>(context_, false, std::move(newcomer.socket),
                                           newcomer.number, handshake.peer(),
                                           handshake.session_key(), *std::move(introduction));
  std::vector<std::byte> first(handshake.rest().begin(), handshake.rest().end());
  start_on_loop(session, first);
}

void Control::start_on_loop(const std::shared_ptr<Session>& session,
                            std::span<const std::byte> first) {
  by_fd_.emplace(session->fd(), session);
  processes_->add_on_loop(session->identity());
  count_.fetch_add(1, std::memory_order_relaxed);
  session->start_on_loop();
  if (!first.empty()) session->ready_on_loop(first);
}

Result<std::shared_ptr<Session>> Control::add(std::uint32_t number, bootstrap::Dialled dialled,
                                              Introduction introduction) {
  auto& [socket, joined] = dialled;
  auto session = std::make_shared<Session>(context_, true, std::move(socket), number, joined.peer,
                                           joined.session_key, std::move(introduction));
  {
    LockGuard<Mutex> guard(lock_);
    dialled_[session->identity().endpoint] = session;
  }
  loop_->with_token([&, &first = joined.rest] { start_on_loop(session, first); });
  if (shut_.load()) report({session, fail(Code::kCancelled, "the device was closed").value()});
  FERRY_TRY(session->connection().check_alive());
  return session;
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

void Control::report(SessionFailure failure) {
  {
    LockGuard<Mutex> guard(lock_);
    failures_.push_back(std::move(failure));
    any_failure_.store(true, std::memory_order_release);
  }
  loop_->notify();
}

void Control::end_on_loop(const std::shared_ptr<Session>& session, const Error& cause) {
  auto found = by_fd_.find(session->fd());
  if (found == by_fd_.end() || found->second != session) return;
  const auto why = session->last_words_on_loop(cause);
  by_fd_.erase(found);
  loop_->unwatch(session->fd());
  processes_->remove_on_loop(session->identity());
  count_.fetch_sub(1, std::memory_order_relaxed);
  session->end_on_loop(why);
}

void Control::shut(const Error& cause) {
  if (shut_.exchange(true)) return;
  loop_->with_token([&] {
    admission_->close_on_loop();
    auto sessions = by_fd_;
    for (auto& [fd, session] : sessions) end_on_loop(session, cause);
  });
  loop_->notify();
}

}  // namespace ferry::fabric
