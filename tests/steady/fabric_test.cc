#include <array>
#include <vector>

#include "tests/steady/kit.h"

namespace ferry::steady {
namespace {

using fabric::RemoteRegion;
using fabric::Rights;

class Fabric : public EachProvider {
 protected:
  // One round of a verb between a pair whose end b has granted 64 KiB.
  using Round = std::function<void(Pair&, fabric::Region& local, const RemoteRegion& remote)>;
  static void expect_free_round(const Round& round) {
    const std::string provider = GetParam();
    expect_free(provider, [&](const Repeat& repeat) {
      Pair pair(provider);
      auto local = must(pair.a.allocate(64 << 10));
      auto region = must(pair.b.allocate(64 << 10));
      auto remote = must(pair.b.grant(region, Rights::kAll));
      repeat([&] { round(pair, local, remote); });
    });
  }
};
INSTANTIATE_TEST_SUITE_P(On, Fabric, ::testing::Values("shm", "tcp", "fake"), provider_name);

TEST_P(Fabric, SmallWrite) {
  expect_free_round([](Pair& pair, fabric::Region& local, const RemoteRegion& remote) {
    must(pair.ab.write(local.bytes().first(64), remote, {.deadline = soon()}).wait());
  });
}

TEST_P(Fabric, LargeWrite) {
  expect_free_round([](Pair& pair, fabric::Region& local, const RemoteRegion& remote) {
    must(pair.ab.write(local.bytes(), remote, {.deadline = soon()}).wait());
  });
}

TEST_P(Fabric, Read) {
  expect_free_round([](Pair& pair, fabric::Region& local, const RemoteRegion& remote) {
    must(pair.ab.read(local.bytes().first(4096), remote, {.deadline = soon()}).wait());
  });
}

TEST_P(Fabric, FlaggedWriteThatThePeerWaitsFor) {
  const std::string provider = GetParam();
  expect_free(provider, [&](const Repeat& repeat) {
    Pair pair(provider);
    auto local = must(pair.a.allocate(4096));
    auto region = must(pair.b.allocate(8192));
    auto remote = must(pair.b.grant(region, Rights::kAll));
    std::uint64_t value = 0;
    repeat([&] {
      auto sent = pair.ab.write_flagged(local.bytes(), remote, {remote, 4096}, ++value,
                                        {.deadline = soon()});
      must(pair.ba.wait_flag(region.data() + 4096, value, soon()));
      must(sent.wait());
    });
  });
}

TEST_P(Fabric, FetchAdd) {
  expect_free_round([](Pair& pair, fabric::Region&, const RemoteRegion& remote) {
    must(pair.ab.fetch_add(remote, 1, {.deadline = soon()}).wait());
  });
}

TEST_P(Fabric, CompareSwap) {
  expect_free_round([](Pair& pair, fabric::Region&, const RemoteRegion& remote) {
    must(pair.ab.compare_swap(remote, 0, 0, {.deadline = soon()}).wait());
  });
}

TEST_P(Fabric, Message) {
  expect_free_round([](Pair& pair, fabric::Region& local, const RemoteRegion&) {
    std::array<std::byte, 256> into;
    must(pair.ab.send(local.bytes().first(100), {.deadline = soon()}).wait());
    must(pair.ba.receive(into, soon()));
  });
}

}  // namespace
}  // namespace ferry::steady
