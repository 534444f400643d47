#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "ferry/train/child_internal.h"

namespace ferry::train {
namespace {

Result<std::pair<Fd, Fd>> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "cannot make a pipe");
  return std::pair(Fd(ends[0]), Fd(ends[1]));
}

// In the child.
[[noreturn]] void become(pid_t parent, const std::function<int(Lines&)>& body, Lines lines) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it was quicker
  (void)signal(SIGINT, SIG_IGN);      // whoever started it ends it
  (void)signal(SIGPIPE, SIG_IGN);
  _exit(body(lines));
}

}  // namespace

Status Lines::say(const std::string& line) {
  auto text = line + "\n";
  for (std::string_view left = text; !left.empty();) {
    const auto written = write(out_.get(), left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail_errno(errno, "cannot speak to the process at the other end");
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

// False: nothing there.
Result<bool> Lines::read_some() {
  pollfd look{.fd = in_.get(), .events = POLLIN, .revents = 0};
  if (poll(&look, 1, 0) <= 0) return false;
  std::array<char, 4096> some;
  const auto got = read(in_.get(), some.data(), some.size());
  if (got < 0 && errno == EINTR) return false;
  if (got <= 0) return fail(Code::kUnavailable, "the process at the other end has ended");
  text_.append(some.data(), static_cast<std::size_t>(got));
  return true;
}

Result<std::optional<std::string>> Lines::hear_now() {
  for (;;) {
    if (const auto end = text_.find('\n'); end != std::string::npos) {
      auto line = text_.substr(0, end);
      text_.erase(0, end + 1);
      return std::optional(std::move(line));
    }
    if (!FERRY_TRY(read_some())) return std::optional<std::string>();
  }
}

Result<std::string> Lines::hear(Deadline deadline) {
  for (;;) {
    if (auto line = FERRY_TRY(hear_now())) return *std::move(line);
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded, "the process at the other end says nothing");
    pollfd look{.fd = in_.get(), .events = POLLIN, .revents = 0};
    (void)poll(&look, 1, deadline.left_ms());
  }
}

Result<Child> Child::start(const std::function<int(Lines&)>& body) {
  auto [to_parent_in, to_parent_out] = FERRY_TRY(make_pipe());
  auto [to_child_in, to_child_out] = FERRY_TRY(make_pipe());
  const auto parent = getpid();
  const auto pid = fork();
  if (pid < 0) return fail_errno(errno, "cannot start a process");
  if (pid == 0) {
    to_parent_in.reset();
    to_child_out.reset();
    become(parent, body, Lines(std::move(to_child_in), std::move(to_parent_out)));
  }
  return Child(pid, Lines(std::move(to_parent_in), std::move(to_child_out)));
}

Child::~Child() {
  if (pid_ <= 0) return;
  (void)kill(pid_, SIGKILL);
  (void)waitpid(pid_, nullptr, 0);
}

std::string Child::wait() {
  int status = 0;
  (void)waitpid(std::exchange(pid_, -1), &status, 0);
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace ferry::train
