#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "ferry/fabric/device.h"

// A peer in a process of its own, killed or stopped while operations of every kind are running.

namespace ferry::fabric {
namespace {

constexpr std::size_t kTargetBytes = 8 << 20;
constexpr const char* kSecret = "a secret for two processes of one test";

Deadline within_half_a_minute() { return Deadline::after(std::chrono::seconds(30)); }

// By default a silent peer is given up after a time that no test waits for: what ends is ended by
// the death of the peer.
Options options(Nanos give_up = std::chrono::minutes(10)) {
  Options made;
  made.provider = "shm";
  made.secret = kSecret;
  made.give_up = give_up;
  return made;
}

// Serves one peer until it is killed. Never returns.
[[noreturn]] void serve(int endpoint_pipe, bool arena) {
  auto device = Device::open(options());
  if (!device) ::_exit(2);
  auto endpoint = device->endpoint();
  endpoint.resize(64);
  if (::write(endpoint_pipe, endpoint.data(), endpoint.size()) != 64) ::_exit(3);
  auto channel = device->accept(within_half_a_minute());
  std::vector<std::byte> own(kTargetBytes);
  auto region = arena ? device->allocate(kTargetBytes) : device->register_memory(own);
  auto flag = device->allocate(64);
  if (!channel || !region || !flag) ::_exit(4);
  auto granted = device->grant(*region, Rights::kAll);
  auto flag_granted = device->grant(*flag, Rights::kAll);
  if (!granted || !flag_granted || !device->publish("data", *granted) ||
      !device->publish("flag", *flag_granted))
    ::_exit(5);
  for (;;)
    if (!channel->wait_flag(flag->data(), ~std::uint64_t{0} >> 1, within_half_a_minute()))
      ::_exit(6);
}

struct Child {
  pid_t pid = -1;
  std::string endpoint;

  explicit Child(bool arena) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid = ::fork();
    if (pid == 0) serve(ends[1], arena);
    char text[65] = {};
    EXPECT_EQ(::read(ends[0], text, 64), 64);
    endpoint = text;
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void send(int signal) const { ::kill(pid, signal); }
  ~Child() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
};

struct Case {
  bool arena;
  int signal;
};

class ShmPeerDeath : public ::testing::TestWithParam<Case> {};

TEST_P(ShmPeerDeath, EndsWhatIsRunningWithANamedError) {
  const bool stopped = GetParam().signal == SIGSTOP;
  Child child(GetParam().arena);
  auto device = Device::open(stopped ? options(std::chrono::seconds(2)) : options());
  ASSERT_TRUE(device) << device.error().to_string();
  auto channel = device->connect(child.endpoint);
  ASSERT_TRUE(channel) << channel.error().to_string();
  auto data = channel->look_up("data", within_half_a_minute());
  auto flag = channel->look_up("flag", within_half_a_minute());
  ASSERT_TRUE(data && flag);
  Region source = *device->allocate(kTargetBytes);
  std::atomic<bool> running{false};
  std::atomic<bool> sent{false};
  std::thread killer([&] {
    while (!running.load()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    sent = true;
    child.send(GetParam().signal);
  });
  std::uint64_t round = 0;
  Status status;
  auto end = within_half_a_minute();
  while (status && !end.expired()) {
    status = channel->write_flagged(source.bytes(), *data, *flag, ++round).wait();
    if (status) status = channel->fetch_add({*data, 64}, 1).wait();
    running.store(true);
  }
  EXPECT_TRUE(sent) << "the peer was lost while it was well";
  running = true;
  killer.join();
  ASSERT_FALSE(status) << "nothing was noticed in " << round << " rounds";
  EXPECT_EQ(status.error().code(), Code::kUnavailable) << status.error().to_string();
  EXPECT_EQ(status.error().message().find("given up") != std::string::npos, stopped)
      << status.error().to_string();
  channel->close();
}

INSTANTIATE_TEST_SUITE_P(Any, ShmPeerDeath,
                         ::testing::Values(Case{true, SIGKILL}, Case{false, SIGKILL},
                                           Case{true, SIGSTOP}, Case{false, SIGSTOP}));

TEST(ShmPeerDeath, AMappingOutlivesThePeer) {
  Child child(true);
  auto device = Device::open(options());
  ASSERT_TRUE(device);
  auto channel = device->connect(child.endpoint);
  ASSERT_TRUE(channel);
  auto data = channel->look_up("data", within_half_a_minute());
  ASSERT_TRUE(data);
  auto mapped = channel->map(*data);
  ASSERT_TRUE(mapped);
  (*mapped)[0] = std::byte{1};
  child.send(SIGKILL);
  auto end = within_half_a_minute();
  while (channel->alive() && !end.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(channel->alive());
  std::memset(mapped->data(), 7, mapped->size());
  EXPECT_EQ((*mapped)[kTargetBytes - 1], std::byte{7});
}

}  // namespace
}  // namespace ferry::fabric
