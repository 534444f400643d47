#include "ferry/cli/common/launch_guard.h"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace ferry::cli {
namespace {

constexpr std::array<int, 4> kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::chrono::seconds kLeftoverGrace{3};
constexpr std::chrono::seconds kKillTakes{5};  // longer only in a system call that cannot be ended
constexpr std::chrono::milliseconds kLookAgain{5};

volatile sig_atomic_t guarded_child = 0;

// The kernel sends a terminal's signals to the child, too.
void pass_on(int signal, siginfo_t* info, void* /*context*/) {
  if (guarded_child > 0 && info->si_code != SI_KERNEL) (void)kill(guarded_child, signal);
}

// Of a line of /proc/PID/stat: "12 (name) S 1 ...". 0 if it cannot be read.
pid_t parent_of(const std::string& pid) {
  std::string line;
  std::getline(std::ifstream("/proc/" + pid + "/stat"), line);
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= line.size()) return 0;
  return static_cast<pid_t>(std::strtol(line.c_str() + name_end + 4, nullptr, 10));
}

std::vector<pid_t> children_of_this() {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir("/proc"), &closedir);
  if (all == nullptr) return found;
  const auto self = getpid();
  for (const auto* entry = readdir(all.get()); entry != nullptr; entry = readdir(all.get())) {
    const std::string name = entry->d_name;
    if (name.find_first_not_of("0123456789") == std::string::npos && parent_of(name) == self)
      found.push_back(static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10)));
  }
  return found;
}

// In the process that the user knows, until its end.
[[noreturn]] void watch_over(pid_t child) {
  int status = 0;
  for (pid_t ended = 0; ended != child;) {
    ended = waitpid(-1, &status, 0);
    if (ended < 0 && errno != EINTR) _exit(1);
  }
  guarded_child = 0;
  if (status != 0) end_children(kLeftoverGrace);
  if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
  fmt::print(stderr, "ferry: the command was killed by signal {}; what it had started is ended\n",
             WTERMSIG(status));
  _exit(128 + WTERMSIG(status));
}

void pass_signals_on() {
  for (const int number : kPassedOn) {
    struct sigaction before = {};
    (void)sigaction(number, nullptr, &before);
    // nohup, and shells for what runs in the background, want these ignored.
    const bool ignored = before.sa_handler == SIG_IGN;
    if (ignored && (number == SIGHUP || number == SIGQUIT)) continue;
    struct sigaction action = {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    (void)sigaction(number, &action, nullptr);
  }
}

}  // namespace

void die_with_parent(int parent, int signal) {
  (void)prctl(PR_SET_PDEATHSIG, signal);
  if (getppid() != parent) _exit(128 + signal);  // it was quicker
}

void end_children(Nanos grace) {
  const auto kind = Deadline::after(grace);
  const auto last = Deadline::after(grace + kKillTakes);
  std::set<pid_t> asked;
  for (;;) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const auto left = children_of_this();
    if (left.empty() || last.expired()) return;
    for (const auto pid : left) {
      if (kind.expired())
        (void)kill(pid, SIGKILL);
      else if (asked.insert(pid).second)
        (void)kill(pid, SIGTERM);
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

Status guard_launch() {
  (void)std::fflush(nullptr);  // else both would write what is buffered
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t passed;
  sigset_t before;
  sigemptyset(&passed);
  for (const int number : kPassedOn) sigaddset(&passed, number);
  (void)sigprocmask(SIG_BLOCK, &passed, &before);  // until there is somebody to pass them on to
  const auto self = getpid();
  const auto child = fork();
  if (child == 0) {
    die_with_parent(self, SIGTERM);
    (void)sigprocmask(SIG_SETMASK, &before, nullptr);
    return {};
  }
  if (child > 0) {
    guarded_child = child;
    pass_signals_on();
  }
  const int problem = errno;
  (void)sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) return fail_errno(problem, "cannot start a process");
  watch_over(child);
}

}  // namespace ferry::cli
