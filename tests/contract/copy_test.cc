#include <array>
#include <tuple>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

// Where the local bytes lie.
enum class Local { kArena, kRegistered, kPlain };

class Copies : public ContractTest {
 protected:
  static constexpr std::array<std::size_t, 11> kSizes = {
      0, 1, 7, 64, 4095, 4096, 4097, 65'536, 65'537, 1UL << 20, (8UL << 20) + 3};

  struct LocalBytes {
    std::vector<std::byte> own;
    Region region;
    std::span<std::byte> bytes;
  };
  LocalBytes make_local(std::size_t size, Local where) {
    LocalBytes local;
    if (where == Local::kArena) {
      local.region = must(a().allocate(size));
      local.bytes = local.region.bytes();
      return local;
    }
    local.own.resize(size);
    local.bytes = local.own;
    if (where == Local::kRegistered) local.region = must(a().register_memory(local.bytes));
    return local;
  }

  void all_sizes(Local where, Memory remote_memory) {
    open();
    std::size_t largest = kSizes.back();
    auto local = make_local(largest + 64, where);
    auto remote = make_piece(b(), largest + 64, remote_memory);
    std::uint64_t seed = 0;
    for (std::size_t size : kSizes) {
      for (std::size_t shift : {0UL, 3UL, 17UL}) {
        SCOPED_TRACE(::testing::Message() << size << " bytes, shifted by " << shift);
        write_once(local.bytes.subspan(shift, size), remote, 64 - shift, ++seed);
        read_once(local.bytes.subspan(64 - shift, size), remote, shift, ++seed);
      }
    }
  }
  void write_once(std::span<std::byte> local, Piece& remote, std::size_t at, std::uint64_t seed) {
    auto target = remote.bytes().subspan(at, local.size());
    stamp(local, seed);
    stamp(remote.bytes(), seed + 1'000'000);
    std::byte after =
        at + local.size() < remote.bytes().size() ? target.data()[local.size()] : std::byte{0};
    std::byte before = at > 0 ? remote.data()[at - 1] : std::byte{0};
    must(ab().write(local, {remote.remote, at}, {.deadline = soon()}));
    ASSERT_TRUE(stamped(target, seed));
    if (at + local.size() < remote.bytes().size()) {
      ASSERT_EQ(target.data()[local.size()], after);
    }
    if (at > 0) {
      ASSERT_EQ(remote.data()[at - 1], before);
    }
  }
  void read_once(std::span<std::byte> local, Piece& remote, std::size_t at, std::uint64_t seed) {
    stamp(remote.bytes().subspan(at, local.size()), seed);
    stamp(local, seed + 1'000'000);
    must(ab().read(local, {remote.remote, at}, {.deadline = soon()}));
    ASSERT_TRUE(stamped(local, seed));
  }
};

TEST_F(Copies, ArenaToArena) { all_sizes(Local::kArena, Memory::kArena); }
TEST_F(Copies, RegisteredToArena) { all_sizes(Local::kRegistered, Memory::kArena); }
TEST_F(Copies, PlainToArena) { all_sizes(Local::kPlain, Memory::kArena); }
TEST_F(Copies, ArenaToOwn) { all_sizes(Local::kArena, Memory::kOwn); }
TEST_F(Copies, PlainToOwn) { all_sizes(Local::kPlain, Memory::kOwn); }
TEST_F(Copies, RegisteredToOwn) { all_sizes(Local::kRegistered, Memory::kOwn); }

TEST_F(Copies, TheAcceptingSideCopiesToo) {
  open();
  auto remote = make_piece(a(), 100'000);
  std::vector<std::byte> local(100'000);
  stamp(local, 1);
  must(ba().write(local, remote.remote));
  EXPECT_TRUE(stamped(remote.bytes(), 1));
  stamp(remote.bytes(), 2);
  must(ba().read(local, remote.remote));
  EXPECT_TRUE(stamped(local, 2));
}

TEST_F(Copies, ManyInOneCall) {
  open();
  constexpr std::size_t kCount = 50;
  constexpr std::size_t kBytes = 3001;
  auto remote = make_piece(b(), kCount * kBytes * 2);
  auto local = make_piece(a(), kCount * kBytes * 2);
  std::vector<fabric::Copy> copies;
  for (std::size_t i = 0; i < kCount; ++i) {
    bool write = i % 2 == 0;
    auto part = local.bytes().subspan(i * kBytes, kBytes);
    auto there = remote.bytes().subspan(2 * i * kBytes, kBytes);
    stamp(write ? part : there, i);
    copies.push_back({write ? fabric::Direction::kWrite : fabric::Direction::kRead,
                      part,
                      {remote.remote, 2 * i * kBytes}});
  }
  must(ab().copy(copies, {.deadline = soon()}));
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_TRUE(stamped(local.bytes().subspan(i * kBytes, kBytes), i));
    EXPECT_TRUE(stamped(remote.bytes().subspan(2 * i * kBytes, kBytes), i));
  }
}

TEST_F(Copies, NoneInOneCallIsDone) {
  open();
  int calls = 0;
  must(ab().copy({}, {.deadline = soon(), .callback = [&calls](const Status&) { ++calls; }}));
  EXPECT_EQ(calls, 1);
}

TEST_F(Copies, OfManyTheFirstFailureCounts) {
  open();
  auto remote = make_piece(b(), 4096);
  std::vector<std::byte> local(4096);
  std::vector<fabric::Copy> copies = {
      {fabric::Direction::kWrite, std::span(local).first(64), {remote.remote, 0}},
      {fabric::Direction::kWrite, std::span(local).first(64), {remote.remote, 4090}},
      {fabric::Direction::kWrite, std::span(local).first(64), {remote.remote, 128}}};
  int calls = 0;
  auto status =
      ab().copy(copies, {.deadline = soon(), .callback = [&calls](const Status&) { ++calls; }})
          .wait();
  EXPECT_EQ(code_of(status), Code::kOutOfRange);
  EXPECT_EQ(calls, 1);
}

TEST_F(Copies, ManyInFlightAtOnce) {
  open();
  constexpr std::size_t kBytes = 1024;
  auto count = static_cast<std::size_t>(rounds(1000));
  auto remote = make_piece(b(), count * kBytes);
  auto local = make_piece(a(), count * kBytes);
  stamp(local.bytes(), 5);
  std::vector<Transfer> transfers;
  for (std::size_t i = 0; i < count; ++i) {
    transfers.push_back(ab().write(local.bytes().subspan(i * kBytes, kBytes),
                                   {remote.remote, i * kBytes}, {.deadline = soon()}));
  }
  for (auto& transfer : transfers) must(transfer.wait());
  EXPECT_TRUE(stamped(remote.bytes(), 5));
}

// A write followed by a read of the same bytes after its completion.
TEST_F(Copies, WhatWasWrittenIsRead) {
  open();
  auto remote = make_piece(b(), 1UL << 18);
  std::vector<std::byte> out(1UL << 18);
  std::vector<std::byte> back(1UL << 18);
  for (int i = 0; i < rounds(50); ++i) {
    stamp(out, static_cast<std::uint64_t>(i));
    must(ab().write(out, remote.remote));
    must(ab().read(back, remote.remote));
    ASSERT_TRUE(stamped(back, static_cast<std::uint64_t>(i)));
  }
}

}  // namespace
}  // namespace ferry::contract
