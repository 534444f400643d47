#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>

#include "ferry/bootstrap/endpoint.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/fabric/admission_internal.h"

namespace ferry::fabric {

namespace {

constexpr int kBacklog = 4096;  // the kernel caps it at net.core.somaxconn
constexpr int kAcceptsPerTurn = 64;
constexpr std::size_t kMostPlaces = 1024;
constexpr std::size_t kFewestPlaces = 16;
constexpr std::size_t kMostProven = 256;
constexpr auto kTimeToJoin = std::chrono::seconds(5);
// How long a newcomer keeps its place without a word while others wait.
constexpr std::int64_t kSilentNs = 20'000'000;

// An eighth of the descriptors that the process may have: sessions and lanes need the others.
std::size_t places_of_strangers() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return std::clamp<std::size_t>(limit.rlim_cur / 8, kFewestPlaces, kMostPlaces);
}

}  // namespace

Admission::Admission(Owner owner) : owner_(std::move(owner)), places_(places_of_strangers()) {}

Status Admission::listen() {
  auto wanted = FERRY_TRY(bootstrap::Endpoint::parse(owner_.options->listen));
  listener_ = FERRY_TRY(bootstrap::listen_tcp(wanted, kBacklog));
  auto bound = FERRY_TRY(bootstrap::local_endpoint(listener_.get()));
  endpoint_ = bound.to_string();
  // A peer speaks first, so the kernel may keep those who say nothing to itself for a second. Where
  // it does not, they take places here for a moment.
  const int seconds = 1;
  ::setsockopt(listener_.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
  return {};
}

Status Admission::start(std::vector<std::byte> introduction) {
  introduction_ = std::move(introduction);
  return watch(listener_.get(), EPOLLIN);
}

void Admission::close_on_loop() {
  owner_.loop->unwatch(listener_.get());
  listener_.reset();
  full_.store(false, std::memory_order_relaxed);
  for (auto& [fd, newcomer] : newcomers_) owner_.loop->unwatch(fd);
  newcomers_.clear();
  proven_ = 0;
}

Status Admission::watch(int fd, std::uint32_t events) {
  return owner_.loop->watch(fd, events, owner_.source, static_cast<std::uint64_t>(fd));
}

bool Admission::ready_on_loop(int fd) {
  if (fd == listener_.get()) {
    accept_on_loop();
    return true;
  }
  if (!newcomers_.contains(fd)) return false;
  advance_on_loop(fd);
  return true;
}

void Admission::tick_on_loop(std::int64_t now) {
  refused_.report(now);
  for (auto it = newcomers_.begin(); it != newcomers_.end();) {
    auto next = std::next(it);
    if (it->second.deadline.ns() <= now) turn_away_on_loop(it);
    it = next;
  }
  resume_on_loop();
}

void Admission::accept_on_loop() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (newcomers_.size() - proven_ >= places_ && !make_room_on_loop(false)) return pause_on_loop();
    auto socket = bootstrap::accept_tcp(listener_.get());
    if (!socket) {
      // Out of descriptors, most likely. Else the listener would stay ready for ever.
      refused_.warn("newcomers have to wait: {}", socket.error().to_string());
      if (make_room_on_loop(true)) continue;
      return pause_on_loop();
    }
    if (!*socket) return;
    welcome_on_loop(*std::move(socket));
  }
}

void Admission::pause_on_loop() {
  full_.store(true, std::memory_order_relaxed);
  owner_.loop->unwatch(listener_.get());
}

void Admission::resume_on_loop() {
  if (!full_.exchange(false, std::memory_order_relaxed)) return;
  if (!watch(listener_.get(), EPOLLIN)) full_.store(true, std::memory_order_relaxed);
}

Admission::Newcomers::iterator Admission::longest_at(Stage stage, std::int64_t before) {
  auto longest = newcomers_.end();
  for (auto it = newcomers_.begin(); it != newcomers_.end(); ++it) {
    if (it->second.stage != stage || it->second.since > before) continue;
    if (longest == newcomers_.end() || it->second.since < longest->second.since) longest = it;
  }
  return longest;
}

bool Admission::make_room_on_loop(bool at_once) {
  const auto now = now_ns();
  auto stalled = longest_at(Stage::kSilent, at_once ? now : now - kSilentNs);
  if (stalled == newcomers_.end()) {
    stalled = longest_at(Stage::kOpened, at_once ? now : now - time_to_prove_.ns());
    if (stalled == newcomers_.end()) return false;
    time_to_prove_.turned_away();
  }
  turn_away_on_loop(stalled);
  return true;
}

void Admission::turn_away_on_loop(Newcomers::iterator newcomer) {
  auto& handshake = newcomer->second.handshake;
  if (handshake && newcomer->second.stage != Stage::kSilent) {
    handshake->say_busy();
    auto output = handshake->output();
    ::send(newcomer->first, output.data(), output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    ::shutdown(newcomer->first, SHUT_WR);
  }
  owner_.refused->add();
  remove_on_loop(newcomer);
}

void Admission::remove_on_loop(Newcomers::iterator newcomer) {
  owner_.loop->unwatch(newcomer->first);
  if (newcomer->second.stage == Stage::kProven) --proven_;
  newcomers_.erase(newcomer);
  resume_on_loop();
}

void Admission::welcome_on_loop(Fd socket) {
  const int fd = socket.get();
  auto limit = std::chrono::duration_cast<Nanos>(kTimeToJoin * owner_.options->patience);
  Newcomer newcomer;
  newcomer.socket = std::move(socket);
  newcomer.since = now_ns();
  newcomer.deadline = Deadline::after(limit);
  newcomers_.emplace(fd, std::move(newcomer));
  if (!watch(fd, EPOLLIN)) {
    newcomers_.erase(fd);
    return;
  }
  advance_on_loop(fd);
}

void Admission::advance_on_loop(int fd) {
  auto found = newcomers_.find(fd);
  auto status = step_on_loop(found->second);
  if (!status) {
    refused_.info("refused a peer: {}", status.error().to_string());
    owner_.refused->add();
    ::shutdown(fd, SHUT_WR);  // so that the refusal arrives before the connection goes
    remove_on_loop(found);
    return;
  }
  auto& newcomer = found->second;
  if (newcomer.handshake && newcomer.handshake->done() && newcomer.handshake->output().empty()) {
    Joined joined{std::move(newcomer.socket), newcomer.number, *std::move(newcomer.handshake)};
    remove_on_loop(found);
    owner_.joined(std::move(joined));
    return;
  }
  if (proven_ > kMostProven) turn_away_on_loop(longest_at(Stage::kProven, now_ns()));
}

Status Admission::begin_handshake(Newcomer& newcomer) {
  bootstrap::Hello mine;
  mine.device = owner_.id.bytes;
  newcomer.number = owner_.next_number();
  mine.session = newcomer.number;
  mine.blob = introduction_;
  newcomer.handshake = FERRY_TRY(bootstrap::Handshake::open(
      bootstrap::Role::kAcceptor, *owner_.secret, std::move(mine), owner_.admit));
  return {};
}

void Admission::change_stage(Newcomer& newcomer, Stage stage) {
  if (newcomer.stage == stage) return;
  if (stage == Stage::kProven) {
    ++proven_;
    time_to_prove_.proved();
  }
  newcomer.stage = stage;
  newcomer.since = now_ns();
}

Status Admission::consume(Newcomer& newcomer, std::span<const std::byte> bytes) {
  if (!newcomer.handshake) FERRY_TRY(begin_handshake(newcomer));
  FERRY_TRY(newcomer.handshake->consume(bytes));
  if (newcomer.handshake->has_proof()) {
    change_stage(newcomer, Stage::kProven);
  } else if (newcomer.handshake->has_opening()) {
    change_stage(newcomer, Stage::kOpened);
  }
  return {};
}

Status Admission::step_on_loop(Newcomer& newcomer) {
  const int fd = newcomer.socket.get();
  std::byte buffer[4096];
  Status status;
  while (status && !(newcomer.handshake && newcomer.handshake->done())) {
    auto got = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) return fail_errno(errno, "reading a newcomer's handshake");
    if (got == 0) return fail(Code::kUnavailable, "a newcomer left during the handshake");
    status = consume(newcomer, {buffer, static_cast<std::size_t>(got)});
  }
  if (!newcomer.handshake) return status;
  auto output = newcomer.handshake->output();
  if (output.empty()) return status;
  auto sent = ::send(fd, output.data(), output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) newcomer.handshake->consumed_output(static_cast<std::size_t>(sent));
  if (status) status = watch(fd, newcomer.handshake->output().empty() ? EPOLLIN : EPOLLOUT);
  return status;
}

}  // namespace ferry::fabric
