#include "tests/contract/fixture.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

namespace ferry::contract {

Settings& settings() {
  static Settings settings;
  return settings;
}

// Like a card that keeps order, or like memory.
fabric::fake::Path fake_path() {
  return {.maps_peer = !settings().tail_flags, .tail_flag = settings().tail_flags};
}

namespace {
std::uint64_t pattern(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t word = (seed + 1) * 0x9E3779B97F4A7C15ULL + index * 0xD1B54A32D192ED03ULL;
  return word ^ (word >> 29);
}
}  // namespace

void stamp(std::span<std::byte> bytes, std::uint64_t seed) {
  std::size_t at = 0;
  for (std::uint64_t index = 0; at < bytes.size(); ++index) {
    auto word = pattern(seed, index);
    auto size = std::min(sizeof word, bytes.size() - at);
    std::memcpy(bytes.data() + at, &word, size);
    at += size;
  }
}

::testing::AssertionResult stamped(std::span<const std::byte> bytes, std::uint64_t seed) {
  std::size_t at = 0;
  for (std::uint64_t index = 0; at < bytes.size(); ++index) {
    auto word = pattern(seed, index);
    auto size = std::min(sizeof word, bytes.size() - at);
    if (std::memcmp(bytes.data() + at, &word, size) != 0) {
      return ::testing::AssertionFailure()
             << "bytes at " << at << " of " << bytes.size() << " are not those of seed " << seed;
    }
    at += size;
  }
  return ::testing::AssertionSuccess();
}

Options device_options() {
  Options options;
  options.provider = settings().provider;
  options.secret = settings().secret;
  options.patience = settings().patience;
  options.listen = settings().listen;
  options.arena_bytes = std::size_t{8} << 20;
  return options;
}

Device open_device(const Options& options) { return must(Device::open(options)); }

Ends connect_more(Device& a, Device& b, const fabric::ConnectOptions& options) {
  auto connect = options;
  static std::atomic<std::uint32_t> turn{0};
  if (!connect.lane) connect.lane = 1 + turn++ % 60;
  if (connect.deadline.ns() == 0) connect.deadline = soon();
  Ends ends;
  ends.ab = must(a.connect(b.endpoint(), connect));
  ends.ba = must(b.accept(soon()));
  return ends;
}

Pair open_pair(const Options& a, const Options& b, const fabric::ConnectOptions& connect) {
  Pair pair;
  pair.a.emplace(open_device(a));
  pair.b.emplace(open_device(b));
  auto first = connect;
  if (!first.lane) first.lane = 0;
  auto ends = connect_more(*pair.a, *pair.b, first);
  pair.ab = std::move(ends.ab);
  pair.ba = std::move(ends.ba);
  for (int i = 1; connect.stripe && i < a.lanes_per_peer; ++i) {
    pair.others.push_back(must(pair.b->accept(soon())));
  }
  return pair;
}

void Pair::close() {
  ab = {};
  ba = {};
  others.clear();
  a.reset();
  b.reset();
}

Piece make_piece(Device& device, std::size_t bytes, Memory memory, Rights rights) {
  Piece piece;
  if (memory == Memory::kArena) {
    piece.region = must(device.allocate(bytes));
  } else {
    piece.own.resize(bytes);
    piece.region = must(device.register_memory(piece.own));
  }
  piece.remote = must(device.grant(piece.region, rights));
  return piece;
}

void ContractTest::SetUp() {
  if (settings().peer_mode == "two-process") GTEST_SKIP() << "this run is about two processes";
  before_ = current_holdings();
}

void ContractTest::TearDown() {
  if (IsSkipped()) return;
  pair_.ab = {};
  pair_.ba = {};
  pair_.others.clear();
  if (pair_.a) expect_idle(*pair_.a, before_a_, "a");
  if (pair_.b) expect_idle(*pair_.b, before_b_, "b");
  pair_.close();
  EXPECT_EQ(leaked_since(before_), "");
}

Pair& ContractTest::open(const Options& a, const Options& b,
                         const fabric::ConnectOptions& connect) {
  pair_ = open_pair(a, b, connect);
  before_a_ = pair_.a->stats();
  before_b_ = pair_.b->stats();
  return pair_;
}

void ContractTest::expect_idle(Device& device, const fabric::DeviceStats& before,
                               const char* which) {
  auto busy = [&](const fabric::DeviceStats& now) {
    return now.operations_in_flight != 0 || now.channels != 0 || now.grants > before.grants ||
           now.retired_bytes != 0 || now.memory.in_use > before.memory.in_use;
  };
  auto deadline = in(5s);
  auto now = device.stats();
  while (busy(now) && !deadline.expired()) {
    std::this_thread::sleep_for(5ms);
    now = device.stats();
  }
  SCOPED_TRACE(which);
  EXPECT_EQ(now.operations_in_flight, 0U);
  EXPECT_EQ(now.channels, 0U);
  EXPECT_LE(now.grants, before.grants);
  EXPECT_EQ(now.retired_bytes, 0U);
  EXPECT_LE(now.memory.in_use, before.memory.in_use);
}

}  // namespace ferry::contract
