#include "bench/limits/team.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <exception>
#include <new>

#include "bench/limits/link.h"

namespace limits {
namespace {

constexpr std::int64_t kTeamPatienceNs = 60'000'000'000;
constexpr std::size_t kReports = 128;

long team_futex(std::atomic<std::uint32_t>& word, int op, std::uint32_t value,
                const timespec* timeout) {
  return syscall(SYS_futex, &word, op, value, timeout, nullptr, 0);
}

}  // namespace

struct Team::Board {
  // Counts arrivals at all meetings so far.
  std::atomic<std::uint32_t> arrived{0};
  std::atomic<bool> failed{false};
  std::array<char, 512> failure{};
  std::array<std::array<char, 128>, kMost> endpoints{};
  std::array<double, kReports> reports{};
};

Team::Team(int members) : members_(members) {
  void* at =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail_errno("cannot map what the processes share");
  board_ = new (at) Board;
}

Team::~Team() {
  for (const auto pid : pids_) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, __WALL);
  }
  munmap(board_, sizeof(Board));
}

void Team::start(const Part& part) {
  const auto starter = getpid();
  for (int me = 0; me < members_; ++me) {
    const auto pid = fork();
    if (pid < 0) fail_errno("cannot fork a process to measure with");
    if (pid == 0) {
      pids_.clear();
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != starter) _exit(1);
      run_member(part, me);
    }
    pids_.push_back(pid);
  }
}

void Team::run_member(const Part& part, int me) {
  try {
    part(*this, me);
  } catch (const std::exception& error) {
    if (!board_->failed.exchange(true))
      std::strncpy(board_->failure.data(), error.what(), board_->failure.size() - 1);
    _exit(1);
  }
  _exit(0);
}

void Team::throw_if_failed() const {
  if (!board_->failed.load()) return;
  usleep(10'000);  // the sentence may still be on its way
  throw Failure(board_->failure.data());
}

void Team::finish() {
  const auto deadline = now_ns() + kTeamPatienceNs;
  while (!pids_.empty()) {
    int status = 0;
    const auto pid = waitpid(pids_.back(), &status, WNOHANG);
    if (pid == 0) {
      throw_if_failed();
      if (now_ns() > deadline) throw Failure("the processes did not end within 60 s");
      usleep(1000);
      continue;
    }
    ended(pids_.back(), pid < 0 ? -1 : status);
  }
}

void Team::ended(pid_t pid, int status) {
  pids_.erase(std::remove(pids_.begin(), pids_.end(), pid), pids_.end());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  throw_if_failed();
  throw Failure("one of the measuring processes died");
}

void Team::meet() {
  const auto all = ++met_ * static_cast<std::uint32_t>(members_);
  if (board_->arrived.fetch_add(1) + 1 == all) {
    team_futex(board_->arrived, FUTEX_WAKE, INT_MAX, nullptr);
    return;
  }
  const auto deadline = now_ns() + kTeamPatienceNs;
  for (;;) {
    const auto seen = board_->arrived.load();
    if (seen >= all) return;
    throw_if_failed();
    if (now_ns() > deadline) throw Failure("the other processes did not come within 60 s");
    const timespec slice{0, 100'000'000};
    team_futex(board_->arrived, FUTEX_WAIT, seen, &slice);
  }
}

void Team::set_endpoint(int member, const std::string& endpoint) {
  auto& place = board_->endpoints.at(static_cast<std::size_t>(member));
  std::strncpy(place.data(), endpoint.c_str(), place.size() - 1);
}

std::string Team::endpoint(int member) const {
  return board_->endpoints.at(static_cast<std::size_t>(member)).data();
}

void Team::report(std::size_t index, double value) { board_->reports.at(index) = value; }
double Team::reported(std::size_t index) const { return board_->reports.at(index); }

}  // namespace limits
