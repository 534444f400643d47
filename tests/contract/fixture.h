#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ferry/fabric/fake/provider.h"
#include "ferry/ferry.h"
#include "tests/contract/leaks.h"
#include "tests/must.h"

// What every file of the suite shares: the settings of the run, a pair of connected devices, and
// the check that nothing is left behind.

namespace ferry::contract {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): 10ms reads well
using fabric::Options;

// The command line.
struct Settings {
  std::string program;
  std::string provider = "shm";
  std::string peer_mode = "both";  // same-process, two-process or both
  std::string secret = "the secret of the contract suite";
  double patience = 1;  // slow hosts: stretches every limit
  double scale = 1;     // slow hosts: divides every count
  std::uint64_t random_ops = 100'000;
  std::uint64_t seed = 1;
  std::string connect;  // a peer on another machine, started with --serve-at
  std::string listen = "127.0.0.1:0";
  std::string log = "off";
  bool tail_flags = false;  // of fake: see fake_path()
};
Settings& settings();
// What lanes of fake can do in this run.
fabric::fake::Path fake_path();

// Fewer rounds on slow hosts, at least one.
inline int rounds(int count) {
  auto scaled = static_cast<int>(count / settings().scale);
  return scaled < 1 ? 1 : scaled;
}
inline Nanos patiently(Nanos span) {
  return Nanos(static_cast<std::int64_t>(static_cast<double>(span.count()) * settings().patience));
}
inline Deadline in(Nanos span) { return Deadline::after(patiently(span)); }
// Long enough for anything that works; only a hang takes it.
inline Deadline soon() { return in(20s); }

using ferry::trial::must;
inline void must(Transfer transfer) { must(transfer.wait()); }
using ferry::trial::code_of;

// Fills bytes with a pattern of its own for each seed, and recognises it again.
void stamp(std::span<std::byte> bytes, std::uint64_t seed);
::testing::AssertionResult stamped(std::span<const std::byte> bytes, std::uint64_t seed);

Options device_options();
Device open_device(const Options& options = device_options());

// Two devices of this process, connected.
struct Pair {
  std::optional<Device> a;
  std::optional<Device> b;
  Channel ab;                   // a's end
  Channel ba;                   // b's end
  std::vector<Channel> others;  // b's ends of the other lanes of a striped channel

  void close();
};
Pair open_pair(const Options& a = device_options(), const Options& b = device_options(),
               const fabric::ConnectOptions& connect = {});

// Connects one more channel, on a lane that no other one uses unless the options name one, and
// takes its other end.
struct Ends {
  Channel ab;
  Channel ba;
};
Ends connect_more(Device& a, Device& b, const fabric::ConnectOptions& options = {});

// Memory of one kind with a grant on it.
enum class Memory { kArena, kOwn };
struct Piece {
  std::vector<std::byte> own;  // when kOwn; filled so that its pages exist
  Region region;
  RemoteRegion remote;

  std::span<std::byte> bytes() const { return region.bytes(); }
  std::byte* data() const { return region.data(); }
};
Piece make_piece(Device& device, std::size_t bytes, Memory memory = Memory::kArena,
                 Rights rights = Rights::kAll);

// Skips tests of pairs in one process when the run asks for two processes, and asserts that each
// test gives everything back.
class ContractTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Opens the pair that the test uses. Its devices must be as idle at the end as now.
  Pair& open(const Options& a = device_options(), const Options& b = device_options(),
             const fabric::ConnectOptions& connect = {});
  Pair& pair() { return pair_; }
  Device& a() { return *pair_.a; }
  Device& b() { return *pair_.b; }
  Channel& ab() { return pair_.ab; }
  Channel& ba() { return pair_.ba; }

 private:
  void expect_idle(Device& device, const fabric::DeviceStats& before, const char* which);

  Holdings before_;
  Pair pair_;
  fabric::DeviceStats before_a_;
  fabric::DeviceStats before_b_;
};

}  // namespace ferry::contract
