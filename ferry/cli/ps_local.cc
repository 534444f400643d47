#include "ferry/cli/ps_local.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include "ferry/base/fd.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/launch_guard.h"
#include "ferry/cli/common/programs.h"
#include "ferry/cli/common/random_secret.h"
#include "ferry/ps/scheduler.h"
#include "ferry/train/measure.h"

extern char** environ;

namespace ferry::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Environment = std::map<std::string, std::string>;

constexpr seconds kGrace{3};  // to end after SIGTERM, and for servers once all workers have ended

// One process of the job. Killed when it goes.
class PsChild {
 public:
  static Result<PsChild> start(std::string name, const std::vector<std::string>& command,
                               const Environment& extra);
  PsChild(PsChild&& other) noexcept
      : name_(std::move(other.name_)),
        pid_(std::exchange(other.pid_, -1)),
        status_(other.status_),
        asked_(other.asked_) {}
  PsChild& operator=(PsChild&&) = delete;
  ~PsChild() { kill_now(); }

  const std::string& name() const { return name_; }
  bool runs() {
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      status_ = status;
    }
    return pid_ > 0;
  }
  void kill_now() {
    if (!runs()) return;
    (void)kill(pid_, SIGKILL);
    (void)waitpid(std::exchange(pid_, -1), &status_, 0);
  }
  bool failed() { return !runs() && status_ != 0; }
  void ask_to_end() {
    if (!runs()) return;
    asked_ = true;
    (void)kill(pid_, SIGTERM);
  }
  PsProcess report() {
    if (asked_ && ended_as_asked()) return {name_, "was ended", true};
    if (WIFSIGNALED(status_))
      return {name_, fmt::format("was killed by signal {}", WTERMSIG(status_)), false};
    if (status_ == 0) return {name_, "ended well", true};
    return {name_, fmt::format("exited with status {}", WEXITSTATUS(status_)), false};
  }

 private:
  PsChild(std::string name, pid_t pid) : name_(std::move(name)), pid_(pid) {}
  // Else it was about to end on its own, and may be why others have failed.
  bool ended_as_asked() const {
    if (WIFSIGNALED(status_)) return WTERMSIG(status_) == SIGTERM;
    return WEXITSTATUS(status_) == 0 || WEXITSTATUS(status_) == 128 + SIGTERM;
  }
  std::string name_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool asked_ = false;  // to end
};

// The program, or its end with the reason in the pipe. After fork() from a process with threads: no
// memory is allocated here.
[[noreturn]] void become_program(pid_t parent, char* const* argv, char* const* envp,
                                 int complaint) {
  die_with_parent(parent, SIGKILL);
  (void)execvpe(argv[0], argv, envp);
  const int problem = errno;
  (void)!write(complaint, &problem, sizeof(problem));
  _exit(127);
}

// Those of this process, but for what `extra` says.
std::vector<std::string> variables_with(const Environment& extra) {
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string variable = *each;
    if (!extra.contains(variable.substr(0, variable.find('=')))) variables.push_back(variable);
  }
  for (const auto& [key, value] : extra) variables.push_back(fmt::format("{}={}", key, value));
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

Result<PsChild> PsChild::start(std::string name, const std::vector<std::string>& command,
                               const Environment& extra) {
  auto words = command;
  auto variables = variables_with(extra);
  const auto argv = pointers_to(words);
  const auto envp = pointers_to(variables);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "cannot make a pipe for {}", name);
  const Fd complaints(ends[0]);
  Fd complaint(ends[1]);
  const auto self = getpid();
  const auto pid = fork();
  if (pid == 0) become_program(self, argv.data(), envp.data(), complaint.get());
  if (pid < 0) return fail_errno(errno, "cannot start {} for {}", command.front(), name);
  complaint.reset();
  PsChild child(std::move(name), pid);
  int problem = 0;
  ssize_t got = 0;  // bytes, if the program cannot run; else the pipe is closed
  do got = read(complaints.get(), &problem, sizeof(problem));
  while (got < 0 && errno == EINTR);
  if (got != sizeof(problem)) return child;
  return fail_errno(problem, "cannot start {} for {}", command.front(), child.name());
}

// One that was free a moment ago.
Result<std::uint16_t> free_port() {
  const Fd socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  if (!socket_fd || bind(socket_fd.get(), plain, size) != 0 ||
      getsockname(socket_fd.get(), plain, &size) != 0)
    return fail_errno(errno, "no port is free");
  return ntohs(address.sin_port);
}

// All processes, and the end of all when one has failed; unless it is a server that the job can do
// without: if not, workers fail.
class PsCrew {
 public:
  explicit PsCrew(bool replicas) : replicas_(replicas) {}
  Status add(std::string name, const std::vector<std::string>& command, const Environment& extra) {
    children_.push_back(FERRY_TRY(PsChild::start(std::move(name), command, extra)));
    return {};
  }
  // Workers say when it is over; helpers then have a while to end too.
  Status wait() {
    std::optional<Deadline> others;
    while (std::any_of(children_.begin(), children_.end(), [](auto& one) { return one.runs(); })) {
      if (InterruptGuard::interrupted()) {
        end();
        return fail(Code::kCancelled, "interrupted");
      }
      if (std::any_of(children_.begin(), children_.end(),
                      [this](auto& one) { return one.failed() && !spared(one); })) {
        end();
        return {};
      }
      const bool working = std::any_of(children_.begin(), children_.end(), [](auto& one) {
        return one.name().starts_with("worker") && one.runs();
      });
      if (!working && !others) others = Deadline::after(kGrace);
      if (others && others->expired()) {
        end();
        return {};
      }
      std::this_thread::sleep_for(milliseconds(5));
    }
    return {};
  }
  std::vector<PsProcess> report() {
    std::vector<PsProcess> all;
    for (auto& child : children_) {
      all.push_back(child.report());
      if (!all.back().well && spared(child)) {
        all.back().end += "; the job can go on without it";
        all.back().well = true;
      }
    }
    return all;
  }

 private:
  bool spared(const PsChild& child) const {
    return replicas_ && child.name().starts_with("server");
  }
  void end() {
    for (auto& child : children_) child.ask_to_end();
    const auto deadline = Deadline::after(kGrace);
    while (!deadline.expired() &&
           std::any_of(children_.begin(), children_.end(), [](auto& one) { return one.runs(); }))
      std::this_thread::sleep_for(milliseconds(5));
    for (auto& child : children_) child.kill_now();
    end_children(kGrace);  // what they had started
  }
  const bool replicas_;
  std::vector<PsChild> children_;
};

// What the user has said, in microseconds.
void add_spin(const PsLocal& local, Environment& all) {
  if (local.device.spin != fabric::Options().spin)
    all["FERRY_SPIN"] = fmt::format("{}", static_cast<double>(local.device.spin.count()) / 1000);
}

Status start_pslite(const PsLocal& local, const std::string& secret, PsCrew& crew) {
  Environment all = {{"DMLC_PS_ROOT_URI", "127.0.0.1"},
                     {"DMLC_PS_ROOT_PORT", fmt::format("{}", FERRY_TRY(free_port()))},
                     {"DMLC_NUM_SERVER", fmt::format("{}", local.job.servers)},
                     {"DMLC_NUM_WORKER", fmt::format("{}", local.job.workers)},
                     {"FERRY_PROVIDER", local.device.provider},
                     {"FERRY_SECRET", secret}};
  add_spin(local, all);
  all["DMLC_ROLE"] = "scheduler";
  FERRY_TRY(crew.add("scheduler", local.program, all));
  for (const auto& [role, count] : {std::pair(std::string("server"), local.job.servers),
                                    std::pair(std::string("worker"), local.job.workers)}) {
    all["DMLC_ROLE"] = role;
    for (std::uint32_t each = 0; each < count; ++each)
      FERRY_TRY(crew.add(fmt::format("{} {}", role, each), local.program, all));
  }
  return {};
}

Status start_native(const PsLocal& local, const std::string& secret, const std::string& scheduler,
                    PsCrew& crew) {
  Environment all = {{"FERRY_PS_SCHEDULER", scheduler},
                     {"FERRY_PROVIDER", local.device.provider},
                     {"FERRY_SECRET", secret}};
  add_spin(local, all);
  const auto self = FERRY_TRY(running_program());
  std::vector<std::string> server = {self,          "ps",
                                     "--role",      "server",
                                     "--scheduler", scheduler,
                                     "--shards",    fmt::format("{}", local.shards),
                                     "--provider",  local.device.provider,
                                     "--quiet"};
  if (const auto spin = all.find("FERRY_SPIN"); spin != all.end())
    server.insert(server.end(), {"--spin", spin->second});
  for (std::uint32_t each = 0; each < local.job.servers; ++each)
    FERRY_TRY(crew.add(fmt::format("server {}", each), server, all));
  for (std::uint32_t each = 0; each < local.job.workers; ++each) {
    auto own = all;
    own["FERRY_PS_RANK"] = fmt::format("{}", each);
    FERRY_TRY(crew.add(fmt::format("worker {}", each), local.program, own));
  }
  return {};
}

}  // namespace

bool PsOutcome::well() const {
  return std::all_of(processes.begin(), processes.end(), [](const auto& one) { return one.well; });
}

Result<PsOutcome> run_ps_local(const PsLocal& local) {
  PsOutcome outcome{.spin = {local.device.spin, mail::SpinSource::kUser}};
  if (local.device.spin == fabric::Options().spin)
    outcome.spin = train::measure_own_host(local.device.provider,
                                           [] { return InterruptGuard::interrupted(); });
  const auto secret = FERRY_TRY(random_secret());
  const auto began = now_ns();
  std::optional<ps::Scheduler> scheduler;
  PsCrew crew(!local.pslite && local.job.replicas > 1);
  if (local.pslite) {
    FERRY_TRY(start_pslite(local, secret, crew));
  } else {
    auto device = local.device;
    device.secret = secret;
    scheduler.emplace(FERRY_TRY(ps::Scheduler::open(
        {.job = local.job, .device = device, .restore = local.restore, .lease = local.lease})));
    FERRY_TRY(start_native(local, secret, scheduler->endpoint(), crew));
  }
  FERRY_TRY(crew.wait());
  outcome.processes = crew.report();
  outcome.seconds = static_cast<double>(now_ns() - began) / 1e9;
  return outcome;
}

}  // namespace ferry::cli
