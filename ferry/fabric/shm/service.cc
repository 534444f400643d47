#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "ferry/base/log.h"
#include "ferry/fabric/shm/peer_internal.h"
#include "ferry/fabric/shm/service_internal.h"

namespace ferry::fabric::shm {

namespace {
constexpr std::size_t kMaxGreetings = 256;
constexpr auto kGreetingTime = std::chrono::seconds(2);
constexpr int kSoonMs = 1;
constexpr int kIdleMs = 1000;
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

void Service::revoke(std::uint64_t key, std::uint32_t only_session, std::function<void()> quiet) {
  auto running = InFlight::Running::now();
  std::vector<std::shared_ptr<Link>> asked;
  std::uint64_t number = 0;
  {
    LockGuard<Mutex> guard(lock_);
    std::set<std::uint32_t> sessions;
    for (const auto& link : links_) {
      bool concerned = only_session == 0 || link->session() == only_session;
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
  for (auto& link : asked) link->send(RevokePacket{number, key});
  if (asked.empty()) wake();
}

void Service::run() {
  ::prctl(PR_SET_NAME, "ferry-shm");
  for (;;) {
    std::vector<pollfd> waiting{{listener_.get(), POLLIN, 0}, {waker_->get(), POLLIN, 0}};
    {
      LockGuard<Mutex> guard(lock_);
      if (stop_) return;
      for (const auto& link : links_) waiting.push_back({link->fd(), POLLIN, 0});
    }
    for (const auto& greeting : greetings_) waiting.push_back({greeting.socket.get(), POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), timeout_ms());
    std::uint64_t drained = 0;
    [[maybe_unused]] auto got = ::read(waker_->get(), &drained, sizeof drained);
    if (waiting[0].revents != 0) accept_newcomers();
    look_at_greetings();
    look_at_links();
    answer_peers();
    end_revocations();  // last: the device may be closed by it
  }
}

int Service::timeout_ms() {
  LockGuard<Mutex> guard(lock_);
  bool local = std::any_of(revocations_.begin(), revocations_.end(),
                           [](const auto& each) { return each.sessions.empty(); });
  if (local || unsent_) return kSoonMs;
  if (!answers_.empty()) return kSoonMs;
  return greetings_.empty() ? kIdleMs : 100;
}

void Service::accept_newcomers() {
  for (;;) {
    auto socket = accept_local(listener_.get());
    if (!socket) {
      logger().warn("{}", socket.error().to_string());
      ::usleep(1000);  // out of descriptors, most likely: do not spin on it
      return;
    }
    if (!*socket) return;
    auto allowed = check_peer(socket->get(), ::geteuid(), 0);
    if (!allowed) {
      logger().warn("refused: {}", allowed.error().to_string());
      continue;
    }
    if (greetings_.size() >= kMaxGreetings) continue;
    greetings_.push_back({std::move(*socket), Deadline::after(kGreetingTime)});
  }
}

void Service::look_at_greetings() {
  std::erase_if(greetings_, [this](Greeting& greeting) {
    auto got = receive_packet(greeting.socket.get());
    if (got && got->what == Received::What::kNothing) return greeting.deadline.expired();
    if (!got || got->what == Received::What::kEnd) return true;
    auto packet = decode(got->bytes);
    auto* hello = packet ? std::get_if<HelloPacket>(&*packet) : nullptr;
    if (hello == nullptr || !hello->connecting || got->fds.size() != hello->descriptors()) {
      logger().warn("refused a newcomer that says no proper hello on the local socket");
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
  for (const auto& link : links) {
    bool alive = link->take();
    take_revocations(link);
    unsent_ = link->flush() || unsent_;
    if (alive) continue;
    {
      LockGuard<Mutex> guard(lock_);
      std::erase(links_, link);
      bool gone = std::none_of(links_.begin(), links_.end(), [&](const auto& other) {
        return other->session() == link->session();
      });
      for (auto& revocation : revocations_)
        if (gone) revocation.sessions.erase(link->session());
    }
    if (auto peer = link->peer())
      peer->lost(
          fail(Code::kUnavailable, "the peer's process ended, or closed its device").value());
  }
}

void Service::take_revocations(const std::shared_ptr<Link>& link) {
  for (const auto& packet : link->revocations()) {
    if (const auto* revoke = std::get_if<RevokePacket>(&packet)) {
      answers_.push_back({link, *revoke, InFlight::Running::now()});
    } else if (const auto* revoked = std::get_if<RevokedPacket>(&packet)) {
      LockGuard<Mutex> guard(lock_);
      for (auto& revocation : revocations_)
        if (revocation.number == revoked->number) revocation.sessions.erase(link->session());
    }
  }
}

void Service::answer_peers() {
  std::erase_if(answers_, [](Answer& answer) {
    auto peer = answer.link->peer();
    if (peer == nullptr) return true;  // its goodbye says it all
    if (peer->holds(answer.what.key) || !answer.running.ended()) return false;
    answer.link->send(RevokedPacket{answer.what.number});
    return true;
  });
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
