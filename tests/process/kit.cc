#include "tests/process/kit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "ferry/base/log.h"

namespace ferry::process {

namespace {

// The suite provokes failures and judges them itself.
const bool kQuiet = [] {
  set_log_level("off");
  return true;
}();

void end(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

std::string read_all(int fd, Deadline deadline) {
  std::string text;
  char buffer[1024];
  while (!deadline.expired()) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, deadline.left_ms()) <= 0) continue;
    auto got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text + "did not end in time";
}

}  // namespace

fabric::Options options_for(const std::string& provider) {
  fabric::Options options;
  options.provider = provider;
  options.secret = kSecret;
  options.arena_bytes = std::size_t{8} << 20;
  return options;
}

Device open_device(const std::string& provider) {
  return must(Device::open(options_for(provider)));
}

std::string in_child(const std::function<std::string()>& body, Nanos limit) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
  Fd in(ends[0]);
  Fd out(ends[1]);
  auto pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string said;
    try {
      said = body();
    } catch (const std::exception& error) {
      said = std::string("threw: ") + error.what();
    }
    [[maybe_unused]] auto written = ::write(out.get(), said.data(), said.size());
    ::_exit(0);
  }
  out.reset();
  auto said = read_all(in.get(), Deadline::after(limit));
  int status = 0;
  if (::waitpid(pid, &status, WNOHANG) == 0) {
    // It has said what it had to say, or its time is over.
    std::this_thread::sleep_for(100ms);
    if (::waitpid(pid, &status, WNOHANG) == 0) end(pid);
  }
  if (WIFSIGNALED(status)) said += std::string("; killed by ") + ::strsignal(WTERMSIG(status));
  return said;
}

Child::Child(const std::function<void()>& body) : pid_(::fork()) {
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
  }
  ::_exit(0);
}

Child::~Child() { end(pid_); }

Bystander::Bystander(Device& device, const std::string& provider)
    : own_(open_device(provider)),
      region_(must(device.allocate(100'000))),
      remote_(must(device.grant(region_, Rights::kAll))),
      channel_(must(own_.connect(device.endpoint(), {.deadline = soon()}))),
      other_end_(must(device.accept(soon()))),
      thread_([this] { run(); }) {}

Bystander::~Bystander() {
  stop_ = true;
  thread_.join();
}

void Bystander::run() {
  std::vector<std::byte> out(100'000);
  std::vector<std::byte> back(100'000);
  while (!stop_) {
    std::memset(out.data(), static_cast<int>(rounds_.load() % 251), out.size());
    auto status = channel_.write(out, remote_, {.deadline = soon()}).wait();
    if (status) status = channel_.read(back, remote_, {.deadline = soon()}).wait();
    if (!status) problem_ = status.error().to_string();
    if (status && out != back) problem_ = "wrong bytes";
    if (!problem_.empty()) break;
    ++rounds_;
    std::this_thread::sleep_for(1ms);
  }
  ended_ = true;
}

std::string Bystander::complaint() {
  auto from = rounds_.load();
  auto deadline = soon();
  while (!ended_ && rounds_ < from + 5 && !deadline.expired()) std::this_thread::sleep_for(1ms);
  if (ended_) return problem_;
  return rounds_ < from + 5 ? "makes no progress" : "";
}

Fd dial(const Device& device) {
  auto endpoint = must(bootstrap::Endpoint::parse(device.endpoint()));
  return must(bootstrap::connect_tcp(endpoint, soon()));
}

bool closed_by_peer(int fd, Deadline deadline) {
  char buffer[4096];
  while (!deadline.expired()) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, std::min(deadline.left_ms(), 100)) <= 0) continue;
    auto got = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

}  // namespace ferry::process
