#include "ferry/mail/mail_hub.h"

#include <atomic>
#include <thread>

#include "tests/contract/mail_kit.h"

// Who receives: the hub's own thread, or one that waits for what comes.

namespace ferry::contract {
namespace {

using mail::MailHub;

// Answers every message, or counts answers, in their order.
class Clerk final : public MailHub::Handler {
 public:
  explicit Clerk(bool answers) : answers_(answers) {}

  void arrived(const std::shared_ptr<MailHub::Peer>& from, Message message) override {
    std::uint64_t number = 0;
    ASSERT_EQ(message.bytes(), sizeof number);
    std::memcpy(&number, message.parts()[0].data(), sizeof number);
    if (answers_) return must(from->box->send_and_wait(message.parts()[0], soon()));
    EXPECT_EQ(number, ++last_);
    if (inside) {
      EXPECT_FALSE(inside()) << "a handler received";
    }
    ++answers;
  }
  void gone(MailHub::PeerId) override { ++left; }

  std::atomic<std::uint64_t> answers{0};
  std::atomic<int> left{0};
  std::function<bool()> inside;

 private:
  const bool answers_;
  std::uint64_t last_ = 0;
};

class MailHubs : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    here_.emplace(open_device());
    there_.emplace(open_device());
    hub_ = must(MailHub::open(*here_, {}, {}, asker_));
    other_ = must(MailHub::open(*there_, {}, {}, answerer_));
    peer_ = must(hub_->connect(there_->endpoint(), soon()));
  }
  void TearDown() override {
    peer_.reset();
    hub_.reset();
    other_.reset();
    here_.reset();
    there_.reset();
    ContractTest::TearDown();
  }
  // True once so many answers have come.
  std::function<bool()> have(std::uint64_t count) {
    return [this, count] { return asker_.answers >= count; };
  }
  void ask(std::uint64_t number) {
    must(peer_->box->send_and_wait(std::as_bytes(std::span(&number, 1)), soon()));
  }

  Clerk asker_{false};
  Clerk answerer_{true};
  std::optional<Device> here_;
  std::optional<Device> there_;
  std::unique_ptr<MailHub> hub_;
  std::unique_ptr<MailHub> other_;
  std::shared_ptr<MailHub::Peer> peer_;
};

TEST_F(MailHubs, GuestsAndTheHubTakeTurns) {
  asker_.inside = [&] { return hub_->receive_until([] { return true; }, soon()); };
  for (std::uint64_t number = 1; number <= 300; ++number) {
    ask(number);
    if (number % 3 == 0) {  // nobody waits: the hub's thread comes back
      const auto limit = soon();
      while (!have(number)() && !limit.expired()) std::this_thread::sleep_for(1ms);
      ASSERT_TRUE(have(number)());
    } else {
      ASSERT_TRUE(hub_->receive_until(have(number), soon())) << number;
    }
  }
}

TEST_F(MailHubs, OneGuestAtATime) {
  std::atomic<bool> there{false};
  std::thread first(
      [&] { EXPECT_TRUE(hub_->receive_until([&] { return there = true, have(1)(); }, soon())); });
  const auto limit = soon();
  while (!there && !limit.expired()) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(hub_->receive_until([] { return true; }, soon()));
  ask(1);
  first.join();
  EXPECT_FALSE(hub_->receive_until(have(2), in(20ms))) << "the deadline counts";
}

TEST_F(MailHubs, APeerIsGoneOnce) {
  ask(1);
  ASSERT_TRUE(hub_->receive_until(have(1), soon()));
  other_.reset();
  there_.reset();
  EXPECT_TRUE(hub_->receive_until([&] { return asker_.left != 0; }, soon()));
  EXPECT_FALSE(hub_->receive_until(have(2), in(30ms)));
  EXPECT_EQ(asker_.left, 1);
}

}  // namespace
}  // namespace ferry::contract
