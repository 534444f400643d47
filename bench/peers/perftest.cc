// Peer: the verbs programs of the perftest package, played as rounds on one host. A bandwidth
// tool's round is one message of its stream; the latency tool's round is there and back. They check
// no bytes, and their CPU time includes their start.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "bench/limits/args.h"
#include "bench/limits/link.h"

namespace limits {
namespace {

constexpr std::int64_t kPatienceNs = 60'000'000'000;
constexpr std::uint64_t kLeastRounds = 5;
constexpr int kTries = 8;

void pin_to(int core) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  CPU_SET(core, &mine);
  // On a host with one core both share it.
  sched_setaffinity(0, sizeof mine, &mine);
}

// A running tool and what it prints. Killed when it goes out of scope.
class Tool {
 public:
  Tool(const std::vector<std::string>& words, int core) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno("cannot make a pipe");
    std::vector<char*> argv;
    for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ < 0) fail_errno("cannot start " + words.front());
    if (pid_ == 0) {
      pin_to(core);
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    ::close(ends[1]);
    out_ = ends[0];
  }
  Tool(const Tool&) = delete;
  Tool& operator=(const Tool&) = delete;
  ~Tool() {
    if (!ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    ::close(out_);
  }

  // All it prints until it ends.
  std::string finish(std::int64_t deadline_ns) {
    std::string text;
    std::array<char, 4096> part{};
    for (;;) {
      pollfd wanted{out_, POLLIN, 0};
      if (now_ns() > deadline_ns) throw Failure("perftest did not end within 60 s");
      if (poll(&wanted, 1, 100) <= 0) continue;
      const auto count = read(out_, part.data(), part.size());
      if (count <= 0) break;
      text.append(part.data(), static_cast<std::size_t>(count));
    }
    rusage used{};
    wait4(pid_, &status_, 0, &used);
    ended_ = true;
    cpu_ns_ = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1'000'000'000LL +
              (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000LL;
    return text;
  }
  bool ok() const { return ended_ && WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }
  std::int64_t cpu_ns() const { return cpu_ns_; }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  bool ended_ = false;
  int status_ = 0;
  std::int64_t cpu_ns_ = 0;
};

#if defined(__x86_64__)
constexpr bool kCounts = true;
std::uint64_t cycles() { return __builtin_ia32_rdtsc(); }
#else
constexpr bool kCounts = false;
std::uint64_t cycles() { return 0; }
#endif

// Nanoseconds of one count of the processor's clock, over the time since it was made.
class CycleClock {
 public:
  double ns_per_cycle() const {
    return static_cast<double>(now_ns() - since_ns_) / static_cast<double>(cycles() - since_);
  }

 private:
  std::int64_t since_ns_ = now_ns();
  std::uint64_t since_ = cycles();
};

// The numbers of the line that begins with the size, as perftest prints its results.
std::optional<std::vector<double>> result_row(const std::string& text, std::uint64_t bytes) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<double> row;
    for (double value = 0; words >> value;) row.push_back(value);
    if (row.size() >= 5 && row[0] == static_cast<double>(bytes)) return row;
  }
  return std::nullopt;
}

class Perftest {
 public:
  explicit Perftest(std::string tool) : tool_(std::move(tool)) {}

  // It measures the clock's rate at each start and prints zeros where it does not trust what it
  // found, as happens on emulated processors.
  std::string run(std::uint64_t bytes, std::uint64_t wanted) {
    for (int tries = 1;; ++tries) {
      try {
        return run_once(bytes, wanted);
      } catch (const NoFigure&) {
        if (tries == kTries) throw;
      }
    }
  }

 private:
  struct NoFigure : Failure {
    using Failure::Failure;
  };

  std::string run_once(std::uint64_t bytes, std::uint64_t wanted) {
    const auto rounds = std::max(wanted, kLeastRounds);
    const auto deadline = now_ns() + kPatienceNs;
    // A port of its own for each run: the last one's may linger.
    port_ = port_ < 28'000 ? port_ + 1 : 18'600;
    Tool server(words(bytes, rounds), 1);
    for (;;) {
      auto all = words(bytes, rounds);
      all.push_back("127.0.0.1");
      Tool client(all, 0);
      const auto text = client.finish(deadline);
      if (client.ok()) {
        server.finish(deadline);
        return line(text, bytes, wanted, client.cpu_ns() + server.cpu_ns());
      }
      // Not listening yet, or not able to: its words tell, once it cannot be the former.
      if (now_ns() > deadline - kPatienceNs + 5'000'000'000) throw Failure(last_line(text));
      usleep(100'000);
    }
  }

  std::vector<std::string> words(std::uint64_t bytes, std::uint64_t rounds) const {
    std::vector<std::string> all = {tool_, "-F",
                                    "-s",  std::to_string(bytes),
                                    "-n",  std::to_string(rounds),
                                    "-p",  std::to_string(port_)};
    if (!latency()) all.push_back("--report_gbits");
    // It guesses the clock's rate, and prints `inf` where it cannot, as on emulated processors.
    if (counts()) all.push_back("--report-cycles");
    return all;
  }
  bool latency() const { return tool_ == "ib_write_lat"; }
  bool counts() const { return latency() && kCounts; }

  // size, iterations, then: peak, average Gb/s, rate; or: min, max, typical, average us or cycles.
  // Of the latter the typical one: a stall of the guest moves the average by orders of magnitude.
  std::string line(const std::string& text, std::uint64_t bytes, std::uint64_t rounds,
                   std::int64_t cpu) const {
    const auto row = result_row(text, bytes);
    if (!row) throw Failure("cannot read what " + tool_ + " printed: " + last_line(text));
    const double value = latency() ? (*row)[4] : (*row)[3];
    if (!(value > 0)) throw NoFigure(tool_ + " printed no figure: " + last_line(text));
    const double unit_ns = counts() ? clock_.ns_per_cycle() : 1000;
    const double one_ns = latency() ? 2 * value * unit_ns : static_cast<double>(bytes) * 8 / value;
    return "ok ns=" + std::to_string(std::llround(one_ns * static_cast<double>(rounds))) +
           " cpu_ns=" + std::to_string(cpu) + " checked=0 bad=0";
  }

  static std::string last_line(const std::string& text) {
    std::istringstream lines(text);
    std::string last = "nothing was printed; is perftest installed?";
    for (std::string line; std::getline(lines, line);) {
      if (line.find_first_not_of(" -\t") != std::string::npos) last = line;
    }
    return last;
  }

  std::string tool_;
  CycleClock clock_;
  int port_ = 18'600;
};

std::uint64_t number_after(const std::string& line, const std::string& key) {
  const auto at = line.find(" " + key + "=");
  if (at == std::string::npos) throw Failure("run needs " + key + "=<a number>");
  std::istringstream text(line.substr(at + key.size() + 2));
  std::uint64_t value = 0;
  if (!(text >> value) || value == 0) throw Failure("run needs " + key + "=<a number>");
  return value;
}

void serve_perftest(const std::string& tool) {
  Perftest perftest(tool);
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    try {
      if (line == "hello") {
        std::cout << "ok name=" << tool << " what=" << tool << " of perftest sizes=2-1073741824"
                  << std::endl;
      } else if (line.rfind("run ", 0) == 0) {
        const auto answer = perftest.run(number_after(line, "bytes"), number_after(line, "rounds"));
        std::cout << answer << std::endl;
      } else {
        std::cout << "error unknown command" << std::endl;
      }
    } catch (const std::exception& failure) {
      std::cout << "error " << failure.what() << std::endl;
    }
  }
}

}  // namespace
}  // namespace limits

int main(int argc, char** argv) {
  limits::serve_perftest(
      limits::option(argc, argv, "--tool", {"ib_write_bw", "ib_read_bw", "ib_write_lat"}));
}
