// System calls per transfer. The process that starts the pair traces the two threads that transfer,
// and nothing else of them: pollers that sleep and wake are no part of a transfer.

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "bench/rounds/fact.h"
#include "bench/rounds/need.h"
#include "ferry/cli/common/random_secret.h"
#include "ferry/ferry.h"

namespace ferry::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::size_t, 3> kSizes = {64, 64 << 10, 1 << 20};
constexpr std::size_t kLargest = 1 << 20;
constexpr int kRounds = 300;
// A round is a write and its answer.
constexpr int kTransfersPerRound = 2;
constexpr auto kPatienceForCalls = 30s;

// A call that does nothing, to tell the tracer where the transfers begin and end.
constexpr unsigned long kMark = 0x6665'7272;
void mark() { syscall(SYS_prctl, kMark, 0, 0, 0, 0); }

// One end of the pair: its device, and the other's memory.
struct End {
  explicit End(Device opened) : device(std::move(opened)) {}
  Device device;
  Region flag;
  Region tensor;
  Channel channel;
  RemoteRegion peer_flag;
  RemoteRegion landing;
  std::uint64_t round = 0;
};

End join(Team& team, int me, const fabric::Options& options) {
  End end(need(Device::open(options)));
  end.flag = need(end.device.allocate(64));
  std::memset(end.flag.data(), 0, end.flag.size());
  end.tensor = need(end.device.allocate(kLargest));
  need(end.device.publish("flag", need(end.device.grant(end.flag, Rights::kReadWrite))));
  need(end.device.publish("tensor", need(end.device.grant(end.tensor, Rights::kReadWrite))));
  team.set_endpoint(me, end.device.endpoint());
  team.meet();
  end.channel = me == 0 ? need(end.device.connect(team.endpoint(1)))
                        : need(end.device.accept(Deadline::after(kPatienceForCalls)));
  end.peer_flag = need(end.channel.look_up("flag", Deadline::after(kPatienceForCalls)));
  end.landing = need(end.channel.look_up("tensor", Deadline::after(kPatienceForCalls)));
  team.meet();
  return end;
}

void await_round(End& end) {
  need(end.channel.wait_flag(end.flag.data(), end.round, Deadline::after(kPatienceForCalls),
                             WaitMode::kSpin));
}

void give(End& end) {
  const auto bytes = end.tensor.bytes().first(kSizes[end.round % kSizes.size()]);
  auto sent = end.channel.write_flagged(bytes, end.landing, end.peer_flag, ++end.round, {}, false);
  await_round(end);
  need(sent.wait(WaitMode::kSpin));
}

void take(End& end) {
  ++end.round;
  await_round(end);
  auto sent = end.channel.write_flagged({}, end.peer_flag, end.peer_flag, end.round, {}, false);
  need(sent.wait(WaitMode::kSpin));
}

void play(End& end, int me, int rounds) {
  for (int i = 0; i < rounds; ++i) (me == 0 ? give : take)(end);
}

void take_part(Team& team, int me, const fabric::Options& options) {
  auto end = join(team, me, options);
  play(end, me, kRounds);
  team.meet();
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0)
    limits::fail_errno("system calls cannot be counted: ptrace is refused");
  raise(SIGSTOP);
  play(end, me, 1);  // now both are under way again
  mark();
  play(end, me, kRounds);
  mark();
  team.meet();
}

struct Counted {
  int marks = 0;
  std::int64_t calls = 0;  // between the marks: nothing but transfers
};

// Counts a stop at the entry of a system call. True at the last mark.
bool count_stop(pid_t pid, Counted& counted) {
  __ptrace_syscall_info info{};
  if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) <= 0)
    limits::fail_errno("system calls cannot be counted: PTRACE_GET_SYSCALL_INFO is refused");
  if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return false;
  if (info.entry.nr == SYS_prctl && info.entry.args[0] == kMark) return ++counted.marks == 2;
  counted.calls += counted.marks;
  return false;
}

// Until both have passed their last mark. Their own deadlines bound it.
std::int64_t trace(Team& team) {
  std::map<pid_t, Counted> counted;
  for (int traced = team.members(); traced > 0;) {
    int status = 0;
    const auto pid = waitpid(-1, &status, __WALL);
    if (pid < 0) limits::fail_errno("cannot wait for the traced processes");
    if (!WIFSTOPPED(status)) {
      team.ended(pid, status);
      throw limits::Failure("a traced process ended too early");
    }
    int forward = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      if (count_stop(pid, counted[pid])) {
        --traced;
        ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
        continue;
      }
    } else if (counted.emplace(pid, Counted{}).second) {
      ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    } else {
      forward = WSTOPSIG(status);
    }
    ptrace(PTRACE_SYSCALL, pid, nullptr, forward);
  }
  std::int64_t calls = 0;
  for (const auto& [pid, one] : counted) calls += one.calls;
  return calls;
}

}  // namespace

double measure_syscalls(const FactSetting& setting) {
  fabric::Options options;
  options.provider = setting.provider;
  options.secret = need(cli::random_secret());
  options.arena_bytes = std::size_t{8} << 20;
  Team team(2);
  team.start([&](Team& all, int me) { take_part(all, me, options); });
  const auto calls = trace(team);
  team.finish();
  return static_cast<double>(calls) / (kRounds * kTransfersPerRound);
}

}  // namespace ferry::bench
