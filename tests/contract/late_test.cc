#include <algorithm>
#include <thread>

#include "tests/contract/mail_kit.h"
#include "tests/stall.h"

// Memory that its owner takes back while a peer, which had looked at its grant before, is just
// about to copy: nothing is written to it afterwards, and nothing torn is called whole. See
// docs/design/late-readers.md.

namespace ferry::contract {
namespace {

using trial::Stall;

constexpr std::size_t kLateBytes = kMiB;

void overwrite(std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{17}); }
bool is_overwritten(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](auto each) { return each == std::byte{17}; });
}

class Late : public MailTest {
 protected:
  static bool is(std::string_view provider) { return settings().provider == provider; }
  // Reads until a read stops in the stall, and says how that one ended. The kernel's way is tried
  // among the first.
  Status read_into_stall(const RemoteRegion& remote) {
    std::vector<std::byte> bytes(kLateBytes);
    for (int i = 0; i < 64; ++i) {
      bool before = Stall::reached();
      auto status = ab().read(bytes, remote, {.deadline = soon()}).wait();
      if (!status || before != Stall::reached() || taken_back_) return status;
    }
    return fail(Code::kUnimplemented, "no read came to the stall");
  }
  std::atomic<bool> taken_back_{false};
};

// The bytes are placed by a thread of the owner's process: the region's end waits for it, also
// after a revocation that ran out of time, and whatever the deadline of close() is.
TEST_F(Late, ARegionIsNotGoneWhileItsMemoryIsWritten) {
  if (!is("shm") && !is("tcp")) GTEST_SKIP() << "writes to own memory are not served by a thread";
  open();
  auto piece = make_piece(b(), kLateBytes, Memory::kOwn);
  Stall stall(StallPoint::kServeWrite);
  std::vector<std::byte> bytes(kLateBytes, std::byte{0xAA});
  Status written;
  std::thread writer(
      [&] { written = ab().write(bytes, piece.remote, {.deadline = soon()}).wait(); });
  ASSERT_TRUE(Stall::await(soon()));
  EXPECT_EQ(code_of(b().revoke(piece.remote, in(50ms))), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(piece.region.close(in(50ms))), Code::kDeadlineExceeded);
  EXPECT_TRUE(piece.region);
  EXPECT_EQ(b().stats().retired_bytes, kLateBytes);
  std::atomic<bool> gone{false};
  std::thread owner([&] {
    piece.region.reset();
    gone = true;
  });
  std::this_thread::sleep_for(200ms);
  EXPECT_FALSE(gone) << "the region is gone, and a thread is about to write to its memory";
  Stall::let_go();
  owner.join();
  overwrite(piece.own);
  writer.join();
  EXPECT_FALSE(written);
  EXPECT_TRUE(is_overwritten(piece.own)) << "written after the region was gone";
}

TEST_F(Late, AReadOfOwnMemoryThatIsTakenBackMeanwhileFails) {
  if (!is("shm")) GTEST_SKIP() << "the owner's process serves reads of own memory";
  open();
  auto piece = make_piece(b(), kLateBytes, Memory::kOwn);
  Stall stall(StallPoint::kReadByKernel);
  Status status;
  std::thread reader([&] { status = read_into_stall(piece.remote); });
  bool stopped = Stall::await(in(5s));
  if (stopped) {
    EXPECT_EQ(code_of(b().revoke(piece.remote, in(5s))), Code::kOk) << "waits for the reader";
    overwrite(piece.own);
    taken_back_ = true;
  }
  Stall::let_go();
  reader.join();
  if (!stopped) GTEST_SKIP() << "the kernel allows no process_vm_readv";
  EXPECT_EQ(code_of(status), Code::kFailedPrecondition);
}

// The owner has asked the reader to let go, and did not get an answer in time.
TEST_F(Late, AReadOfAnArenaThatIsTakenBackMeanwhileFails) {
  if (!is("shm")) GTEST_SKIP() << "nothing is mapped, or reads are done under a lock";
  open();
  auto piece = make_piece(b(), kLateBytes);
  Stall stall(StallPoint::kReadMapped);
  Status status;
  std::thread reader([&] { status = read_into_stall(piece.remote); });
  ASSERT_TRUE(Stall::await(soon()));
  EXPECT_EQ(code_of(b().revoke(piece.remote, in(50ms))), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(piece.region.close(in(50ms))), Code::kDeadlineExceeded);
  overwrite(piece.bytes());
  taken_back_ = true;
  Stall::let_go();
  reader.join();
  EXPECT_EQ(code_of(status), Code::kFailedPrecondition);
  must(piece.region.close(soon()));
}

TEST_F(Late, MemoryOfThePoolIsNotUsedAgainWhileAPeerMayWriteIt) {
  if (!is("shm")) GTEST_SKIP() << "nothing is mapped, or copies are done under a lock";
  open();
  auto piece = make_piece(b(), kLateBytes);
  const auto* begin = piece.data();
  Stall stall(StallPoint::kReadMapped);
  std::thread reader([&] { (void)read_into_stall(piece.remote); });
  ASSERT_TRUE(Stall::await(soon()));
  EXPECT_EQ(code_of(b().revoke(piece.remote, in(50ms))), Code::kDeadlineExceeded);
  piece.region.reset();  // returns at once
  EXPECT_EQ(b().stats().retired_bytes, kLateBytes);
  for (int i = 0; i < 8; ++i) {
    auto other = must(b().allocate(kLateBytes));
    EXPECT_TRUE(other.data() + kLateBytes <= begin || begin + kLateBytes <= other.data());
  }
  Stall::let_go();
  reader.join();
  for (auto deadline = soon(); b().stats().retired_bytes != 0 && !deadline.expired();)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(b().stats().retired_bytes, 0U);
}

// The sender's deadline comes while the receiver is about to copy the last bytes: the message that
// the receiver then has is torn, and must not be handed out.
TEST_F(Late, AMessageThatWasGivenUpIsNotReceived) {
  if (!is("shm")) GTEST_SKIP() << "the sender's process serves reads of own memory";
  open();
  open_mail({.chunk_bytes = 512 << 10, .copy_up_to = 0}, {.chunk_bytes = 512 << 10});
  std::uint64_t torn = 0;
  constexpr std::uint64_t kLast = 1000;
  std::thread receiver([&] {
    for (std::uint64_t seed = 0; seed != kLast;) {
      auto message = must(at_b().receive(soon()));
      std::memcpy(&seed, message.parts()[0].data(), sizeof seed);
      if (seed != kLast && !stamped(message.parts()[1], seed)) ++torn;
    }
  });
  Bytes own(kLateBytes);
  auto send = [&](std::uint64_t seed, std::size_t size, Deadline deadline) {
    stamp(std::span(own).first(size), seed);
    Views parts{std::as_bytes(std::span(&seed, 1)), std::span(own).first(size)};
    return at_a().send_and_wait(parts, deadline);
  };
  Stall stall(StallPoint::kReadByKernel);
  Status status;
  for (std::uint64_t seed = 1; seed < 32 && !Stall::reached(); ++seed)
    status = send(seed, own.size(), in(500ms));
  bool stopped = Stall::reached();
  if (stopped) {
    EXPECT_EQ(code_of(status), Code::kDeadlineExceeded);
    overwrite(own);
  }
  Stall::let_go();
  must(send(kLast, 0, soon()));
  receiver.join();
  EXPECT_EQ(torn, 0U) << "a torn message was called whole";
  if (!stopped) GTEST_SKIP() << "the kernel allows no process_vm_readv";
}

}  // namespace
}  // namespace ferry::contract
