#include "bench/limits/link.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "bench/limits/tensor.h"

namespace limits {
namespace {

constexpr std::int64_t kPatienceNs = 60'000'000'000;
constexpr std::size_t kBlackboard = 64 * 1024;

std::span<std::byte> map(std::size_t bytes, int flags) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail_errno("cannot map " + std::to_string(bytes) + " bytes");
  return {static_cast<std::byte*>(at), bytes};
}

long futex(std::atomic<std::uint32_t>& word, int op, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, &word, op, value, timeout, nullptr, 0);
}

std::int64_t clock_ns(clockid_t clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return ts.tv_sec * 1'000'000'000LL + ts.tv_nsec;
}

// The first allowed core for the giver, the second for the taker; none where only one is allowed.
void pin(Side side) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  int skip = side == Side::kGiver ? 0 : 1;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || skip-- > 0) continue;
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(core, &mine);
    if (sched_setaffinity(0, sizeof mine, &mine) != 0) fail_errno("cannot pin to a core");
    return;
  }
}

}  // namespace

struct Link::Board {
  Flag giver_here;
  Flag taker_here;
  std::atomic<bool> taker_failed{false};
  std::array<char, 512> failure{};
  alignas(kPage) std::array<std::byte, kBlackboard> blackboard{};
};

void fail_errno(const std::string& what) {
  const int error = errno;
  throw Failure(what + ": " + std::strerror(error));
}

std::int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }
std::int64_t cpu_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

Link::Link(std::size_t shared_bytes) {
  board_ = new (map(sizeof(Board), MAP_SHARED).data()) Board;
  if (shared_bytes > 0) shared_ = map(shared_bytes, MAP_SHARED | MAP_NORESERVE);
}

Side Link::split() {
  giver_ = getpid();
  const pid_t child = fork();
  if (child < 0) fail_errno("cannot fork the second process of the pair");
  side_ = child == 0 ? Side::kTaker : Side::kGiver;
  taker_ = child == 0 ? getpid() : child;
  if (side_ == Side::kTaker) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != giver_) _exit(1);
  }
  pin(side_);
  return side_;
}

void Link::drop(std::span<std::byte> part) const {
  if (madvise(part.data(), part.size(), MADV_REMOVE) != 0) fail_errno("cannot drop shared pages");
}

std::span<std::byte> Link::blackboard() const { return board_->blackboard; }

void Link::meet() {
  ++met_;
  const bool giver = side_ == Side::kGiver;
  raise(giver ? board_->giver_here : board_->taker_here, met_, true);
  // The other side may be on its way to the next meeting already.
  await_until(giver ? board_->taker_here : board_->giver_here, true,
              [this](std::uint32_t seen) { return seen >= met_; });
}

void Link::rest() {
  ++met_;
  raise(board_->taker_here, met_, true);
  auto& giver = board_->giver_here;
  while (giver.value.load(std::memory_order_acquire) < met_) {
    giver.sleepers.store(1, std::memory_order_seq_cst);
    futex(giver.value, FUTEX_WAIT, met_ - 1, nullptr);
    giver.sleepers.store(0, std::memory_order_relaxed);
  }
}

void Link::raise(Flag& flag, std::uint32_t value, bool sleep) {
  flag.value.store(value, std::memory_order_release);
  if (!sleep) return;
  // The sleeper announces itself before it looks at the value; without the fence both could look
  // too early and the wake would be lost.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (flag.sleepers.load(std::memory_order_relaxed) != 0) futex(flag.value, FUTEX_WAKE, 1, nullptr);
}

void Link::sleep_while(Flag& flag, std::uint32_t seen, Patience& patience) {
  flag.sleepers.store(1, std::memory_order_seq_cst);
  const timespec slice{0, 100'000'000};
  const bool late = futex(flag.value, FUTEX_WAIT, seen, &slice) != 0 && errno == ETIMEDOUT;
  flag.sleepers.store(0, std::memory_order_relaxed);
  if (late) check(patience);
}

void Link::check(Patience& patience) {
  const auto now = now_ns();
  if (patience.since_ns == 0) patience.since_ns = now;
  if (side_ == Side::kGiver) {
    if (board_->taker_failed.load(std::memory_order_acquire)) throw Failure(board_->failure.data());
    taker_gone_ = taker_gone_ || waitpid(taker_, nullptr, WNOHANG) == taker_;
    if (taker_gone_) throw Failure("the receiving process died");
  }
  if (now - patience.since_ns > kPatienceNs)
    throw Failure("nothing came from the other side for 60 s");
}

void Link::leave_failure(const std::string& sentence) const {
  const auto count = std::min(sentence.size(), board_->failure.size() - 1);
  std::memcpy(board_->failure.data(), sentence.data(), count);
  board_->failure[count] = '\0';
  board_->taker_failed.store(true, std::memory_order_release);
}

void Link::end_taker() {
  if (std::exchange(taker_gone_, true)) return;
  kill(taker_, SIGKILL);
  waitpid(taker_, nullptr, 0);
}

Memory::Memory(std::size_t bytes) : bytes_(map(bytes, MAP_PRIVATE)) { fault_in(bytes_); }
Memory::Memory(Memory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}
Memory::~Memory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

void fault_in(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += kPage) bytes[i] = std::byte{0};
}

}  // namespace limits
