// Eight processes, each writing to all others: more processes than cores still make progress.

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <new>

#include "tests/process/kit.h"

namespace ferry::process {
namespace {

constexpr int kProcesses = 8;
constexpr int kRounds = 20;
constexpr std::size_t kBytes = 65'536;
constexpr std::size_t kSlot = kBytes + 64;  // payload, then the flag

struct Shared {
  std::atomic<int> open{0};
  std::atomic<int> done{0};
  std::atomic<int> ended{0};
  char endpoints[kProcesses][64];
  char problem[512];
};

bool all(const std::atomic<int>& count) {
  auto deadline = Deadline::after(60s);
  while (count < kProcesses && !deadline.expired()) std::this_thread::sleep_for(1ms);
  return count >= kProcesses;
}

std::byte stamp_of(int from, int to, int round) {
  return static_cast<std::byte>(1 + (from * 31 + to * 7 + round) % 250);
}

struct Peer {
  Channel channel;
  RemoteRegion slots;
};

void one_round(int me, int round, const Region& mine, std::vector<Peer>& peers, Device& device) {
  std::vector<std::vector<std::byte>> out(kProcesses);
  std::vector<Transfer> transfers;
  for (int to = 0; to < kProcesses; ++to) {
    if (to == me) continue;
    auto& bytes = out[static_cast<std::size_t>(to)];
    bytes.assign(kBytes, stamp_of(me, to, round));
    auto& peer = peers[static_cast<std::size_t>(to)];
    auto at = static_cast<std::uint64_t>(me) * kSlot;
    transfers.push_back(peer.channel.write_flagged(
        bytes, {peer.slots, at}, {peer.slots, at + kBytes}, static_cast<std::uint64_t>(round),
        {.deadline = Deadline::after(60s)}));
  }
  for (int from = 0; from < kProcesses; ++from) {
    if (from == me) continue;
    auto slot = mine.bytes().subspan(static_cast<std::size_t>(from) * kSlot, kSlot);
    must(device.wait_flag(slot.data() + kBytes, static_cast<std::uint64_t>(round),
                          Deadline::after(60s)));
    for (auto byte : slot.first(kBytes)) {
      if (byte != stamp_of(from, me, round)) throw std::runtime_error("wrong bytes");
    }
  }
  for (auto& transfer : transfers) must(transfer.wait());
}

void take_part(int me, const std::string& provider, Shared& shared) {
  auto device = open_device(provider);
  auto mine = must(device.allocate(kProcesses * kSlot));
  must(device.publish("slots", must(device.grant(mine, Rights::kReadWrite))));
  std::strncpy(shared.endpoints[me], device.endpoint().c_str(), 63);
  ++shared.open;
  if (!all(shared.open)) throw std::runtime_error("not all came");
  std::vector<Peer> peers(kProcesses);
  for (int to = 0; to < kProcesses; ++to) {
    if (to == me) continue;
    auto& peer = peers[static_cast<std::size_t>(to)];
    peer.channel = must(device.connect(shared.endpoints[to], {.deadline = Deadline::after(60s)}));
    peer.slots = must(peer.channel.look_up("slots", Deadline::after(60s)));
  }
  std::vector<Channel> accepted;
  for (int i = 1; i < kProcesses; ++i) {
    accepted.push_back(must(device.accept(Deadline::after(60s))));
  }
  // Two rounds are never under way for one slot: the next one starts when all have ended this one.
  for (int round = 1; round <= kRounds; ++round) {
    one_round(me, round, mine, peers, device);
    ++shared.done;
    auto deadline = Deadline::after(60s);
    while (shared.done < round * kProcesses && !deadline.expired()) std::this_thread::yield();
  }
}

void all_to_all(const std::string& provider) {
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& shared = *new (memory) Shared;
  auto& ended = shared.ended;
  {
    std::vector<std::unique_ptr<Child>> children;
    for (int me = 0; me < kProcesses; ++me) {
      children.push_back(std::make_unique<Child>([&, me] {
        try {
          take_part(me, provider, shared);
        } catch (const std::exception& error) {
          std::snprintf(shared.problem, sizeof shared.problem, "process %d: %s", me, error.what());
        }
        ++ended;
        // Others may still be reading from this one.
        (void)all(ended);
      }));
    }
    EXPECT_TRUE(all(ended)) << "not all processes ended";
  }
  EXPECT_STREQ(shared.problem, "");
  EXPECT_EQ(shared.done.load(), kProcesses * kRounds);
  ::munmap(memory, sizeof(Shared));
}

TEST(AllToAll, EightProcessesOverSharedMemory) { all_to_all("shm"); }
TEST(AllToAll, EightProcessesOverTcp) { all_to_all("tcp"); }

}  // namespace
}  // namespace ferry::process
