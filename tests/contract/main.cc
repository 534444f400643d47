// The contract that every provider keeps, as a program:
//   ferry_contract_tests --provider=shm|tcp|fake|verbs [--peer-mode=same-process|two-process]
//     [--patience=N] [--scale=N] [--random-ops=N] [--seed=N] [--listen=host:port] [--secret=TEXT]
//     [--log=LEVEL] [--connect=host:port]      the peer runs elsewhere, started with --serve-at
//     [--tail-flags]                           fake maps nothing, and lands writes in order
//   ferry_contract_tests --serve [--provider=...] [--secret=...]      the peer of a local run
//   ferry_contract_tests --serve-at=host:port ...                     the peer of a run elsewhere

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ferry/base/log.h"
#include "ferry/fabric/fake/provider.h"
#include "tests/contract/fixture.h"
#include "tests/contract/peer.h"

namespace {

using ferry::contract::Settings;

struct Mode {
  bool serve = false;
  bool announce = false;  // tell the endpoint on standard output and leave when standard input ends
};

// Takes "--name=value"; false when it is another argument.
bool take(std::string_view argument, std::string_view name, std::string& value) {
  if (!argument.starts_with(name) || argument.substr(name.size(), 1) != "=") return false;
  value = argument.substr(name.size() + 1);
  return true;
}

bool parse(std::string_view argument, Settings& settings, Mode& mode) {
  std::string number;
  if (argument == "--serve") {
    mode.serve = mode.announce = true;
  } else if (argument == "--tail-flags") {
    settings.tail_flags = true;
  } else if (take(argument, "--serve-at", settings.listen)) {
    mode.serve = true;
  } else if (take(argument, "--patience", number)) {
    settings.patience = std::stod(number);
  } else if (take(argument, "--scale", number)) {
    settings.scale = std::stod(number);
  } else if (take(argument, "--random-ops", number)) {
    settings.random_ops = std::stoull(number);
  } else if (take(argument, "--seed", number)) {
    settings.seed = std::stoull(number);
  } else {
    return take(argument, "--provider", settings.provider) ||
           take(argument, "--peer-mode", settings.peer_mode) ||
           take(argument, "--secret", settings.secret) ||
           take(argument, "--listen", settings.listen) ||
           take(argument, "--connect", settings.connect) || take(argument, "--log", settings.log);
  }
  return true;
}

// The first device makes what lasts as long as the process (logger, look-up tables, caches), which
// is no leak of the first test.
void warm_up() {
  auto options = ferry::contract::device_options();
  auto device = ferry::Device::open(options);
  if (!device) {
    std::fprintf(stderr, "cannot open a device: %s\n", device.error().to_string().c_str());
    std::exit(2);
  }
}

// Leaves out what this run cannot be about, with one line instead of one per test.
void leave_out(const Settings& settings) {
  auto& filter = testing::GTEST_FLAG(filter);
  if (filter != "*") return;
  if (!settings.connect.empty()) {
    filter = "TwoProcess*";
    std::printf("only what needs a peer elsewhere; its process is not ours to kill\n");
    return;
  }
  const std::string second_process = "TwoProcess*:*PeerDeath*";
  if (settings.peer_mode == "two-process") {
    filter = second_process;
    return;
  }
  std::string without;
  if (settings.provider != "fake") {
    without = "InjectedFaults.*:TailFlags.*";
    std::printf("without the injected faults: they are fake's\n");
  }
  if (settings.provider == "fake" || settings.peer_mode == "same-process") {
    without += (without.empty() ? "" : ":") + second_process;
    std::printf("without a second process: %s\n",
                settings.provider == "fake" ? "fake joins no two" : "this run is about one");
  }
  if (!without.empty()) filter = "-" + without;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto& settings = ferry::contract::settings();
  settings.program = "/proc/self/exe";
  Mode mode;
  for (int i = 1; i < argc; ++i) {
    if (parse(argv[i], settings, mode)) continue;
    std::fprintf(stderr, "%s: unknown argument %s\n", argv[0], argv[i]);
    return 2;
  }
  // What the user's cache holds must not change what is tested. Tests of tuning name a folder.
  ::setenv("FERRY_TUNING", "off", 1);
  // Failures are what the suite provokes; it judges them itself.
  ferry::set_log_level(settings.log);
  ferry::fabric::fake::Script::use_path(ferry::contract::fake_path());
  if (mode.serve) return ferry::contract::serve(mode.announce);
  std::printf("provider %s, patience %g, scale %g, seed %llu\n", settings.provider.c_str(),
              settings.patience, settings.scale, static_cast<unsigned long long>(settings.seed));
  leave_out(settings);
  warm_up();
  return RUN_ALL_TESTS();
}
