#include "ferry/cli/tune.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/seconds.h"
#include "ferry/cli/common/text.h"
#include "ferry/cli/tune_here.h"
#include "ferry/cli/tune_peer.h"
#include "ferry/cli/tune_show.h"

namespace ferry::cli {
namespace {

using mail::TuningCache;
using mail::TuningEntry;
using mail::TuningPath;
using Entries = std::vector<TuningEntry>;

struct TuneFlags {
  std::string providers;
  double seconds = 2;
  std::string peer;
  std::string listen;
  std::string secret_file;
  bool show = false;
  bool forget = false;
  bool json = false;
};

constexpr double kWaitSeconds = 60;  // of --listen, for a peer
const std::vector<std::string> kTunable = {"shm", "tcp", "verbs"};

Result<TuningCache> user_cache() {
  TuningCache cache(TuningCache::default_folder());
  if (!cache.folder().empty()) return cache;
  return fail(Code::kFailedPrecondition,
              "there is no folder to keep tunings in: FERRY_TUNING is off, or neither it nor "
              "XDG_CACHE_HOME nor HOME names one");
}

int print_entries(const Entries& entries, const TuneFlags& flags, const TuningCache& cache) {
  if (flags.json) {
    std::cout << to_json(entries).dump(2) << std::endl;
    return 0;
  }
  bool first = true;
  for (const auto& entry : entries) {
    fmt::print("{}{}", first ? "" : "\n", to_text(entry));
    first = false;
  }
  fmt::print("{}kept in {}\n", first ? "nothing is " : "\n", cache.folder());
  return 0;
}

bool is_named(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

int show(const TuneFlags& flags, const TuningCache& cache) {
  const auto names = split_list(flags.providers);
  auto entries = cache.list();
  std::erase_if(entries, [&](const auto& one) { return !is_named(names, one.path.provider); });
  return print_entries(entries, flags, cache);
}

Result<int> forget(const TuneFlags& flags, const TuningCache& cache) {
  int removed = 0;
  const auto names = split_list(flags.providers);
  if (names.empty()) removed = FERRY_TRY(cache.forget());
  for (const auto& name : names) removed += FERRY_TRY(cache.forget(name));
  fmt::print("{} tuning(s) removed from {}\n", removed, cache.folder());
  return 0;
}

Result<int> tune_this_host(const TuneFlags& flags, const TuningCache& cache) {
  const auto lock = FERRY_TRY(cache.try_lock());
  InterruptGuard guard;
  Entries entries;
  std::string failures;
  const auto names = split_list(flags.providers);
  for (const auto& name : kTunable) {
    if (!is_named(names, name)) continue;
    fmt::print(stderr, "[measuring the path by {}]\n", name);
    const auto measured = tune_here(name, flags.seconds);
    if (InterruptGuard::interrupted()) return InterruptGuard::exit_code();
    const auto host = fabric::host_id();
    auto entry = cache.load(TuningPath::between(host, host, name));
    if (measured && entry) {
      entries.push_back(*std::move(entry));
    } else {
      failures +=
          fmt::format("\n  {}: {}", name,
                      measured ? "what was kept cannot be read" : measured.error().message());
    }
  }
  // A provider that was named must work; of all there are, those that do are enough.
  if (entries.empty() || (!flags.providers.empty() && !failures.empty()))
    return fail(Code::kUnavailable, "not measured:{}", failures);
  if (!failures.empty()) fmt::print(stderr, "left out:{}\n", failures);
  return print_entries(entries, flags, cache);
}

Result<int> tune_to_peer(const TuneFlags& flags, const TuningCache& cache) {
  TunePeer options;
  options.peer = FERRY_TRY(peer_options(flags.secret_file, kWaitSeconds));
  if (!flags.providers.empty()) options.provider = flags.providers;
  options.seconds = flags.seconds;
  const auto entry = flags.peer.empty() ? tune_as_peer(flags.listen, options, cache)
                                        : tune_with_peer(flags.peer, options, cache);
  return print_entries({FERRY_TRY(Result<TuningEntry>(entry))}, flags, cache);
}

Status check_names(const TuneFlags& flags) {
  for (const auto& name : split_list(flags.providers))
    if (!is_named(kTunable, name))
      return fail(Code::kInvalidArgument, "--provider does not know '{}'; it takes {}", name,
                  fmt::join(kTunable, ", "));
  return {};
}

Result<int> run_tune(const TuneFlags& flags) {
  FERRY_TRY(check_names(flags));
  const auto cache = FERRY_TRY(user_cache());
  if (flags.show) return show(flags, cache);
  if (flags.forget) return forget(flags, cache);
  if (!flags.peer.empty() || !flags.listen.empty()) return tune_to_peer(flags, cache);
  return tune_this_host(flags, cache);
}

constexpr const char* kTuneFooter =
    R"(Measured: from which size on messages are announced and not copied, up to which size ordinary
memory is copied and not registered, the size of chunks and how many are read at once, and how long
a waiter spins. Mailboxes use what is kept for their pair of hosts and provider, unless their
options say otherwise; a pair that nothing is kept for is measured when its first mailbox is opened.
Values are kept until a host of the pair is booted again.

Environment:
  FERRY_TUNING  the folder in which tunings are kept, or off: nothing is kept, nothing measured by
                itself. Unless it is set: tensorferry in XDG_CACHE_HOME, or in ~/.cache
  FERRY_SECRET  the cluster's secret, for --peer and --listen; --secret-file wins

Exit status:
  0    done
  2    it could not be done: wrong options, no folder, nothing could be measured, no such peer
  130  interrupted (143 by SIGTERM))";

void add_tune_options(CLI::App& command, TuneFlags& flags) {
  command.add_option("--provider", flags.providers,
                     "of shm,tcp,verbs (those that work here; with --peer, the best)");
  command.add_option("--seconds", flags.seconds, "how long each path is measured (2)")
      ->check(seconds_between(0.1, 20));
  auto* peer = command.add_option(
      "--peer", flags.peer, "measure the path to host:port, where `ferry tune --listen` runs");
  auto* listen = command.add_option("--listen", flags.listen,
                                    "be the other side: wait a minute at host:port for one peer");
  auto* secret =
      command.add_option("--secret-file", flags.secret_file,
                         "file with the cluster's secret (or FERRY_SECRET in the environment)");
  auto* show = command.add_flag("--show", flags.show,
                                "measure nothing; show what is kept, and the curves behind it");
  auto* forget = command.add_flag("--forget", flags.forget, "remove what is kept");
  command.add_flag("--json", flags.json, "print JSON")->excludes(forget);
  listen->excludes(peer);
  for (auto* option : {peer, listen, secret}) option->excludes(show)->excludes(forget);
  show->excludes(forget);
}

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "tune", "Measure what mailboxes are to use on a path, keep it, and show why");
  auto flags = std::make_shared<TuneFlags>();
  add_tune_options(*command, *flags);
  command->footer(kTuneFooter);
  command->callback([flags, &exit_code] {
    const auto status = run_tune(*flags);
    if (!status) fmt::print(stderr, "ferry tune: {}\n", status.error().message());
    exit_code = status ? *status : kCannotRun;
  });
}

}  // namespace ferry::cli
