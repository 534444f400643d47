// A peer dies while the last user of a channel to it lets go of it.

#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <random>

#include "tests/process/kit.h"

namespace ferry::process {
namespace {

constexpr std::size_t kPeers = 24;

struct Places {
  struct Place {
    std::atomic<bool> known{false};
    char endpoint[64] = {};
  };
  Place at[kPeers];
};

void serve(Places::Place& place, const std::string& provider) {
  auto device = open_device(provider);
  std::strncpy(place.endpoint, device.endpoint().c_str(), sizeof(place.endpoint) - 1);
  place.known = true;
  std::vector<Channel> channels;
  for (;;)
    if (auto channel = device.accept(Deadline::after(1s))) channels.push_back(std::move(*channel));
}

std::string outlive_all(Places& places, const std::string& provider) {
  std::vector<std::unique_ptr<Child>> peers;
  for (auto& place : places.at)
    peers.push_back(std::make_unique<Child>([&] { serve(place, provider); }));
  auto device = open_device(provider);
  std::mt19937 random(7);
  for (std::size_t each = 0; each < kPeers; ++each) {
    auto& place = places.at[each];
    for (auto limit = soon(); !place.known; std::this_thread::sleep_for(1ms))
      if (limit.expired()) return "a peer did not come up";
    std::optional<Channel> channel = must(device.connect(place.endpoint, {.deadline = soon()}));
    ::kill(peers[each]->pid(), SIGKILL);
    const auto until = now_ns() + static_cast<std::int64_t>(random() % 400'000);
    while (now_ns() < until) continue;
    channel.reset();
  }
  return "";
}

class Deaths : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Provider, Deaths, ::testing::Values("tcp", "shm"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(Deaths, WhileTheLastUserGoes) {
  auto* memory =
      ::mmap(nullptr, sizeof(Places), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* places = new (memory) Places();
  EXPECT_EQ(in_child([&] { return outlive_all(*places, GetParam()); }), "");
  ::munmap(memory, sizeof(Places));
}

}  // namespace
}  // namespace ferry::process
