// Peers that are stopped, and memory that is taken back from them meanwhile.

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "tests/process/kit.h"

namespace ferry::process {
namespace {

constexpr std::size_t kLentToLate = 1 << 20;

struct LateStage {
  std::atomic<bool> open{false};
  std::atomic<std::uint64_t> rounds{0};
  std::atomic<bool> over{false};
  char endpoint[64];

  static LateStage& make() {
    auto* memory =
        mmap(nullptr, sizeof(LateStage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *new (memory) LateStage;
  }
  void show(const Device& device) {
    std::strcpy(endpoint, device.endpoint().c_str());
    open = true;
  }
  void await_open() const {
    for (auto deadline = soon(); !open && !deadline.expired();) std::this_thread::sleep_for(1ms);
  }
};

void stop(pid_t pid) {
  kill(pid, SIGSTOP);
  int status = 0;
  waitpid(pid, &status, WUNTRACED);
}

// A peer that is stopped while it writes can do nothing to memory of our own: its bytes are placed
// by this process. So nobody waits for it.
void take_own_memory_back_from_stopped_writer(const std::string& provider) {
  auto& stage = LateStage::make();
  Child writer([&] {
    stage.await_open();
    auto device = open_device(provider);
    auto channel = must(device.connect(stage.endpoint));
    auto remote = must(channel.look_up("own", soon()));
    std::vector<std::byte> bytes(kLentToLate, std::byte{0xAA});
    while (channel.write(bytes, remote).wait()) ++stage.rounds;
    stage.over = true;
    std::this_thread::sleep_for(20s);
  });
  auto device = open_device(provider);
  std::vector<std::byte> mine(kLentToLate);
  auto region = must(device.register_memory(mine));
  auto grant = must(device.grant(region, Rights::kWrite));
  must(device.publish("own", grant));
  stage.show(device);
  for (auto deadline = soon(); stage.rounds < 20 && !deadline.expired();)
    std::this_thread::sleep_for(1ms);
  ASSERT_GE(stage.rounds, 20U);
  stop(writer.pid());
  must(device.revoke(grant, Deadline::after(2s)));
  must(region.close(Deadline::after(2s)));
  std::fill(mine.begin(), mine.end(), std::byte{0x11});
  kill(writer.pid(), SIGCONT);
  for (auto deadline = soon(); !stage.over && !deadline.expired();)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(stage.over) << "the peer still writes";
  EXPECT_EQ(std::count(mine.begin(), mine.end(), std::byte{0x11}),
            static_cast<std::ptrdiff_t>(kLentToLate));
}

TEST(LatePeers, AStoppedWriterDoesNotKeepMemoryOfOurOwnOverSharedMemory) {
  take_own_memory_back_from_stopped_writer("shm");
}
TEST(LatePeers, AStoppedWriterDoesNotKeepMemoryOfOurOwnOverTcp) {
  take_own_memory_back_from_stopped_writer("tcp");
}

// Each of the sends once waited three seconds longer than it was told to.
void send_to_stopped_receiver(const std::string& provider) {
  auto& stage = LateStage::make();
  mail::MailRoomOptions room_options;
  room_options.tuning = TuningUse::kOff;
  Child receiver([&] {
    auto device = open_device(provider);
    stage.show(device);
    auto channel = must(device.accept(soon()));
    auto room = must(MailRoom::open(device, room_options));
    auto box = must(Mailbox::open(room, device, channel, {}, soon()));
    must(box.receive(soon()));
    stage.over = true;
    std::this_thread::sleep_for(60s);
  });
  stage.await_open();
  auto device = open_device(provider);
  auto channel = must(device.connect(stage.endpoint));
  auto room = must(MailRoom::open(device, room_options));
  std::optional<Mailbox> box(must(Mailbox::open(room, device, channel, {}, soon())));
  std::vector<std::vector<std::byte>> own(4, std::vector<std::byte>(kLentToLate));
  must(box->send_and_wait(own[0], soon()));
  for (auto deadline = soon(); !stage.over && !deadline.expired();)
    std::this_thread::sleep_for(1ms);
  stop(receiver.pid());
  auto began = now_ns();
  std::vector<mail::Sending> sends;
  for (auto& bytes : own) sends.push_back(box->send(bytes, Deadline::after(300ms)));
  for (auto& send : sends) EXPECT_EQ(code_of(send.wait()), Code::kDeadlineExceeded);
  EXPECT_LT(now_ns() - began, 6'000'000'000) << "sends go on after their deadline";
  sends.clear();
  began = now_ns();
  box.reset();
  EXPECT_LT(now_ns() - began, 10'000'000'000) << "closing waits for a peer that is stopped";
}

TEST(LatePeers, SendsToAStoppedReceiverEndAtTheirDeadlinesOverSharedMemory) {
  send_to_stopped_receiver("shm");
}
TEST(LatePeers, SendsToAStoppedReceiverEndAtTheirDeadlinesOverTcp) {
  send_to_stopped_receiver("tcp");
}

}  // namespace
}  // namespace ferry::process
