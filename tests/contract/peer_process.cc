#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/contract/peer.h"

extern char** environ;

namespace ferry::contract {

namespace {

// The first line of what the peer prints: where it listens.
std::string read_line(int fd, Deadline deadline) {
  std::string line;
  char letter = 0;
  for (;;) {
    pollfd ready{fd, POLLIN, 0};
    if (deadline.expired()) throw std::runtime_error("the peer process did not start in time");
    if (poll(&ready, 1, deadline.left_ms()) <= 0) continue;
    if (read(fd, &letter, 1) != 1) throw std::runtime_error("the peer process ended at once");
    if (letter == '\n') return line;
    line += letter;
  }
}

}  // namespace

PeerProcess PeerProcess::start(const std::string& listen) {
  int in[2];
  int out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe for the peer process");
  }
  PeerProcess peer;
  peer.input_ = Fd(in[1]);
  Fd child_in(in[0]);
  Fd child_out(out[1]);
  Fd lines(out[0]);
  auto& own = settings();
  std::vector<std::string> arguments = {own.program,
                                        "--serve",
                                        "--provider=" + own.provider,
                                        "--secret=" + own.secret,
                                        "--patience=" + std::to_string(own.patience),
                                        "--log=" + own.log,
                                        "--listen=" + (listen.empty() ? own.listen : listen)};
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, child_out.get(), STDOUT_FILENO);
  int error =
      posix_spawn(&peer.pid_.value, own.program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start the peer: " + text_of_errno(error));
  child_out.reset();
  peer.endpoint_ = read_line(lines.get(), soon());
  return peer;
}

PeerProcess::~PeerProcess() {
  if (pid_.value < 0) return;
  input_.reset();
  signal(SIGCONT);
  auto polite = in(3s);
  while (waitpid(pid_.value, nullptr, WNOHANG) == 0) {
    if (polite.expired()) {
      signal(SIGKILL);
      waitpid(pid_.value, nullptr, 0);
      break;
    }
    std::this_thread::sleep_for(1ms);
  }
}

void PeerProcess::signal(int number) const { ::kill(pid_.value, number); }

void PeerProcess::reap() {
  waitpid(pid_.value, nullptr, 0);
  pid_.value = -1;
}

std::string order(Channel& channel, const std::string& command, Deadline deadline) {
  auto sent = channel.send(std::as_bytes(std::span(command)), {.deadline = deadline}).wait();
  if (!sent) return "sending the order: " + sent.error().to_string();
  std::vector<std::byte> answer(channel.capabilities().max_message);
  auto size = channel.receive(answer, deadline);
  if (!size) return "waiting for the answer: " + size.error().to_string();
  return {reinterpret_cast<const char*>(answer.data()), *size};
}

void TwoProcessTest::SetUp() {
  if (settings().peer_mode == "same-process") GTEST_SKIP() << "this run is about one process";
  if (settings().provider == "fake") GTEST_SKIP() << "the fake provider joins no two processes";
  before_ = current_holdings();
}

void TwoProcessTest::TearDown() {
  if (IsSkipped()) return;
  channel_ = {};
  device_.reset();
  peer_.reset();
  EXPECT_EQ(leaked_since(before_), "");
}

void TwoProcessTest::start(const Options& options) {
  std::string where = settings().connect;
  if (!remote()) {
    peer_.emplace(PeerProcess::start());
    where = peer_->endpoint();
  }
  device_.emplace(open_device(options));
  channel_ = must(device_->connect(where, {.deadline = soon()}));
}

}  // namespace ferry::contract
