#include <atomic>
#include <limits>
#include <thread>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

class Grants : public ContractTest {
 protected:
  Code write_code(Channel& channel, const RemoteRegion& remote, std::uint64_t offset = 0,
                  std::size_t length = 8) {
    std::vector<std::byte> bytes(length);
    return code_of(channel.write(bytes, {remote, offset}, {.deadline = soon()}).wait());
  }
  Code read_code(Channel& channel, const RemoteRegion& remote, std::uint64_t offset = 0,
                 std::size_t length = 8) {
    std::vector<std::byte> bytes(length);
    return code_of(channel.read(bytes, {remote, offset}, {.deadline = soon()}).wait());
  }
  // A refused request may cost the lane, never the peer: the channel works again after a while.
  ::testing::AssertionResult works_again(Channel& channel, const RemoteRegion& remote) {
    auto deadline = soon();
    Code last = Code::kOk;
    while (!deadline.expired()) {
      last = write_code(channel, remote);
      if (last == Code::kOk) return ::testing::AssertionSuccess();
      std::this_thread::sleep_for(5ms);
    }
    return ::testing::AssertionFailure() << "the channel stays broken: " << name_of(last);
  }
};

TEST_F(Grants, AGrantDescribesItsRegion) {
  auto device = open_device();
  auto region = must(device.allocate(1000));
  auto remote = must(device.grant(region, Rights::kReadWrite));
  EXPECT_EQ(remote.length, 1000U);
  EXPECT_EQ(remote.address, reinterpret_cast<std::uintptr_t>(region.data()));
  EXPECT_EQ(remote.rights, Rights::kReadWrite);
  EXPECT_NE(remote.key, 0U);
  EXPECT_EQ(must(RemoteRegion::from_wire(remote.to_wire())), remote);
}

TEST_F(Grants, AnUnknownKeyIsNotFound) {
  open();
  auto good = make_piece(b(), 64);
  auto forged = good.remote;
  forged.key ^= 0x5555'5555'0000'0000ULL;
  EXPECT_EQ(write_code(ab(), forged), Code::kNotFound);
  EXPECT_TRUE(works_again(ab(), good.remote));
  forged = good.remote;
  forged.key ^= 0x1234;  // another slot of the table
  EXPECT_EQ(read_code(ab(), forged), Code::kNotFound);
  EXPECT_TRUE(works_again(ab(), good.remote));
}

TEST_F(Grants, AStaleEpochIsAFailedPrecondition) {
  open();
  auto good = make_piece(b(), 64);
  auto piece = make_piece(b(), 64);
  must(b().revoke(piece.remote, soon()));
  EXPECT_EQ(write_code(ab(), piece.remote), Code::kFailedPrecondition);
  EXPECT_TRUE(works_again(ab(), good.remote));
  EXPECT_EQ(read_code(ab(), piece.remote), Code::kFailedPrecondition);
  EXPECT_TRUE(works_again(ab(), good.remote));
}

TEST_F(Grants, RightsAreKept) {
  open();
  auto good = make_piece(b(), 64);
  auto readable = make_piece(b(), 64, Memory::kArena, Rights::kRead);
  auto writable = make_piece(b(), 64, Memory::kArena, Rights::kWrite);
  EXPECT_EQ(read_code(ab(), readable.remote), Code::kOk);
  EXPECT_EQ(write_code(ab(), writable.remote), Code::kOk);
  EXPECT_EQ(write_code(ab(), readable.remote), Code::kPermissionDenied);
  EXPECT_EQ(read_code(ab(), writable.remote), Code::kPermissionDenied);
  EXPECT_EQ(code_of(ab().fetch_add(writable.remote, 1).wait()), Code::kPermissionDenied);
  EXPECT_TRUE(works_again(ab(), good.remote));
}

TEST_F(Grants, ForgedRightsDoNotHelp) {
  open();
  auto good = make_piece(b(), 64);
  auto readable = make_piece(b(), 64, Memory::kArena, Rights::kRead);
  auto forged = readable.remote;
  forged.rights = Rights::kAll;
  EXPECT_EQ(write_code(ab(), forged), Code::kPermissionDenied);
  EXPECT_TRUE(works_again(ab(), good.remote));
  EXPECT_EQ(code_of(ab().fetch_add(forged, 1, {.deadline = soon()}).wait()),
            Code::kPermissionDenied);
  EXPECT_TRUE(works_again(ab(), good.remote));
  for (auto byte : readable.bytes()) EXPECT_EQ(byte, std::byte{0});
}

TEST_F(Grants, RangesAreKept) {
  open();
  auto piece = make_piece(b(), 100);
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(write_code(ab(), piece.remote, 92, 8), Code::kOk);
  EXPECT_EQ(write_code(ab(), piece.remote, 100, 0), Code::kOk);
  EXPECT_EQ(write_code(ab(), piece.remote, 93, 8), Code::kOutOfRange);
  EXPECT_EQ(write_code(ab(), piece.remote, 101, 0), Code::kOutOfRange);
  EXPECT_EQ(read_code(ab(), piece.remote, 100, 1), Code::kOutOfRange);
  EXPECT_EQ(read_code(ab(), piece.remote, kMax - 3, 8), Code::kOutOfRange);
  EXPECT_EQ(write_code(ab(), piece.remote, kMax, 1), Code::kOutOfRange);
  EXPECT_TRUE(works_again(ab(), piece.remote));
}

TEST_F(Grants, ForgedLengthsDoNotHelp) {
  open();
  auto piece = make_piece(b(), 64);
  auto beyond = make_piece(b(), 4096);  // what a longer copy could reach
  auto forged = piece.remote;
  forged.length = 1UL << 40;
  EXPECT_EQ(write_code(ab(), forged, 0, 128), Code::kOutOfRange);
  EXPECT_TRUE(works_again(ab(), piece.remote));
  EXPECT_EQ(read_code(ab(), forged, 1UL << 39, 8), Code::kOutOfRange);
  EXPECT_TRUE(works_again(ab(), piece.remote));
  forged.length = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(write_code(ab(), forged, std::numeric_limits<std::uint64_t>::max() - 7, 7),
            Code::kOutOfRange);
  EXPECT_TRUE(works_again(ab(), piece.remote));
  for (auto byte : beyond.bytes()) ASSERT_EQ(byte, std::byte{0});
}

TEST_F(Grants, AGrantForOnePeerIsNoUseToAnother) {
  open();
  auto third = open_device();
  auto ends = connect_more(third, b());
  auto region = must(b().allocate(64));
  auto only_a = must(b().grant(region, Rights::kAll, ba()));
  auto for_all = make_piece(b(), 64);
  EXPECT_EQ(write_code(ab(), only_a), Code::kOk);
  EXPECT_EQ(write_code(ends.ab, only_a), Code::kPermissionDenied);
  EXPECT_TRUE(works_again(ends.ab, for_all.remote));
  EXPECT_EQ(write_code(ab(), only_a), Code::kOk);
  ends = {};
}

TEST_F(Grants, RevokedMeansThatNothingIsWrittenAnyMore) {
  open();
  for (int round = 0; round < rounds(10); ++round) {
    auto piece = make_piece(b(), 1UL << 16);
    std::vector<std::byte> bytes(1UL << 16, std::byte{0xAA});
    std::atomic<bool> stop{false};
    std::thread writer([&] {
      while (!stop && ab().write(bytes, piece.remote, {.deadline = soon()}).wait()) {
      }
    });
    std::this_thread::sleep_for(2ms);
    auto revoked = b().revoke(piece.remote, soon());
    EXPECT_EQ(code_of(revoked), Code::kOk);
    std::fill(piece.bytes().begin(), piece.bytes().end(), std::byte{0});
    std::this_thread::sleep_for(2ms);
    for (auto byte : piece.bytes()) ASSERT_EQ(byte, std::byte{0}) << "written after revoke()";
    stop = true;
    writer.join();
    auto good = make_piece(b(), 64);
    ASSERT_TRUE(works_again(ab(), good.remote));
  }
}

TEST_F(Grants, RevokingOneLeavesTheOthers) {
  open();
  auto region = must(b().allocate(64));
  auto first = must(b().grant(region, Rights::kReadWrite));
  auto second = must(b().grant(region, Rights::kReadWrite));
  must(b().revoke(first, soon()));
  EXPECT_EQ(write_code(ab(), second), Code::kOk);
  EXPECT_EQ(write_code(ab(), first), Code::kFailedPrecondition);
  EXPECT_TRUE(works_again(ab(), second));
}

TEST_F(Grants, RevokingTwiceSaysSo) {
  auto device = open_device();
  auto piece = make_piece(device, 64);
  must(device.revoke(piece.remote, soon()));
  EXPECT_NE(code_of(device.revoke(piece.remote, soon())), Code::kOk);
}

TEST_F(Grants, DroppingARegionRevokesItsGrants) {
  open();
  auto good = make_piece(b(), 64);
  RemoteRegion remote;
  {
    auto piece = make_piece(b(), 64);
    remote = piece.remote;
    EXPECT_EQ(write_code(ab(), remote), Code::kOk);
  }
  EXPECT_EQ(write_code(ab(), remote), Code::kFailedPrecondition);
  EXPECT_TRUE(works_again(ab(), good.remote));
}

TEST_F(Grants, AFlagNeedsAGrantToo) {
  open();
  auto payload = make_piece(b(), 64);
  auto readable = make_piece(b(), 64, Memory::kArena, Rights::kRead);
  auto forged = readable.remote;
  forged.rights = Rights::kAll;
  std::byte bytes[8]{};
  auto status = ab().write_flagged(bytes, payload.remote, forged, 1, {.deadline = soon()}).wait();
  EXPECT_EQ(code_of(status), Code::kPermissionDenied);
  EXPECT_TRUE(works_again(ab(), payload.remote));
  for (auto byte : readable.bytes()) EXPECT_EQ(byte, std::byte{0});
}

TEST_F(Grants, FlagsAndAtomicWordsAreAlignedAndInRange) {
  open();
  auto piece = make_piece(b(), 64);
  std::byte bytes[8]{};
  EXPECT_EQ(code_of(ab().write_flagged(bytes, piece.remote, {piece.remote, 12}, 1).wait()),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(ab().write_flagged(bytes, piece.remote, {piece.remote, 64}, 1).wait()),
            Code::kOutOfRange);
  EXPECT_EQ(code_of(ab().fetch_add({piece.remote, 4}, 1).wait()), Code::kInvalidArgument);
  EXPECT_EQ(code_of(ab().fetch_add({piece.remote, 64}, 1).wait()), Code::kOutOfRange);
  EXPECT_EQ(code_of(ab().compare_swap({piece.remote, 4}, 0, 1).wait()), Code::kInvalidArgument);
  EXPECT_TRUE(works_again(ab(), piece.remote));
}

}  // namespace
}  // namespace ferry::contract
