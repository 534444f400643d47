#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>

#include "ferry/base/fd.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/ps/scheduler/store_internal.h"
#include "tests/ps/kit.h"

extern char** environ;

namespace ferry::ps::testing {
namespace {

// An etcd of its own, on loopback, with ports that were free a moment ago.
class Etcd : public ::testing::Test {
 protected:
  static std::string free_address() {
    const auto socket = must(bootstrap::listen_tcp({"127.0.0.1", 0}, 1));
    return must(bootstrap::local_endpoint(socket.get())).to_string();
  }
  void SetUp() override {
    const auto client = free_address();
    const auto peer = "http://" + free_address();
    std::vector<std::string> words = {"etcd",
                                      "--name=ferry",
                                      "--logger=zap",
                                      "--log-outputs=" + folder_.path() + "/log",
                                      "--data-dir=" + folder_.path() + "/etcd",
                                      "--listen-client-urls=http://" + client,
                                      "--advertise-client-urls=http://" + client,
                                      "--listen-peer-urls=" + peer,
                                      "--initial-advertise-peer-urls=" + peer,
                                      "--initial-cluster=ferry=" + peer};
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (posix_spawnp(&pid_, "etcd", nullptr, nullptr, argv.data(), environ) != 0) {
      pid_ = -1;
      GTEST_SKIP() << "there is no etcd on this machine (Debian's etcd-server)";
    }
    where_ = "etcd://" + client + "/jobs/one";
    for (const auto deadline = soon(); !must(Store::open(where_))->load();) {
      ASSERT_FALSE(deadline.expired()) << "etcd does not answer";
      std::this_thread::sleep_for(20ms);
    }
  }
  void TearDown() override {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  Folder folder_;
  std::string where_;
  pid_t pid_ = -1;
};

TEST_F(Etcd, WhoSavesLastHasTheState) {
  const Bytes one(3000, std::byte{1});
  const Bytes two(70'000, std::byte{2});
  auto first = must(Store::open(where_));
  EXPECT_FALSE(must(first->load()).has_value());
  must(first->save(one));
  must(first->save(two));
  auto second = must(Store::open(where_));
  EXPECT_EQ(must(second->load()), two);
  must(first->save(one));
  EXPECT_EQ(code_of(second->save(two)), Code::kAborted);
  EXPECT_EQ(must(second->load()), one);
  must(second->save(two));
  EXPECT_EQ(code_of(first->save(one)), Code::kAborted);
  EXPECT_EQ(must(must(Store::open(where_))->load()), two);
  EXPECT_FALSE(must(must(Store::open(where_ + "/other"))->load()).has_value());
}

TEST_F(Etcd, ASchedulerGoesOnWithIt) {
  SchedulerOptions options{
      .job = {.workers = 1}, .device = device_options("tcp"), .state = where_, .away = 20s};
  std::optional<Scheduler> scheduler(must(Scheduler::open(options)));
  auto server = must(
      Server::open({.scheduler = scheduler->endpoint(), .device = device_options("shm")}, soon()));
  auto worker = must(
      Worker::open({.scheduler = scheduler->endpoint(), .device = device_options("shm")}, soon()));
  const std::vector<float> ones(100, 1.0F);
  const auto w = must(worker.init("w", f32({100}), {}, {UpdateKind::kSum}, soon()));
  // While one is there, another finds its address taken, and does it no harm.
  EXPECT_FALSE(Scheduler::open(options));
  for (float step = 1; step < 4; ++step) {
    scheduler.reset();
    EXPECT_EQ(floats(must(worker.push_pull(w, raw(ones), soon())), 100),
              std::vector<float>(100, step));
    scheduler.emplace(must(Scheduler::open(options)));
    EXPECT_EQ(must(worker.names(soon())), std::vector<std::string>{"w"});
  }
  must(worker.leave(soon()));
  must(scheduler->wait(soon()));
  must(server.wait(soon()));
}

// Elsewhere, with the same state: the one that was there before may decide nothing any more.
TEST_F(Etcd, TheOneBeforeIsShutOut) {
  SchedulerOptions options{
      .job = {.workers = 2}, .device = device_options("tcp"), .state = where_, .away = 20s};
  auto scheduler = must(Scheduler::open(options));
  auto server = must(
      Server::open({.scheduler = scheduler.endpoint(), .device = device_options("shm")}, soon()));
  auto worker = must(
      Worker::open({.scheduler = scheduler.endpoint(), .device = device_options("shm")}, soon()));
  auto watch = must(Store::open(where_));
  const auto before = must(watch->load());
  auto elsewhere = options;
  elsewhere.device.listen = free_address();
  auto next = must(Scheduler::open(elsewhere));
  // It has it once it has saved.
  for (const auto deadline = soon(); must(watch->load()) == before;) {
    ASSERT_FALSE(deadline.expired());
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(code_of(worker.init("w", f32({100}), {}, {UpdateKind::kSum}, soon())), Code::kAborted);
  EXPECT_EQ(code_of(scheduler.wait(soon())), Code::kAborted);
}

SchedulerOptions with_state_at(const std::string& address, Nanos away) {
  return {.job = {.workers = 1},
          .device = device_options("tcp"),
          .state = "etcd://" + address + "/jobs/one",
          .away = away};
}

// Hangs up on all but the last of so many questions, and answers that one: nothing is kept.
void answer_the_last_of(int listener, int questions) {
  for (int each = 1; each <= questions; ++each) {
    const Fd asked(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (each < questions) continue;
    std::string question;
    std::array<char, 4096> piece{};
    // The key is the last of a question, whose end is a brace.
    for (ssize_t got = 1; got > 0 && !question.ends_with("}");) {
      got = ::recv(asked.get(), piece.data(), piece.size(), 0);
      if (got > 0) question.append(piece.data(), static_cast<std::size_t>(got));
    }
    const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    EXPECT_EQ(::send(asked.get(), answer.data(), answer.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(answer.size()));
  }
}

TEST(EtcdAway, ASchedulerThatIsStartedAsksAgain) {
  const auto listener = must(bootstrap::listen_tcp({"127.0.0.1", 0}, 8));
  ASSERT_EQ(::fcntl(listener.get(), F_SETFL, 0), 0);  // it waits for those who come
  const auto address = must(bootstrap::local_endpoint(listener.get())).to_string();
  std::jthread etcd([&] { answer_the_last_of(listener.get(), 3); });
  const auto scheduler = Scheduler::open(with_state_at(address, 60s));
  EXPECT_TRUE(scheduler) << scheduler.error().to_string();
  if (!scheduler) ::shutdown(listener.get(), SHUT_RDWR);
}

TEST(EtcdAway, ASchedulerGivesUpWhenItsTimeIsOver) {
  std::string address;
  {
    const auto listener = must(bootstrap::listen_tcp({"127.0.0.1", 0}, 1));
    address = must(bootstrap::local_endpoint(listener.get())).to_string();
  }
  EXPECT_EQ(code_of(Scheduler::open(with_state_at(address, 100ms))), Code::kUnavailable);
}

}  // namespace
}  // namespace ferry::ps::testing
