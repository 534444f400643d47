#include "ferry/cli/tune_here.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include "ferry/base/fd.h"
#include "ferry/cli/common/child.h"
#include "ferry/cli/common/launch_guard.h"
#include "ferry/cli/common/programs.h"
#include "ferry/cli/common/random_secret.h"
#include "ferry/ferry.h"
#include "ferry/mail/calibrate.h"
#include "ferry/mail/tuning_cache.h"

namespace ferry::cli {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kTunePatience = 60s;
constexpr Nanos kTuneAnswers = 120s;  // both ends have given up before

struct TuneHere {
  std::string provider = "shm";
  double seconds = 2;
};

// One end: what it has found is in the cache when it returns.
Status calibrate_and_keep(Device& device, Channel& channel, double seconds) {
  const mail::CalibrateOptions options{Nanos(static_cast<std::int64_t>(seconds * 1e9)),
                                       kTunePatience / 2};
  const auto found =
      FERRY_TRY(mail::calibrate(device, channel, options, Deadline::after(kTunePatience)));
  const mail::TuningCache cache(mail::TuningCache::default_folder());
  return cache.store(mail::TuningPath::of(channel), found);
}

// The other end, in a process of its own. It leaves when the first one closes its end of the pipe.
Status be_the_other_end(const fabric::Options& options, double seconds, int from_first) {
  std::string endpoint(256, '\0');
  const auto count = read(from_first, endpoint.data(), endpoint.size());
  if (count <= 0) return fail(Code::kAborted, "the first end has failed");
  endpoint.resize(static_cast<std::size_t>(count));
  auto device = FERRY_TRY(Device::open(options));
  auto channel = FERRY_TRY(device.connect(endpoint));
  FERRY_TRY(calibrate_and_keep(device, channel, seconds));
  char none = 0;
  while (read(from_first, &none, 1) > 0) {
  }
  return {};
}

Status be_the_first_end(const fabric::Options& options, double seconds, int to_other) {
  auto device = FERRY_TRY(Device::open(options));
  const auto endpoint = device.endpoint();
  if (write(to_other, endpoint.data(), endpoint.size()) != static_cast<ssize_t>(endpoint.size()))
    return fail_errno(errno, "cannot tell the other end where this one is");
  auto channel = FERRY_TRY(device.accept(Deadline::after(kTunePatience)));
  return calibrate_and_keep(device, channel, seconds);
}

// Forks while there is one thread.
Status tune_as_two(const TuneHere& setting) {
  fabric::Options options;
  options.provider = setting.provider;
  options.secret = FERRY_TRY(random_secret());
  int ends[2];
  if (pipe(ends) != 0) return fail_errno(errno, "cannot make a pipe");
  Fd from_first(ends[0]);
  Fd to_other(ends[1]);
  const auto self = getpid();
  const auto other = fork();
  if (other < 0) return fail_errno(errno, "cannot start a process");
  if (other == 0) {
    die_with_parent(self, SIGKILL);
    to_other.reset();
    _exit(be_the_other_end(options, setting.seconds, from_first.get()) ? 0 : 1);
  }
  from_first.reset();
  const auto done = be_the_first_end(options, setting.seconds, to_other.get());
  to_other.reset();
  if (!done) kill(other, SIGKILL);
  int status = 0;
  (void)waitpid(other, &status, 0);
  FERRY_TRY(done);
  if (status != 0) return fail(Code::kAborted, "the other end of the path has failed");
  return {};
}

int run_tune_here(const TuneHere& setting) {
  const auto done = tune_as_two(setting);
  if (done) {
    fmt::print("ok\n");
    return 0;
  }
  auto sentence = done.error().to_string();
  std::replace(sentence.begin(), sentence.end(), '\n', ' ');
  fmt::print("error {}\n", sentence);
  return 1;
}

}  // namespace

Status tune_here(const std::string& provider, double seconds) {
  const auto self = FERRY_TRY(running_program());
  auto child = FERRY_TRY(ChildProgram::start(
      self, {"tune-here", "--provider", provider, "--seconds", fmt::format("{}", seconds)}));
  const auto line = FERRY_TRY(child.read_line(Deadline::after(kTuneAnswers)));
  child.stop();
  if (line == "ok") return {};
  constexpr std::string_view kError = "error ";
  return fail(Code::kAborted, "{}", line.starts_with(kError) ? line.substr(kError.size()) : line);
}

void add_tune_here(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("tune-here", "The two processes of `tune`");
  command->group("");  // not in --help: `tune` starts it
  auto setting = std::make_shared<TuneHere>();
  command->add_option("--provider", setting->provider);
  command->add_option("--seconds", setting->seconds)->check(CLI::Range(0.01, 20.0));
  command->callback([setting, &exit_code] { exit_code = run_tune_here(*setting); });
}

}  // namespace ferry::cli
