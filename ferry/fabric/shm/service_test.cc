#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "ferry/fabric/shm/peer_internal.h"
#include "ferry/fabric/shm/segment_internal.h"
#include "ferry/fabric/shm/service_internal.h"

namespace ferry::fabric::shm {
namespace {

using std::chrono::milliseconds;

class StandInSession final : public PeerSession {
 public:
  const PeerIdentity& identity() const override { return identity_; }
  std::uint32_t number() const override { return 7; }
  std::uint32_t number_at_peer() const override { return 8; }
  std::span<const std::byte, 32> session_key() const override { return key_; }
  Result<std::vector<std::byte>> call(std::string_view, std::span<const std::byte>,
                                      Deadline) override {
    return fail(Code::kUnimplemented, "nobody is there");
  }
  void tell(std::string_view, std::span<const std::byte>) override {}
  void peer_lost(Error) override { lost = true; }
  void lane_broken(Lane&, Error) override {}

  std::atomic<bool> lost{false};

 private:
  const PeerIdentity identity_{};
  const std::array<std::byte, 32> key_{};
};

bool becomes(const std::atomic<bool>& flag, milliseconds limit) {
  for (auto deadline = Deadline::after(limit); !flag && !deadline.expired();)
    std::this_thread::sleep_for(milliseconds(1));
  return flag;
}

// How many descriptors of this process refer to memory of this name.
int descriptors_of(std::string_view name) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find(name) != std::string::npos) ++count;
  }
  return count;
}

// A thread of this process at work in a peer's memory, for as long as it lives.
class Toucher {
 public:
  Toucher()
      : thread_([this] {
          InFlight::Section section(InFlight::Memory::kPeers);
          inside_ = true;
          while (!leave_) std::this_thread::sleep_for(milliseconds(1));
        }) {
    while (!inside_) std::this_thread::yield();
  }
  ~Toucher() {
    leave_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> leave_{false};
  std::thread thread_;
};

// What a peer may have mapped is out of use when its end of the local socket is closed, not before.
class Retired : public ::testing::Test {
 protected:
  Retired() {
    service_ = Service::start(*listen_local("ferry-test-" + std::to_string(getpid())),
                              Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
                              [](Fd, const HelloPacket&, std::vector<Fd>) {});
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    theirs_ = Fd(ends[1]);
    service_->add_link(Fd(ends[0]), peer_);
  }
  ~Retired() override { service_->close(); }

  void revoke() {
    GrantTable::Grant grant;
    grant.key = 1;
    grant.mappable = true;
    service_->revoke(grant, [this] { quiet_ = true; });
  }
  void expect_quiet_at_the_end_only() {
    EXPECT_FALSE(becomes(quiet_, milliseconds(100))) << "the peer may still have it mapped";
    theirs_.reset();
    EXPECT_TRUE(becomes(quiet_, std::chrono::seconds(20)));
  }

  void send(const Packet& packet, std::span<const int> fds = {}) {
    for (auto deadline = Deadline::after(std::chrono::seconds(20)); !deadline.expired();) {
      auto sent = send_packet(theirs_.get(), encode(packet), fds);
      ASSERT_TRUE(sent) << sent.error().to_string();
      if (*sent) return;
      std::this_thread::yield();
    }
    FAIL() << "the service thread does not read";
  }
  // What the service says to the peer next.
  template <class T>
  std::optional<T> next(milliseconds limit = std::chrono::seconds(20)) {
    auto got = await_packet(theirs_.get(), Deadline::after(limit));
    if (!got) return {};
    auto packet = decode(got->bytes);
    if (!packet || !std::holds_alternative<T>(*packet)) return {};
    return std::get<T>(*packet);
  }
  void announce_block(std::uint32_t id, const char* name) {
    auto memory = sealed_memfd(name, 4096);
    ASSERT_TRUE(memory) << memory.error().to_string();
    auto readable = read_only(memory->get());
    ASSERT_TRUE(readable) << readable.error().to_string();
    int fds[] = {memory->get(), readable->get()};
    send(BlockPacket{id, 4096}, fds);
  }

  const std::shared_ptr<StandInSession> session_ = std::make_shared<StandInSession>();
  std::shared_ptr<Peer> peer_ = std::make_shared<Peer>(session_);
  std::shared_ptr<Service> service_;
  Fd theirs_;
  std::atomic<bool> quiet_{false};
};

TEST_F(Retired, WhileAPeerThatBrokeTheProtocolLives) {
  ASSERT_EQ(::send(theirs_.get(), "nonsense", 8, 0), 8);
  EXPECT_TRUE(becomes(session_->lost, std::chrono::seconds(20)));
  revoke();
  expect_quiet_at_the_end_only();
}

TEST_F(Retired, WhenAPeerBreaksTheProtocolInsteadOfAnAnswer) {
  revoke();
  ASSERT_EQ(::send(theirs_.get(), "nonsense", 8, 0), 8);
  EXPECT_TRUE(becomes(session_->lost, std::chrono::seconds(20)));
  expect_quiet_at_the_end_only();
}

// As for silence: its session has ended, and its process lives on.
TEST_F(Retired, WhileAPeerThatWasGivenUpLives) {
  peer_->forget();
  peer_.reset();
  revoke();
  expect_quiet_at_the_end_only();
}

// A section on peers' memory lasts for as long as a stopped peer lets it. The service thread used
// to wait for its end when a block was dropped: nobody was greeted or answered meanwhile.
TEST_F(Retired, OthersAreAnsweredWhileADroppedBlockIsInUse) {
  {
    Toucher toucher;
    announce_block(3, "dropped-block");
    send(DropPacket{3});
    revoke();
    auto asked = next<RevokePacket>();
    ASSERT_TRUE(asked);
    send(RevokedPacket{asked->number});
    EXPECT_TRUE(becomes(quiet_, std::chrono::seconds(20)));
    EXPECT_EQ(descriptors_of("dropped-block"), 2) << "somebody may be at work in it";
  }
  auto deadline = Deadline::after(std::chrono::seconds(20));
  while (descriptors_of("dropped-block") != 0 && !deadline.expired())
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(descriptors_of("dropped-block"), 0);
}

// Each question used to be kept for as long as the grant was in use.
TEST_F(Retired, APeerThatAsksAgainIsAnsweredOnce) {
  peer_->hold(5);
  for (std::uint64_t number = 1; number <= 500; ++number) send(RevokePacket{number, 5});
  send(RevokePacket{1000, 6});  // of nothing that is in use: answered at once
  auto answer = next<RevokedPacket>();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->number, 1000U);
  peer_->let_go(5);
  answer = next<RevokedPacket>();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->number, 500U);
  EXPECT_FALSE(next<RevokedPacket>(milliseconds(100)));
  EXPECT_FALSE(session_->lost);
}

// Lowers the limit of open files while it lives.
class FewFiles {
 public:
  explicit FewFiles(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit fewer{std::min(most, before_.rlim_max), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &fewer);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// A link that this test takes from itself, without a service.
class HostileLink : public ::testing::Test {
 protected:
  HostileLink() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    theirs_ = Fd(ends[1]);
    link_.emplace(Fd(ends[0]), peer_->number(), peer_,
                  std::make_shared<const Fd>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  }
  bool sends(const Packet& packet, std::span<const int> fds = {}) {
    auto sent = send_packet(theirs_.get(), encode(packet), fds);
    EXPECT_TRUE(sent);
    return sent && *sent;
  }

  const FewFiles few_files_{1024};
  const std::shared_ptr<StandInSession> session_ = std::make_shared<StandInSession>();
  const std::shared_ptr<Peer> peer_ = std::make_shared<Peer>(session_);
  Fd theirs_;
  std::optional<Link> link_;
};

// The service thread used to read for as long as there was something.
TEST_F(HostileLink, IsLeftForOthersAfterAFewPackets) {
  for (std::uint64_t number = 1; number <= 100; ++number)
    ASSERT_TRUE(sends(RevokePacket{number, number}));
  EXPECT_EQ(link_->take(), Link::State::kUp);
  EXPECT_EQ(link_->revocations().size(), std::size_t{Link::kPacketsPerTake});
}

TEST_F(HostileLink, IsNotReadWhileMuchOfItWaits) {
  for (std::uint64_t number = 1; number <= 2 * Link::kMostWaiting; ++number) {
    sends(RevokedPacket{number});
    link_->take();
  }
  EXPECT_LE(link_->revocations().size(), Link::kMostWaiting);
}

TEST_F(HostileLink, BreaksWhenItAsksMoreThanAPeerCanHaveGranted) {
  auto state = Link::State::kUp;
  for (std::uint64_t key = 1; key <= Peer::kMostQuestions; ++key) {
    ASSERT_TRUE(sends(RevokePacket{key, key}));
    state = link_->take();
    link_->revocations();
  }
  EXPECT_EQ(state, Link::State::kUp);
  ASSERT_TRUE(sends(RevokePacket{1, 1}));
  EXPECT_EQ(link_->take(), Link::State::kBroken);
}

// What waited for a peer that reads nothing used to grow without bound: answers to what it asks,
// and revocations while it is stopped.
TEST_F(HostileLink, IsGivenUpWhenItLeavesTooMuchUnread) {
  const auto before = Link::unsent_of_all();
  std::size_t most = 0;
  for (std::uint64_t number = 1; number <= 200'000; ++number) {
    link_->send(RevokedPacket{number});
    most = std::max(most, Link::unsent_of_all() - before);
  }
  EXPECT_GT(most, Link::kUnsentWhenScarce);
  EXPECT_LE(most, Link::kMostUnsent + kMaxPacket);
  EXPECT_EQ(Link::unsent_of_all(), before) << "of a peer that was given up nothing waits";
  EXPECT_EQ(link_->take(), Link::State::kUnread);
  theirs_.reset();
  EXPECT_EQ(link_->take(), Link::State::kEnded);
}

TEST_F(HostileLink, IsGivenUpEarlierIfMuchWaitsForAllPeers) {
  const RefusalPacket large{Code::kInternal, std::string(kMaxText, 'x')};
  std::vector<std::unique_ptr<Link>> others;
  std::vector<Fd> other_ends;
  for (std::uint64_t number = 1; Link::unsent_of_all() + kMaxPacket < Link::kMostUnsentOfAll;
       ++number) {
    if (number % 5000 == 1) {  // fewer than are too many for one
      int ends[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
      other_ends.emplace_back(ends[1]);
      others.push_back(
          std::make_unique<Link>(Fd(ends[0]), peer_->number(), peer_,
                                 std::make_shared<const Fd>(eventfd(0, EFD_NONBLOCK))));
    }
    ASSERT_LE(number, 1'000'000U);
    others.back()->send(large);
  }
  for (std::uint64_t number = 1; number <= 1000; ++number) link_->send(large);
  EXPECT_EQ(link_->take(), Link::State::kUnread);
  EXPECT_EQ(others.front()->take(), Link::State::kUp);
  others.clear();
  EXPECT_EQ(Link::unsent_of_all(), 0U);
}

// The descriptor of a block kept its memory for as long as the peer was stopped.
TEST_F(HostileLink, DoesNotKeepBlocksThatAreGoneBeforeItReads) {
  auto memory = sealed_memfd("block-that-goes", 4096);
  ASSERT_TRUE(memory);
  while (Link::unsent_of_all() == 0) link_->send(RevokedPacket{1});
  int fds[] = {memory->get(), memory->get()};
  const auto waits = Link::unsent_of_all();
  for (std::uint32_t id = 1; id <= 100; ++id) {
    link_->send(BlockPacket{id, 4096}, fds);
    link_->send(DropPacket{id});
  }
  EXPECT_EQ(descriptors_of("block-that-goes"), 1);
  EXPECT_EQ(Link::unsent_of_all(), waits);
}

// A post used to wait for a second, whatever its deadline, and so did a map.
TEST_F(HostileLink, ABlockThatItDoesNotHandOverIsNotWaitedForBeyondTheDeadline) {
  auto grants = GrantTable::create();
  ASSERT_TRUE(grants) << grants.error().to_string();
  GrantTable::Grant wanted;
  wanted.length = 4096;
  wanted.block = 9;
  wanted.mappable = true;
  wanted.peer = session_->number_at_peer();
  wanted.rights = Rights::kAll;
  const auto grant = (*grants)->add(wanted);
  ASSERT_TRUE(grant);
  std::vector<Fd> fds;
  fds.push_back(*read_only((*grants)->fd()));
  fds.push_back(*sealed_memfd("bells", sizeof(Bell)));
  fds.push_back(*sealed_memfd("doorbells", sizeof(Doorbell)));
  fds.emplace_back(eventfd(0, EFD_CLOEXEC));
  ASSERT_TRUE(peer_->meet(std::move(fds), 1));
  const RemoteRegion remote{grant->key, 0, 4096, grant->epoch, Rights::kAll};
  const auto begun = now_ns();
  for (auto span : {milliseconds(0), milliseconds(50)}) {
    auto found = peer_->resolve(remote, Deadline::after(span));
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), Code::kDeadlineExceeded) << found.error().to_string();
  }
  EXPECT_LT(Nanos(now_ns() - begun), milliseconds(900));
}

// Its blocks used to take all descriptors of the process: nobody else could join.
TEST_F(HostileLink, BreaksBeforeItsBlocksTakeAllDescriptors) {
  auto memory = sealed_memfd("block-of-many", 4096);
  ASSERT_TRUE(memory);
  int fds[] = {memory->get(), memory->get()};
  auto state = Link::State::kUp;
  for (std::uint32_t id = 1; id <= 1024 && state == Link::State::kUp; ++id) {
    ASSERT_TRUE(sends(BlockPacket{id, 4096}, fds));
    state = link_->take();
  }
  EXPECT_EQ(state, Link::State::kBroken);
  EXPECT_EQ(descriptors_of("block-of-many"), 1 + 512);
}

}  // namespace
}  // namespace ferry::fabric::shm
