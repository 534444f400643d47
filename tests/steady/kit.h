#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "ferry/fabric/device.h"
#include "tests/must.h"
#include "tests/steady/cost.h"

namespace ferry::steady {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): 10ms reads well
using trial::must;

inline Deadline soon() { return Deadline::after(60s); }

inline fabric::Options device_options(const std::string& provider) {
  fabric::Options options;
  options.provider = provider;
  options.secret = "the secret of the steady state";
  options.arena_bytes = std::size_t{8} << 20;
  return options;
}

// Two devices of this process, connected.
struct Pair {
  explicit Pair(const std::string& provider)
      : a(must(fabric::Device::open(device_options(provider)))),
        b(must(fabric::Device::open(device_options(provider)))),
        ab(must(a.connect(b.endpoint(), {.deadline = soon()}))),
        ba(must(b.accept(soon()))) {}
  fabric::Device a;
  fabric::Device b;
  fabric::Channel ab;
  fabric::Channel ba;
};

// What goes by the clock and not by the round: ticks, heartbeats, and locks whose holder the tracer
// has just stopped. Always less than one in each round, which is what a verb would cost.
inline std::uint64_t by_the_clock(const Cost& cost) {
  const auto ticks = kRounds / 10 + static_cast<int>(100 * std::min(cost.seconds, 100.0));
  return static_cast<std::uint64_t>(std::min(ticks, kRounds * 9 / 10));
}
// What a verb is known to cost, and why; to be removed when it is mended.
struct Excuse {
  std::uint64_t allocations = 0;   // in a round, at most
  std::uint64_t socket_calls = 0;  // the same, where the provider has no sockets
  const char* reason = "";
};

// The scenario costs nothing but sleeps, and calls of sockets where the provider is made of them.
inline void expect_free(const std::string& provider,
                        const std::function<void(const Repeat&)>& scenario,
                        const Excuse& excuse = {}) {
  const auto cost = cost_of(scenario);
  if (cost.problem == kUntraced) GTEST_SKIP() << kUntraced;
  ASSERT_EQ(cost.problem, "");
  SCOPED_TRACE(cost.to_string());
  const auto clock = by_the_clock(cost);
  EXPECT_LE(cost.blocked, clock);
  EXPECT_LE(cost.all_others(), clock);
  // It is made for disorder, not for speed: each operation is taken apart on the heap.
  if (provider == "fake") return;
  EXPECT_LE(cost.allocations, clock + excuse.allocations * kRounds);
  // How often a waiter yields or sleeps is the machine's to say; who sleeps may be woken by a
  // socket.
  if (provider != "tcp") {
    EXPECT_LE(cost.sockets, clock + excuse.socket_calls * kRounds + cost.sleeps);
  }
  if (excuse.allocations > 0) {
    EXPECT_GT(cost.allocations, clock) << "mended; remove the excuse: " << excuse.reason;
  }
}

class EachProvider : public ::testing::TestWithParam<const char*> {};

inline std::string provider_name(const ::testing::TestParamInfo<const char*>& each) {
  return each.param;
}

}  // namespace ferry::steady
