#include "tests/ps/kit.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

extern char** environ;

namespace ferry::ps::testing {

std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (auto& value : values)
    value = static_cast<float>(static_cast<std::int64_t>(random() % 20001) - 10000) / 7919.0F;
  return values;
}

bool until(const std::function<bool()>& so) {
  const auto limit = Deadline::after(60s * kSlower);
  while (!so() && !limit.expired()) std::this_thread::sleep_for(1ms);
  return so();
}

Status push_steps(Worker& worker, Parameter parameter, const std::vector<float>& gradient,
                  int steps) {
  for (int step = 0; step < steps; ++step) {
    FERRY_TRY(worker.push(parameter, raw(gradient), soon()));
    FERRY_TRY(worker.end_step(soon()));
    FERRY_TRY(worker.flush(soon()));
  }
  return {};
}

fabric::Options device_options(const std::string& provider) {
  fabric::Options options;
  options.provider = provider;
  options.secret = "the secret of these tests";
  options.arena_bytes = std::size_t{16} << 20;
  options.patience = kSlower;
  return options;
}

Job::Job(std::string provider, JobOptions options, std::uint32_t shards,
         const std::function<void(ServerOptions&)>& with, Nanos give_up)
    : provider_(std::move(provider)), options_(options) {
  auto device = device_options(provider_);
  device.give_up = give_up;
  scheduler_.emplace(must(Scheduler::open({options_, device})));
  for (std::uint32_t each = 0; each < options_.servers; ++each) {
    ServerOptions server{.scheduler = scheduler_->endpoint(), .device = device, .shards = shards};
    if (with) with(server);
    servers_.emplace_back(must(Server::open(std::move(server), soon())));
  }
}

Job::~Job() {
  servers_.clear();
  scheduler_.reset();
}

WorkerOptions Job::worker_options() const {
  return {.scheduler = scheduler_->endpoint(), .device = device_options(provider_)};
}

Worker Job::worker(std::optional<std::uint32_t> rank, NotFinite not_finite) const {
  auto options = worker_options();
  options.rank = rank;
  options.not_finite = not_finite;
  return must(Worker::open(options, soon()));
}

void Job::run(const std::function<void(Worker&)>& body) const {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < options_.workers; ++rank)
    threads.emplace_back([&, rank] {
      try {
        auto one = worker(rank);
        body(one);
        must(one.leave(soon()));
      } catch (const std::exception& problem) {
        ADD_FAILURE() << "worker " << rank << ": " << problem.what();
      }
    });
  for (auto& thread : threads) thread.join();
}

Process Process::start(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"/proc/self/exe"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& argument : all) argv.push_back(argument.data());
  argv.push_back(nullptr);
  Process process;
  const int error =
      posix_spawn(&process.pid_, "/proc/self/exe", nullptr, nullptr, argv.data(), environ);
  if (error != 0) throw std::runtime_error("cannot start a process: " + text_of_errno(error));
  return process;
}

Process::~Process() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const { ::kill(pid_, number); }

void Process::wait_for_stop() const {
  for (const auto deadline = soon(); !deadline.expired(); std::this_thread::sleep_for(1ms)) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid_));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (const auto end = text.rfind(')'); text.substr(end + 1, 2) == " T") return;
  }
  throw std::runtime_error("a process does not stop");
}

Folder::Folder() {
  char name[] = "/tmp/ferry-ps-XXXXXX";
  if (::mkdtemp(name) == nullptr) throw std::runtime_error("no folder: " + text_of_errno(errno));
  path_ = name;
}
Folder::~Folder() { std::filesystem::remove_all(path_); }

int Process::wait(Deadline deadline) {
  for (;;) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    if (deadline.expired()) return -1;
    std::this_thread::sleep_for(2ms);
  }
}

}  // namespace ferry::ps::testing
