// Peers that live and say nothing: stopped and continued by signals.

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/process/kit.h"

namespace ferry::process {
namespace {

using fabric::PeerState;

constexpr std::size_t kBytes = 4 << 20;  // more than a socket takes of a peer that reads nothing

// What the processes of one test share.
struct Board {
  std::atomic<int> stage{0};
  char endpoint[64] = {};
  char said[512] = {};

  static Board* make() {
    auto* memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
    return new (memory) Board();
  }
  void say(const std::string& text, int then) {
    std::strncpy(said, text.c_str(), sizeof said - 1);
    stage = then;
  }
  bool reaches(int wanted, Nanos limit = 60s) const {
    for (auto end = Deadline::after(limit); stage < wanted; std::this_thread::sleep_for(1ms))
      if (end.expired()) return false;
    return true;
  }
};

bool becomes(const Channel& channel, PeerState state, Nanos limit = 60s) {
  for (auto end = Deadline::after(limit); channel.peer_state() != state;
       std::this_thread::sleep_for(2ms))
    if (end.expired()) return false;
  return true;
}

// Serves memory of its own, which over shm only its own threads can touch, and waits for a message
// that never comes. What that ends with is what it says.
void lend_and_wait(Board& board, const fabric::Options& options) {
  auto device = must(Device::open(options));
  std::vector<std::byte> own(kBytes);
  auto region = must(device.register_memory(own));
  must(device.publish("own", must(device.grant(region, Rights::kAll))));
  std::strncpy(board.endpoint, device.endpoint().c_str(), sizeof board.endpoint - 1);
  board.stage = 1;
  auto channel = must(device.accept(Deadline::after(60s)));
  std::byte message[64];
  const auto got = channel.receive(message, Deadline::after(10min));
  board.say(got ? "a message" : got.error().to_string(), 2);
  for (;;) std::this_thread::sleep_for(1s);
}

// One peer that is stopped, and a channel to it.
struct Stoppable {
  Stoppable(const std::string& provider, const fabric::Options& mine)
      : board(Board::make()),
        child([&] { lend_and_wait(*board, options_for(provider)); }),
        device(open_after(mine)),
        channel(must(device.connect(board->endpoint, {.deadline = soon()}))),
        own(must(channel.look_up("own", soon()))) {}

  Device open_after(const fabric::Options& mine) const {
    if (!board->reaches(1)) throw std::runtime_error("the peer did not come up");
    return must(Device::open(mine));
  }
  Status write() {
    std::vector<std::byte> bytes(kBytes, std::byte{7});
    return channel.write(bytes, own, {.deadline = Deadline::after(60s)}).wait();
  }

  Board* board;
  Child child;
  Device device;
  Channel channel;
  RemoteRegion own;
};

class Silence : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Provider, Silence, ::testing::Values("tcp", "shm"),
                         [](const auto& each) { return std::string(each.param); });

std::string named_and_forgiven(const std::string& provider) {
  Stoppable peer(provider, options_for(provider));
  must(peer.write());
  if (peer.channel.peer_state() != PeerState::kAnswers) return "it does not answer at first";
  const auto stopped = now_ns();
  ::kill(peer.child.pid(), SIGSTOP);
  if (!becomes(peer.channel, PeerState::kSilent)) return "its silence is not named";
  const auto took = static_cast<double>(now_ns() - stopped) / 1e9;
  // The last word may have come just before the stop, or 0.6 s earlier. Later is for a busy
  // machine.
  if (took < 2 || took > 30) return fmt::format("its silence is named after {:.1f} s", took);
  if (peer.channel.silent_for() < 2s) return "the silence has no length";
  if (peer.device.stats().peers_silent != 1) return "it is not counted";
  if (!peer.channel.alive()) return "it is given up";
  const std::vector<std::byte> bytes(kBytes);
  const auto late =
      peer.channel.write(bytes, peer.own, {.deadline = Deadline::after(100ms)}).wait();
  if (provider == "tcp" && code_of(late) != Code::kDeadlineExceeded)
    return "an operation does not end at its deadline";
  ::kill(peer.child.pid(), SIGCONT);
  if (!becomes(peer.channel, PeerState::kAnswers)) return "it is not heard again";
  if (peer.device.stats().peers_silent != 0) return "it is still counted";
  // Half of the write was sent: the lane was reset, and is connected anew.
  auto limit = Deadline::after(60s);
  while (!peer.channel.alive() && !limit.expired()) std::this_thread::sleep_for(1ms);
  must(peer.write());
  return peer.device.stats().peers_lost == 0 ? "" : "it was lost";
}

TEST_P(Silence, IsNamedAfterThreeSecondsAndForgottenWhenThePeerSpeaks) {
  EXPECT_EQ(in_child([] { return named_and_forgiven(GetParam()); }, 120s), "");
}

// The seconds of silence that a text tells of after these words; 0 if it has no such words.
double seconds_after(const std::string& text, const std::string& words) {
  const auto at = text.find(words);
  return at == std::string::npos ? 0 : std::strtod(text.c_str() + at + words.size(), nullptr);
}

std::string given_up(const std::string& provider) {
  auto mine = options_for(provider);
  mine.give_up = 1s;
  Stoppable peer(provider, mine);
  ::kill(peer.child.pid(), SIGSTOP);
  std::byte message[64];
  const auto got = peer.channel.receive(message, Deadline::after(60s));
  if (code_of(got) != Code::kUnavailable) return "receive() ends with " + got.error().to_string();
  const auto& text = got.error().message();
  if (seconds_after(text, "was given up after ") < 1) return text;
  if (peer.channel.peer_state() != PeerState::kLost) return "the channel does not say so";
  const auto written = peer.write();
  if (code_of(written) != Code::kUnavailable) return "a write goes on";
  ::kill(peer.child.pid(), SIGCONT);
  if (!peer.board->reaches(2)) return "the peer does not learn of it";
  return peer.board->said;
}

// Both sides are told why.
TEST_P(Silence, EndsTheChannelAfterTheTimeThatWasAskedFor) {
  const auto said = in_child([] { return given_up(GetParam()); }, 120s);
  EXPECT_EQ(said.find("UNAVAILABLE: peer 127.0.0.1:"), 0U) << said;
  EXPECT_GE(seconds_after(said, "gave this process up after "), 1) << said;
  EXPECT_NE(said.find(" s of silence"), std::string::npos) << said;
}

// Looks after its peer with little patience, is stopped, and goes on.
void watch_and_be_stopped(Board& board, const std::string& provider, const std::string& endpoint) {
  auto options = options_for(provider);
  options.give_up = 2s;
  auto device = must(Device::open(options));
  auto channel = must(device.connect(endpoint, {.deadline = soon()}));
  board.stage = 1;
  if (!board.reaches(2)) return;
  std::this_thread::sleep_for(3s);  // all that it might decide, it has decided
  board.say(channel.alive() && device.stats().peers_lost == 0 ? "well" : "gave its peer up", 3);
  for (;;) std::this_thread::sleep_for(1s);
}

std::string sleeps_through(const std::string& provider) {
  auto* board = Board::make();
  auto* at = Board::make();
  const Child server([&] { lend_and_wait(*at, options_for(provider)); });
  if (!at->reaches(1)) return "the server did not come up";
  const Child sleeper([&] { watch_and_be_stopped(*board, provider, at->endpoint); });
  if (!board->reaches(1)) return "the sleeper did not come up";
  ::kill(sleeper.pid(), SIGSTOP);
  std::this_thread::sleep_for(5s);
  board->stage = 2;
  ::kill(sleeper.pid(), SIGCONT);
  if (!board->reaches(3)) return "the sleeper does not go on";
  return board->said;
}

TEST_P(Silence, OfOthersDoesNotCountWhileOneIsStoppedOneself) {
  EXPECT_EQ(in_child([] { return sleeps_through(GetParam()); }, 120s), "well");
}

// A process that has forked: what it has open stays open when it dies.
std::string dies_with_an_heir(const std::string& provider) {
  auto* board = Board::make();
  int heirs_end[2];
  if (::pipe2(heirs_end, O_CLOEXEC) != 0) return "no pipe";
  const Child child([&] {
    ::close(heirs_end[1]);
    std::thread later([&] {
      if (!board->reaches(2)) return;
      if (::fork() == 0) {
        char any = 0;
        [[maybe_unused]] auto ended = ::read(heirs_end[0], &any, 1);
        ::_exit(0);
      }
      board->stage = 3;
    });
    lend_and_wait(*board, options_for(provider));
  });
  if (!board->reaches(1)) return "the peer did not come up";
  auto device = open_device(provider);
  auto channel = must(device.connect(board->endpoint, {.deadline = soon()}));
  board->stage = 2;
  if (!board->reaches(3)) return "the peer did not fork";
  ::kill(child.pid(), SIGKILL);
  // Far less than the 60 s after which it would be given up.
  const bool seen = becomes(channel, PeerState::kLost, 20s);
  ::close(heirs_end[1]);
  return seen ? "" : "its death is not seen";
}

TEST_P(Silence, IsNotWaitedForWhenTheProcessIsGoneAndAChildKeepsItsConnections) {
  EXPECT_EQ(in_child([] { return dies_with_an_heir(GetParam()); }, 120s), "");
}

}  // namespace
}  // namespace ferry::process
