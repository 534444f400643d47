#include "tests/steady/cost.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>

#include "tests/steady/ledger_internal.h"

namespace ferry::steady {
namespace {

constexpr int kWarmUp = 100;
constexpr long kBegin = -0x57EAD1;  // arguments of getpgid() that mark the window for the tracer
constexpr long kEnd = -0x57EAD2;

[[noreturn]] void play(const std::function<void(const Repeat&)>& scenario, Ledger& ledger) {
  auto repeat = [&ledger](const std::function<void()>& round) {
    for (int i = 0; i < kWarmUp; ++i) round();
    syscall(SYS_getpgid, kBegin);
    ledger.open.store(true);
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kRounds; ++i) round();
    ledger.took_ns.store((std::chrono::steady_clock::now() - began).count());
    ledger.open.store(false);
    syscall(SYS_getpgid, kEnd);
    ledger.done.store(true);
  };
  try {
    set_ledger(&ledger);
    scenario(repeat);
  } catch (const std::exception& problem) {
    std::strncpy(ledger.problem, problem.what(), sizeof ledger.problem - 1);
  }
  _exit(0);
}

// Does the descriptor of the process lead to a socket, an eventfd, ...?
bool leads_to(pid_t pid, std::uint64_t fd, const char* what) {
  char target[64] = {};
  const auto path = fmt::format("/proc/{}/fd/{}", pid, fd);
  return readlink(path.c_str(), target, sizeof target - 1) > 0 &&
         std::strstr(target, what) != nullptr;
}

void count_call(pid_t pid, const __ptrace_syscall_info& call, Cost& cost) {
  switch (call.entry.nr) {
    case SYS_futex:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_sched_yield:
    case SYS_poll:
    case SYS_ppoll:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
      ++cost.sleeps;
      return;
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_recvfrom:
    case SYS_recvmsg:
      ++cost.sockets;
      return;
    case SYS_read:
    case SYS_write:
    case SYS_readv:
    case SYS_writev:
      if (leads_to(pid, call.entry.args[0], "socket")) {
        ++cost.sockets;
        return;
      }
      if (leads_to(pid, call.entry.args[0], "event")) {  // eventfd, eventpoll
        ++cost.sleeps;
        return;
      }
      break;
    case SYS_restart_syscall:
      return;
    default:
      break;
  }
  ++cost.others[fmt::format("system call {}", call.entry.nr)];
}

// Follows every thread of the process until it ends.
void trace(pid_t child, Cost& cost) {
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return;
  ptrace(PTRACE_SETOPTIONS, child, 0,
         PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
  ptrace(PTRACE_SYSCALL, child, 0, 0);
  bool window = false;
  for (;;) {
    const pid_t pid = waitpid(-1, &status, __WALL);
    if (pid < 0 || (pid == child && (WIFEXITED(status) || WIFSIGNALED(status)))) return;
    if (!WIFSTOPPED(status)) continue;
    int signal = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      __ptrace_syscall_info call{};
      ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof call, &call);
      if (call.op == PTRACE_SYSCALL_INFO_ENTRY) {
        const auto first = static_cast<long>(call.entry.args[0]);
        const bool mark = call.entry.nr == SYS_getpgid && (first == kBegin || first == kEnd);
        if (mark) window = first == kBegin;
        if (window && !mark) count_call(pid, call, cost);
      }
    } else if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP) {
      signal = WSTOPSIG(status);
    }
    ptrace(PTRACE_SYSCALL, pid, 0, signal);
  }
}

}  // namespace

std::uint64_t Cost::all_others() const {
  std::uint64_t sum = 0;
  for (const auto& [name, count] : others) sum += count;
  return sum;
}

std::string Cost::to_string() const {
  auto text = fmt::format(
      "{} rounds: {} allocations, {} locks that blocked, {} sleeps and wakes, {} calls of sockets",
      kRounds, allocations, blocked, sleeps, sockets);
  for (const auto& [name, count] : others) text += fmt::format(", {} of {}", count, name);
  return text;
}

Cost cost_of(const std::function<void(const Repeat&)>& scenario) {
  auto* memory =
      mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& ledger = *new (memory) Ledger;
  Cost cost;
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) {
      std::strncpy(ledger.problem, kUntraced, sizeof ledger.problem - 1);
      _exit(0);
    }
    raise(SIGSTOP);
    play(scenario, ledger);
  }
  trace(child, cost);
  cost.allocations = ledger.allocations;
  cost.blocked = ledger.blocked;
  cost.seconds = static_cast<double>(ledger.took_ns) / 1e9;
  cost.problem = ledger.problem;
  if (!ledger.done && cost.problem.empty()) cost.problem = "the process ended early";
  munmap(memory, sizeof(Ledger));
  return cost;
}

}  // namespace ferry::steady
