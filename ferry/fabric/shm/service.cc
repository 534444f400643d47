#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "ferry/base/log.h"
#include "ferry/base/waiting.h"
#include "ferry/fabric/shm/peer_internal.h"
#include "ferry/fabric/shm/service_internal.h"

namespace ferry::fabric::shm {

namespace {
constexpr std::size_t kMaxGreetings = 256;
constexpr int kAcceptsPerTurn = 256;
constexpr std::int64_t kGreetingNs = 2'000'000'000;
// A newcomer that has not said hello for this long loses its place if others wait.
constexpr std::int64_t kStalledNs = 200'000'000;

Error why_lost(Link::State state) {
  switch (state) {
    case Link::State::kBroken:
      return fail(Code::kDataLoss,
                  "the peer broke the protocol of the local socket, or "
                  "the limit of open files (ulimit -n) is reached")
          .value();
    case Link::State::kUnread:
      return fail(Code::kUnavailable, "the peer does not read its local socket").value();
    default:
      return fail(Code::kUnavailable, "the peer's process ended, or closed its device").value();
  }
}
}  // namespace

Service::Service(Fd listener, Fd waker, Greet greet)
    : listener_(std::move(listener)),
      waker_(std::make_shared<const Fd>(std::move(waker))),
      greet_(std::move(greet)) {}

std::shared_ptr<Service> Service::start(Fd listener, Fd waker, Greet greet) {
  std::shared_ptr<Service> service(
      new Service(std::move(listener), std::move(waker), std::move(greet)));
  service->thread_ = std::thread([service] { service->run(); });
  return service;
}

void Service::close() {
  std::vector<Revocation> left;
  {
    LockGuard<Mutex> guard(lock_);
    stop_ = true;
    left.swap(revocations_);
  }
  wake();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
  // Nobody is left to answer: what is retired goes with the device.
  for (auto& revocation : left) revocation.quiet();
  LockGuard<Mutex> guard(lock_);
  links_.clear();
}

void Service::wake() const {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(waker_->get(), &one, sizeof one);
}

std::shared_ptr<Link> Service::add_link(Fd socket, const std::shared_ptr<Peer>& peer) {
  auto link = std::make_shared<Link>(std::move(socket), peer->number(), peer, waker_);
  peer->add_link(link);
  {
    LockGuard<Mutex> guard(lock_);
    links_.push_back(link);
  }
  wake();
  return link;
}

void Service::revoke(const GrantTable::Grant& grant, std::function<void()> quiet) {
  auto running = InFlight::Running::now(InFlight::Memory::kOwn);
  // A copy of 64 KiB at most, mostly: not worth a wake of the service thread.
  for (int look = 0; look < waiting::kRevokeYields && !running.ended(); ++look) ::sched_yield();
  std::vector<std::shared_ptr<Link>> asked;
  std::uint64_t number = 0;
  {
    LockGuard<Mutex> guard(lock_);
    std::set<std::uint32_t> sessions;
    for (const auto& link : links_) {
      bool concerned =
          grant.mappable && (grant.peer == GrantTable::kAnyPeer || link->session() == grant.peer);
      if (concerned && sessions.insert(link->session()).second) asked.push_back(link);
    }
    if (!asked.empty() || !running.ended()) {
      number = ++last_number_;
      revocations_.push_back({number, std::move(sessions), std::move(running), quiet});
    }
  }
  if (number == 0) {
    quiet();
    return;
  }
  for (auto& link : asked) link->send(RevokePacket{number, grant.key});
  if (asked.empty()) wake();
}

void Service::run() {
  ::prctl(PR_SET_NAME, "ferry-shm");
  for (;;) {
    const int listener = takes_newcomers() ? listener_.get() : -1;  // poll() passes over -1
    std::vector<pollfd> polled{{listener, POLLIN, 0}, {waker_->get(), POLLIN, 0}};
    {
      LockGuard<Mutex> guard(lock_);
      if (stop_) return;
      for (const auto& link : links_) polled.push_back({link->fd(), link->poll_events(), 0});
    }
    for (const auto& greeting : greetings_) polled.push_back({greeting.socket.get(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), Deadline::after(longest_sleep()).left_ms());
    std::uint64_t drained = 0;
    [[maybe_unused]] auto got = ::read(waker_->get(), &drained, sizeof drained);
    if (polled[0].revents != 0) accept_newcomers();
    look_at_greetings();
    refused_.report(now_ns());
    look_at_links();
    answer_peers();
    end_revocations();  // last: the device may be closed by it
  }
}

Nanos Service::longest_sleep() {
  LockGuard<Mutex> guard(lock_);
  bool local = std::any_of(revocations_.begin(), revocations_.end(),
                           [](const auto& each) { return each.sessions.empty(); });
  if (local || unsent_ || dropped_) return waiting::kServiceSoon;
  if (!answers_.empty()) return waiting::kServiceSoon;
  return greetings_.empty() ? waiting::kServiceIdle : waiting::kServiceGreets;
}

// Others wait in the kernel's queue meanwhile.
bool Service::takes_newcomers() const {
  if (hold_newcomers.load(std::memory_order_relaxed)) return false;
  return greetings_.size() < kMaxGreetings || now_ns() - greetings_.front().since > kStalledNs;
}

void Service::accept_newcomers() {
  for (int i = 0; i < kAcceptsPerTurn && takes_newcomers(); ++i) {
    auto socket = accept_local(listener_.get());
    if (!socket) {
      refused_.warn("{}", socket.error().to_string());
      std::this_thread::sleep_for(
          waiting::kServiceSoon);  // out of descriptors, most likely: do not spin on it
      return;
    }
    if (!*socket) return;
    accept(*std::move(socket));
  }
}

// Anybody on this machine can connect, as often as they like: those who are not of this user go
// before anything is kept of them.
void Service::accept(Fd socket) {
  auto who = process_at_end(socket.get());
  if (!who || who->uid != ::geteuid()) {
    refused_.warn("refused user {} (process {}) on the local socket: it is for user {} only",
                  who ? who->uid : 0, who ? who->pid : 0, ::geteuid());
    return;
  }
  if (greetings_.size() >= kMaxGreetings) greetings_.erase(greetings_.begin());
  greetings_.push_back({std::move(socket), now_ns()});
}

void Service::look_at_greetings() {
  std::erase_if(greetings_, [this](Greeting& greeting) {
    auto got = receive_packet(greeting.socket.get());
    if (got && got->what == Received::What::kNothing)
      return now_ns() - greeting.since > kGreetingNs;
    if (!got || got->what == Received::What::kEnd) return true;
    auto packet = decode(got->bytes);
    auto* hello = packet ? std::get_if<HelloPacket>(&*packet) : nullptr;
    if (hello == nullptr || !hello->connecting || got->fds.size() != hello->descriptors()) {
      refused_.warn("refused a newcomer that says no proper hello on the local socket");
      return true;
    }
    greet_(std::move(greeting.socket), *hello, std::move(got->fds));
    return true;
  });
}

void Service::look_at_links() {
  std::vector<std::shared_ptr<Link>> links;
  {
    LockGuard<Mutex> guard(lock_);
    links = links_;
  }
  unsent_ = false;
  dropped_ = false;
  for (const auto& link : links) {
    const auto state = link->take();
    take_revocations(link);
    unsent_ = link->flush() || unsent_;
    if (auto peer = link->peer()) dropped_ = peer->unmap_dropped() || dropped_;
    if (state == Link::State::kUp) continue;
    // A link that is broken stays until its end: revocations wait for that.
    if (state == Link::State::kEnded) {
      LockGuard<Mutex> guard(lock_);
      std::erase(links_, link);
      bool gone = std::none_of(links_.begin(), links_.end(), [&](const auto& other) {
        return other->session() == link->session();
      });
      for (auto& revocation : revocations_)
        if (gone) revocation.sessions.erase(link->session());
    }
    if (auto peer = link->peer()) peer->lost(why_lost(state));
  }
}

void Service::take_revocations(const std::shared_ptr<Link>& link) {
  for (const auto& packet : link->revocations()) {
    if (const auto* revoke = std::get_if<RevokePacket>(&packet)) {
      note_question(link, *revoke);
    } else if (const auto* revoked = std::get_if<RevokedPacket>(&packet)) {
      LockGuard<Mutex> guard(lock_);
      for (auto& revocation : revocations_)
        if (revocation.number == revoked->number) revocation.sessions.erase(link->session());
    }
  }
}

// A grant is revoked once. A peer that asks again about one that is in use gets one answer, to what
// it asked last.
void Service::note_question(const std::shared_ptr<Link>& link, const RevokePacket& question) {
  auto [place, fresh] = answers_.try_emplace({link.get(), question.key});
  place->second = {link, question.number, InFlight::Running::now(InFlight::Memory::kPeers)};
  if (fresh) return;
  if (auto peer = link->peer()) peer->question_answered();
}

void Service::answer_peers() {
  for (auto it = answers_.begin(); it != answers_.end();) {
    auto& [which, answer] = *it;
    auto peer = answer.link->peer();
    // Of a peer that is forgotten here, our goodbye says it all.
    if (peer != nullptr) {
      if (peer->holds(which.second) || !answer.running.ended()) {
        ++it;
        continue;
      }
      answer.link->send(RevokedPacket{answer.number});
      peer->question_answered();
    }
    it = answers_.erase(it);
  }
}

void Service::end_revocations() {
  std::vector<std::function<void()>> quiet;
  {
    LockGuard<Mutex> guard(lock_);
    std::erase_if(revocations_, [&](Revocation& revocation) {
      if (!revocation.sessions.empty() || !revocation.running.ended()) return false;
      quiet.push_back(std::move(revocation.quiet));
      return true;
    });
  }
  for (auto& each : quiet) each();
}

}  // namespace ferry::fabric::shm
