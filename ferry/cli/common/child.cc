#include "ferry/cli/common/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

#include "ferry/cli/common/interrupt_guard.h"

extern char** environ;

namespace ferry::cli {
namespace {

constexpr std::size_t kLongestLine = 4096;

// What InterruptGuard changes is as usual in a child.
constexpr std::array<int, 5> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

Result<std::array<Fd, 2>> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "cannot make a pipe to a program");
  return std::array<Fd, 2>{Fd(ends[0]), Fd(ends[1])};
}

// The settings, then those of this process's that they do not replace.
std::vector<char*> environment_with(const std::vector<std::string>& settings) {
  std::vector<char*> all;
  all.reserve(settings.size());
  for (const auto& setting : settings) all.push_back(const_cast<char*>(setting.c_str()));
  for (char** own = environ; *own != nullptr; ++own) {
    const std::string_view name(*own, std::string_view(*own).find('=') + 1);
    const bool replaced =
        std::any_of(settings.begin(), settings.end(),
                    [&](const std::string& setting) { return setting.starts_with(name); });
    if (!replaced) all.push_back(*own);
  }
  all.push_back(nullptr);
  return all;
}

Result<pid_t> spawn(const std::string& path, const std::vector<std::string>& args, int in, int out,
                    Complaints complaints, const std::vector<std::string>& settings) {
  std::vector<std::string> words = {path};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  if (complaints == Complaints::kWithTheRest)
    posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (int signal : kSignals) sigaddset(&defaults, signal);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, path.c_str(), &actions, &attributes, argv.data(),
                                environment_with(settings).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return fail_errno(error, "cannot start {}", path);
  return pid;
}

}  // namespace

Result<ChildProgram> ChildProgram::start(const std::string& path,
                                         const std::vector<std::string>& args,
                                         Complaints complaints,
                                         const std::vector<std::string>& settings) {
  auto to_child = FERRY_TRY(make_pipe());
  auto from_child = FERRY_TRY(make_pipe());
  const pid_t pid =
      FERRY_TRY(spawn(path, args, to_child[0].get(), from_child[1].get(), complaints, settings));
  return ChildProgram(pid, std::move(to_child[1]), std::move(from_child[0]));
}

ChildProgram::ChildProgram(ChildProgram&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      unread_(std::move(other.unread_)) {}

ChildProgram& ChildProgram::operator=(ChildProgram&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  std::swap(unread_, other.unread_);
  return *this;
}

ChildProgram::~ChildProgram() { kill_now(); }

Result<std::string> ChildProgram::ask(const std::string& line, Deadline deadline) {
  const auto text = line + "\n";
  // Lines are far shorter than a pipe's buffer, and the last answer has been read: this cannot
  // block.
  if (write(in_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return fail_errno(errno, "the program is gone; sending it '{}' failed", line);
  return read_line(deadline);
}

Result<std::string> ChildProgram::read_line(Deadline deadline) {
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      auto line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > kLongestLine)
      return fail(Code::kInternal, "the program's answer has no end");
    const auto part = FERRY_TRY(read_some(deadline));
    if (part.empty()) return fail(Code::kAborted, "the program died");
    unread_ += part;
  }
}

Result<std::string> ChildProgram::read_some(Deadline deadline) {
  for (;;) {
    if (InterruptGuard::interrupted()) return fail(Code::kCancelled, "interrupted");
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded, "the program did not answer in time");
    pollfd wanted{out_.get(), POLLIN, 0};
    if (poll(&wanted, 1, std::min(deadline.left_ms(), 200)) <= 0) continue;
    std::array<char, 4096> part{};
    const auto count = read(out_.get(), part.data(), part.size());
    if (count >= 0) return std::string(part.data(), static_cast<std::size_t>(count));
  }
}

int ChildProgram::wait(Nanos patience) {
  if (pid_ < 0) return 0;
  const auto status = reap(patience);
  if (!status) {
    kill_now();
    return 128 + SIGKILL;
  }
  return WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
}

void ChildProgram::end(Nanos grace) {
  if (pid_ < 0) return;
  kill(-pid_, SIGTERM);
  const auto deadline = Deadline::after(grace);
  siginfo_t seen{};
  // It is not reaped yet, so that its process group keeps its number until all of it is killed.
  while (!deadline.expired() && seen.si_pid == 0) {
    if (waitid(P_PID, static_cast<id_t>(pid_), &seen, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    if (seen.si_pid == 0) usleep(1000);
  }
  kill_now();
}

void ChildProgram::stop() {
  if (pid_ < 0) return;
  constexpr std::string_view kQuit = "quit\n";
  if (write(in_.get(), kQuit.data(), kQuit.size()) < 0) in_.reset();
  in_.reset();
  if (!reap(std::chrono::seconds(1))) kill_now();
}

std::optional<int> ChildProgram::reap(Nanos span) {
  const auto deadline = Deadline::after(span);
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (deadline.expired()) return std::nullopt;
    usleep(1000);
  }
  pid_ = -1;
  return status;
}

void ChildProgram::kill_now() {
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  // What the child had started is ours now, see InterruptGuard.
  while (waitpid(-pid_, nullptr, 0) > 0) {
  }
  pid_ = -1;
}

}  // namespace ferry::cli
