#include <atomic>

#include "tests/contract/mail_kit.h"

// What takes long is done without the mailbox's lock.

namespace ferry::contract {
namespace {

class MailLock : public MailTest, public ::testing::WithParamInterface<bool> {
 protected:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  static constexpr int kAttempts = 20;  // on a loaded machine the other thread may get no core

  // How often another thread got at the mailbox after the announcement was heard, and before the
  // message was handed out, which maps or copies it.
  std::uint64_t looks_during(std::uint64_t number, Message& message) {
    std::atomic<bool> handed_out{false};
    std::uint64_t looks = 0;
    std::thread other([&] {
      while (!handed_out.load()) looks += at_b().stats().heard >= number ? 1 : 0;
    });
    message = must(at_b().receive_begun(soon()));
    handed_out = true;
    other.join();
    return looks;
  }
};

TEST_P(MailLock, IsFreeWhileAMessageIsMappedOrCopied) {
  bool mapped = GetParam();
  if (settings().provider != "shm") GTEST_SKIP() << "it neither maps nor copies in the call";
  open();
  open_mail({.send_bytes = kAttempts * kBytes}, {.chunk_bytes = kBytes});
  std::uint64_t most = 0;
  Bytes own(mapped ? 0 : kBytes);
  std::vector<mail::MailBuffer> buffers;  // each is new to the receiver
  for (int i = 1; i <= kAttempts && most < 10; ++i) {
    if (mapped) buffers.push_back(must(at_a().allocate(kBytes)));
    std::span<std::byte> bytes = mapped ? buffers.back().bytes() : std::span(own);
    stamp(bytes.first(64), static_cast<std::uint64_t>(i));
    auto sending = at_a().send(bytes, soon());
    Message message;
    most = std::max(most, looks_during(static_cast<std::uint64_t>(i), message));
    must(message.wait_bytes(kBytes, soon()));
    EXPECT_TRUE(stamped(message.parts()[0].first(64), static_cast<std::uint64_t>(i)));
    must(sending.wait());
  }
  EXPECT_GE(most, 10U);
}
INSTANTIATE_TEST_SUITE_P(All, MailLock, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Mapped" : "Copied"; });

}  // namespace
}  // namespace ferry::contract
