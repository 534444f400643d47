#include <gtest/gtest.h>

#include <thread>

#include "ferry/fabric/grant_table_internal.h"

namespace ferry::fabric {
namespace {

class GrantTableTest : public ::testing::Test {
 protected:
  GrantTableTest() : table_(GrantTable::create().value()) {}

  RemoteRegion give(std::uint64_t length, Rights rights, std::uint32_t peer = 0) {
    GrantTable::Grant wanted;
    wanted.address = 4096;
    wanted.length = length;
    wanted.rights = rights;
    wanted.peer = peer;
    auto made = table_->add(wanted).value();
    return {made.key, made.address, made.length, made.epoch, made.rights};
  }
  Code ask(const RemoteRegion& remote, std::uint64_t offset, std::uint64_t length, Rights need,
           std::uint32_t peer = 7) {
    auto checked = table_->check(remote, offset, length, need, peer);
    return checked ? Code::kOk : checked.error().code();
  }
  std::unique_ptr<GrantTable> table_;
};

TEST_F(GrantTableTest, ChecksRangeWithoutOverflow) {
  auto remote = give(100, Rights::kReadWrite);
  EXPECT_EQ(ask(remote, 0, 100, Rights::kWrite), Code::kOk);
  EXPECT_EQ(ask(remote, 100, 0, Rights::kWrite), Code::kOk);
  EXPECT_EQ(ask(remote, 1, 100, Rights::kWrite), Code::kOutOfRange);
  EXPECT_EQ(ask(remote, 101, 0, Rights::kWrite), Code::kOutOfRange);
  EXPECT_EQ(ask(remote, 8, ~std::uint64_t{0} - 7, Rights::kWrite), Code::kOutOfRange);
  EXPECT_EQ(ask(remote, ~std::uint64_t{0}, 2, Rights::kWrite), Code::kOutOfRange);
}

TEST_F(GrantTableTest, ChecksRightsAndPeer) {
  auto remote = give(100, Rights::kRead, 7);
  EXPECT_EQ(ask(remote, 0, 1, Rights::kRead), Code::kOk);
  EXPECT_EQ(ask(remote, 0, 1, Rights::kWrite), Code::kPermissionDenied);
  EXPECT_EQ(ask(remote, 0, 1, Rights::kRead, 8), Code::kPermissionDenied);
}

TEST_F(GrantTableTest, RevokedGrantsAreStaleAndForgedOnesUnknown) {
  auto remote = give(100, Rights::kAll);
  auto forged = remote;
  forged.key ^= std::uint64_t{1} << 40;
  EXPECT_EQ(ask(forged, 0, 1, Rights::kRead), Code::kNotFound);
  forged = remote;
  forged.epoch += 1;
  EXPECT_EQ(ask(forged, 0, 1, Rights::kRead), Code::kFailedPrecondition);
  EXPECT_TRUE(table_->stands(remote.key, remote.epoch));
  ASSERT_TRUE(table_->remove(remote.key));
  EXPECT_FALSE(table_->stands(remote.key, remote.epoch));
  EXPECT_EQ(ask(remote, 0, 1, Rights::kRead), Code::kFailedPrecondition);
  EXPECT_FALSE(table_->remove(remote.key));
}

TEST_F(GrantTableTest, FullTableIsANamedErrorAndSlotsComeBack) {
  std::vector<RemoteRegion> all;
  for (std::uint32_t i = 0; i < GrantTable::kSlots; ++i) all.push_back(give(1, Rights::kRead));
  auto over = table_->add({});
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code(), Code::kResourceExhausted);
  ASSERT_TRUE(table_->remove(all[5].key));
  auto again = give(1, Rights::kRead);
  EXPECT_EQ(ask(again, 0, 1, Rights::kRead), Code::kOk);
  EXPECT_EQ(ask(all[5], 0, 1, Rights::kRead), Code::kFailedPrecondition);
}

TEST_F(GrantTableTest, ReadersOfAMappedTableNeverSeeAMixture) {
  auto view = GrantTable::map(Fd(dup(table_->fd()))).value();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> current{0};
  std::atomic<std::uint32_t> epoch{0};
  std::thread reader([&] {
    while (!stop.load()) {
      RemoteRegion remote{current.load(), 0, 0, epoch.load(), Rights::kAll};
      auto seen = view->check(remote, 0, 0, Rights::kNone, 1);
      if (seen) {
        EXPECT_EQ(seen->length, seen->address);
      }
    }
  });
  for (std::uint64_t i = 1; i < 20000; ++i) {
    GrantTable::Grant wanted;
    wanted.address = wanted.length = i;
    wanted.rights = Rights::kAll;
    auto made = table_->add(wanted).value();
    epoch.store(made.epoch);
    current.store(made.key);
    ASSERT_TRUE(table_->remove(made.key));
  }
  stop.store(true);
  reader.join();
}

}  // namespace
}  // namespace ferry::fabric
