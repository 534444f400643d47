#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "ferry/base/fd.h"
#include "ferry/bootstrap/frame.h"
#include "ferry/fabric/outbox_internal.h"

namespace ferry::fabric {
namespace {

struct OutboxSockets {
  Fd near;
  Fd far;
  OutboxSockets() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    near = Fd(ends[0]);
    far = Fd(ends[1]);
  }
};

// Reads up to `most` bytes into the reader and checks that frames come in order.
std::size_t read_frames(int fd, std::size_t most, bootstrap::FrameReader& reader,
                        std::uint64_t& next) {
  std::vector<std::byte> buffer(most);
  auto got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got <= 0) return 0;
  reader.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
  while (auto frame = *reader.next()) EXPECT_EQ(frame->id, next++);
  return static_cast<std::size_t>(got);
}

TEST(Outbox, GivesBackTheMemoryOfWhatHasLeftWhileMoreKeepsComing) {
  OutboxSockets pair;
  Outbox::Total total{0};
  Outbox out(total);
  bootstrap::FrameReader reader;
  const std::vector<std::byte> payload(1000);
  std::uint64_t id = 0;
  std::uint64_t next = 0;
  std::uint64_t passed = 0;
  while (passed < (std::size_t{64} << 20)) {
    // The outbox is never empty, as with a peer that always leaves something unread.
    while (out.unsent() < 100'000) {
      out.append(1, id++, payload, true);
      ASSERT_TRUE(out.flush(pair.near.get()));
    }
    passed += read_frames(pair.far.get(), 30'000, reader, next);
    ASSERT_TRUE(out.flush(pair.near.get()));
    ASSERT_LE(out.held(), 400'000U) << "after " << passed << " bytes";
    ASSERT_EQ(total.load(), out.unsent());
    ASSERT_EQ(out.unsent_answers(), out.unsent());
  }
  while (!out.empty()) {
    read_frames(pair.far.get(), 30'000, reader, next);
    ASSERT_TRUE(out.flush(pair.near.get()));
  }
  while (read_frames(pair.far.get(), 30'000, reader, next) != 0) {
  }
  EXPECT_EQ(next, id);
  EXPECT_EQ(total.load(), 0U);
  EXPECT_LE(out.held(), 4096U);
}

TEST(Outbox, TellsAnswersFromWhatNobodyAskedFor) {
  OutboxSockets pair;
  Outbox::Total total{0};
  {
    Outbox out(total);
    const std::vector<std::byte> payload(84);  // a frame of 100 bytes
    while (out.empty()) {                      // fill the socket
      out.append(1, 0, payload, false);
      ASSERT_TRUE(out.flush(pair.near.get()));
    }
    EXPECT_EQ(out.unsent_answers(), 0U);
    out.append(1, 0, payload, true);
    out.append(1, 0, payload, true);
    out.append(1, 0, payload, false);
    out.append(1, 0, payload, true);
    EXPECT_EQ(out.unsent_answers(), 300U);
    EXPECT_GE(out.unsent(), 401U);
    std::vector<std::byte> buffer(4096);
    while (!out.empty()) {
      ASSERT_GT(::recv(pair.far.get(), buffer.data(), buffer.size(), 0), 0);
      ASSERT_TRUE(out.flush(pair.near.get()));
      ASSERT_LE(out.unsent_answers(), out.unsent());
    }
    EXPECT_EQ(out.unsent_answers(), 0U);
    while (out.empty()) {
      out.append(1, 0, payload, true);
      ASSERT_TRUE(out.flush(pair.near.get()));
    }
    EXPECT_EQ(total.load(), out.unsent());
  }
  EXPECT_EQ(total.load(), 0U) << "a session that ends leaves nothing in the total";
}

TEST(Outbox, NamesTheErrorOfTheSocket) {
  OutboxSockets pair;
  Outbox::Total total{0};
  Outbox out(total);
  pair.far.reset();
  out.append(1, 0, {}, false);
  EXPECT_FALSE(out.flush(pair.near.get()));
}

}  // namespace
}  // namespace ferry::fabric
