// Memory that was lent to another process, and is taken back while that process writes to it.

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/process/kit.h"

namespace ferry::process {
namespace {

constexpr std::size_t kLentBytes = 4 << 20;
constexpr int kLoans = 24;

struct Meeting {
  std::atomic<bool> open{false};
  char endpoint[64];
};

std::string name_of_loan(int loan) { return "loan/" + std::to_string(loan); }

// Writes to each loan until it is refused, then goes on to the next.
void write_for_ever(Meeting& meeting, const std::string& provider) {
  auto deadline = soon();
  while (!meeting.open && !deadline.expired()) std::this_thread::sleep_for(1ms);
  auto device = open_device(provider);
  auto channel = must(device.connect(meeting.endpoint));
  std::vector<std::byte> bytes(kLentBytes, std::byte{0xAA});
  for (int loan = 0; loan < kLoans; ++loan) {
    auto remote = must(channel.look_up(name_of_loan(loan), soon()));
    while (channel.write(bytes, remote).wait()) {
    }
  }
}

void take_back_while_written(const std::string& provider, bool own) {
  auto* memory =
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& meeting = *new (memory) Meeting;
  Child writer([&] { write_for_ever(meeting, provider); });
  auto device = open_device(provider);
  std::strcpy(meeting.endpoint, device.endpoint().c_str());
  meeting.open = true;
  std::vector<std::byte> mine(kLentBytes);
  for (int loan = 0; loan < kLoans; ++loan) {
    std::fill(mine.begin(), mine.end(), std::byte{0});
    auto region = must(own ? device.register_memory(mine) : device.allocate(kLentBytes));
    auto grant = must(device.grant(region, Rights::kWrite));
    must(device.publish(name_of_loan(loan), grant));
    auto& last = *reinterpret_cast<std::atomic<std::uint8_t>*>(region.data() + kLentBytes - 1);
    for (auto deadline = soon(); last != 0xAA && !deadline.expired();) std::this_thread::yield();
    ASSERT_EQ(last, 0xAA) << "nothing was written";
    std::this_thread::sleep_for(std::chrono::microseconds(loan * 37));
    must(device.revoke(grant, soon()));
    std::fill_n(region.data(), kLentBytes, std::byte{0});
    std::this_thread::sleep_for(3ms);
    auto* end = region.data() + kLentBytes;
    ASSERT_EQ(std::find(region.data(), end, std::byte{0xAA}), end) << "written after revoke()";
    must(device.withdraw(name_of_loan(loan)));
  }
}

TEST(Revoking, MemoryOfOurOwnOverSharedMemory) { take_back_while_written("shm", true); }
TEST(Revoking, ArenaMemoryOverSharedMemory) { take_back_while_written("shm", false); }
TEST(Revoking, MemoryOfOurOwnOverTcp) { take_back_while_written("tcp", true); }

}  // namespace
}  // namespace ferry::process
