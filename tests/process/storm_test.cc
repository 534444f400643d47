// A busy machine ends no job: processes exchange writes, reads, messages and mail while they are
// stopped and continued at random, beside 8 spinning processes for each core. Nobody is lost and
// every byte is right.

#include "tests/process/storm.h"

#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <new>
#include <random>

#include "ferry/mail/mailbox.h"
#include "tests/process/kit.h"

namespace ferry::process {

double& storm_seconds() {
  static double seconds = 8;
  return seconds;
}

namespace {

using mail::Mailbox;
using mail::MailRoom;

constexpr std::size_t kClients = 3;
constexpr std::size_t kBlock = 192 * 1024;
constexpr std::size_t kLetter = 100'000;

struct Weather {
  std::atomic<bool> over{false};
  std::atomic<bool> listens{false};
  std::atomic<std::uint64_t> lost{0};  // peers, by those who have ended
  std::atomic<std::size_t> ended{0};   // clients
  std::atomic<std::uint64_t> rounds[kClients];
  char endpoint[64] = {};
  char problem[kClients + 1][512] = {};
};

// Longer than a process is ever stopped, and shorter than a hang of the test.
Deadline patient() { return Deadline::after(60s); }

std::vector<std::byte> letter_of(std::uint64_t round, std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
    const std::uint64_t word = round * 1'000'003 + at;
    std::memcpy(made.data() + at, &word, 8);
  }
  return made;
}

// Sends back what one client sends, by both ways.
void echo(Device& device, MailRoom& room, Channel& channel) {
  auto box = must(Mailbox::open(room, device, channel, {}, patient()));
  std::vector<std::byte> message(4096);
  for (;;) {
    const auto size = channel.receive(message, patient());
    if (!size) return;  // the client has left, or says what went wrong
    must(channel.send(std::span(message).first(*size)).wait());
    const auto letter = must(box.receive(patient()));
    std::vector<std::byte> copy;
    for (const auto part : letter.parts()) copy.insert(copy.end(), part.begin(), part.end());
    must(box.send_and_wait(copy, patient()));
  }
}

void serve(Weather& weather, const std::string& provider) {
  auto device = open_device(provider);
  auto region = must(device.allocate(kClients * kBlock));
  must(device.publish("blocks", must(device.grant(region, Rights::kAll))));
  auto room = must(MailRoom::open(device, {}));
  std::strncpy(weather.endpoint, device.endpoint().c_str(), sizeof weather.endpoint - 1);
  weather.listens = true;
  std::vector<Channel> channels;
  for (std::size_t each = 0; each < kClients; ++each)
    channels.push_back(must(device.accept(patient())));
  std::vector<std::thread> threads;
  for (auto& channel : channels)
    threads.emplace_back([&] {
      try {
        echo(device, room, channel);
      } catch (const std::exception& error) {
        std::strncpy(weather.problem[kClients], error.what(), 511);
      }
    });
  for (auto& thread : threads) thread.join();
}

std::string round_of(Channel& channel, Mailbox& box, const RemoteRegion& blocks, std::size_t index,
                     std::uint64_t round) {
  const auto block = letter_of(round, kBlock - 64);
  const fabric::RemoteAt here{blocks, index * kBlock};
  const fabric::RemoteAt flag{blocks, (index + 1) * kBlock - 64};
  must(channel.write_flagged(block, here, flag, round).wait());
  std::vector<std::byte> back(block.size());
  must(channel.read(back, here).wait());
  if (back != block) return "a block is not what was written";
  const auto message = letter_of(round, 1024);
  must(channel.send(message).wait());
  std::vector<std::byte> answer(4096);
  answer.resize(must(channel.receive(answer, patient())));
  if (answer != message) return "a message is not what was sent";
  const auto letter = letter_of(round, kLetter);
  must(box.send_and_wait(letter, patient()));
  const auto returned = must(box.receive(patient()));
  std::vector<std::byte> whole;
  for (const auto part : returned.parts()) whole.insert(whole.end(), part.begin(), part.end());
  return whole == letter ? "" : "a letter is not what was sent";
}

void take_part(Weather& weather, const std::string& provider, std::size_t index) {
  std::string problem;
  try {
    auto device = open_device(provider);
    auto channel = must(device.connect(weather.endpoint, {.deadline = patient()}));
    const auto blocks = must(channel.look_up("blocks", patient()));
    auto room = must(MailRoom::open(device, {}));
    auto box = must(Mailbox::open(room, device, channel, {}, patient()));
    for (std::uint64_t round = 1; !weather.over && problem.empty(); ++round) {
      problem = round_of(channel, box, blocks, index, round);
      weather.rounds[index] = round;
    }
    weather.lost += device.stats().peers_lost;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  std::strncpy(weather.problem[index], problem.c_str(), 511);
  ++weather.ended;
}

// Stops one of them at a time, and sometimes two.
void blow(const std::vector<pid_t>& pids, Deadline end, std::mt19937& random) {
  const auto pick = [&](std::size_t below) { return random() % below; };
  while (!end.expired()) {
    std::vector<pid_t> stopped = {pids[pick(pids.size())]};
    if (pick(3) == 0) stopped.push_back(pids[pick(pids.size())]);
    for (const auto pid : stopped) ::kill(pid, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(pick(8) == 0 ? 4000 : pick(1000)));
    for (const auto pid : stopped) ::kill(pid, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(pick(200)));
  }
}

void weather_a_storm(const std::string& provider) {
  auto* memory =
      ::mmap(nullptr, sizeof(Weather), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& weather = *new (memory) Weather();
  std::vector<std::unique_ptr<Child>> processes;
  processes.push_back(std::make_unique<Child>([&] { serve(weather, provider); }));
  for (auto limit = patient(); !weather.listens; std::this_thread::sleep_for(1ms))
    ASSERT_FALSE(limit.expired()) << "the server did not come up";
  for (std::size_t each = 0; each < kClients; ++each)
    processes.push_back(std::make_unique<Child>([&, each] { take_part(weather, provider, each); }));
  std::vector<pid_t> pids;
  for (const auto& process : processes) pids.push_back(process->pid());
  for (auto limit = patient(); weather.rounds[kClients - 1] == 0 && weather.ended == 0;
       std::this_thread::sleep_for(1ms))
    ASSERT_FALSE(limit.expired()) << "nothing is exchanged";
  std::vector<std::unique_ptr<Child>> load;
  for (unsigned each = 0; each < 8 * std::thread::hardware_concurrency(); ++each)
    load.push_back(std::make_unique<Child>([] {
      for (std::atomic<std::uint64_t> turns{0};;) turns.fetch_add(1, std::memory_order_relaxed);
    }));
  std::mt19937 random(static_cast<unsigned>(now_ns()));
  blow(pids,
       Deadline::after(
           std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(storm_seconds()))),
       random);
  weather.over = true;
  for (auto limit = Deadline::after(120s); weather.ended < kClients && !limit.expired();
       std::this_thread::sleep_for(10ms))
    continue;
  load.clear();
  EXPECT_EQ(weather.ended, kClients);
  EXPECT_EQ(weather.lost, 0U);
  for (std::size_t each = 0; each <= kClients; ++each)
    EXPECT_STREQ(weather.problem[each], "") << (each < kClients ? "client" : "server");
  for (auto& rounds : weather.rounds) {
    EXPECT_GT(rounds, 0U);
    std::printf("%llu rounds\n", static_cast<unsigned long long>(rounds.load()));
  }
  processes.clear();
  ::munmap(memory, sizeof(Weather));
}

class Storm : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Provider, Storm, ::testing::Values("tcp", "shm"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(Storm, LosesNobodyAndTearsNothing) { weather_a_storm(GetParam()); }

}  // namespace
}  // namespace ferry::process
