#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "ferry/ps/wire/protocol_version_internal.h"
#include "ferry/ps/wire/rpc_internal.h"
#include "tests/ps/kit.h"

namespace ferry::ps::testing {
namespace {

Deadline in_time() { return Deadline::after(std::chrono::seconds(60)); }

// Answers questions of one kind, and lets the others wait.
class SomeAnswers final : public RpcServer::Handler {
 public:
  Result<std::optional<Bytes>> asked(const RpcServer::Question& question,
                                     bootstrap::Decoder& /*body*/) override {
    return question.what == Ask::kNames ? std::optional(Bytes()) : std::nullopt;
  }
  void gone(std::uint64_t /*peer*/) override {}
};

// A member that asks as it likes.
class RudeClient {
 public:
  explicit RudeClient(const std::string& endpoint, const fabric::Options& options = {})
      : device_(must(fabric::Device::open(control_options(options)))),
        channel_(must(device_.connect(endpoint, {.deadline = in_time()}))),
        room_(must(mail::MailRoom::open(device_, {.tuning = mail::TuningUse::kOff}))),
        box_(must(mail::Mailbox::open(room_, device_, channel_, {}, in_time()))) {}

  void ask(std::uint64_t id, Ask what, const Bytes& body = {}) {
    Bytes question;
    bootstrap::Encoder(question).u64(id).u32(static_cast<std::uint32_t>(what)).raw(body);
    must(box_.send_and_wait(question, in_time()));
  }
  // Which question was answered, and with what code.
  std::pair<std::uint64_t, Code> next_answer() {
    const auto message = must(box_.receive(in_time()));
    bootstrap::Decoder in(message.parts()[0]);
    const auto id = in.u64();
    return {id, static_cast<Code>(in.u8())};
  }

 private:
  fabric::Device device_;
  fabric::Channel channel_;
  mail::MailRoom room_;
  mail::Mailbox box_;
};

class RpcServerTest : public ::testing::Test {
 protected:
  void SetUp() override { must(RpcServer::open(control_options({}), answers_, server_)); }
  SomeAnswers answers_;
  std::unique_ptr<RpcServer> server_;
};

// Each of them used to be kept for as long as it waited.
TEST_F(RpcServerTest, QuestionsOfOnePeerThatWaitAreBounded) {
  RudeClient rude(server_->endpoint());
  for (std::uint64_t id = 1; id <= RpcServer::kMostWaiting + 1; ++id) rude.ask(id, Ask::kFind);
  const auto refused =
      std::pair(std::uint64_t{RpcServer::kMostWaiting + 1}, Code::kResourceExhausted);
  EXPECT_EQ(rude.next_answer(), refused);
}

// A worker that waits asks again and again. Its former questions used to be left without an answer,
// so that one that had waited long was refused for good.
TEST(RpcOfScheduler, AWorkerMayAskAtABarrierAsLongAsItLikes) {
  constexpr std::uint64_t kTimes = 2000;
  Job job("tcp", {.servers = 1, .workers = 2});
  std::uint64_t last_id = 0;
  const auto join = [&](RudeClient& worker) {
    Bytes wish;
    bootstrap::Encoder out(wish);
    put_protocol_version(out);
    out.u32(~0U);
    worker.ask(++last_id, Ask::kJoinWorker, wish);
    ASSERT_EQ(worker.next_answer(), std::pair(last_id, Code::kOk));
  };
  const auto endpoint = job.worker_options().scheduler;
  RudeClient waits(endpoint, device_options("tcp"));
  RudeClient other(endpoint, device_options("tcp"));
  join(waits);
  join(other);
  Bytes first;
  bootstrap::Encoder(first).u64(1);
  waits.ask(++last_id, Ask::kBarrier, first);
  for (std::uint64_t time = 1; time < kTimes; ++time) {
    const auto former = last_id;
    waits.ask(++last_id, Ask::kBarrier, first);
    ASSERT_EQ(waits.next_answer(), std::pair(former, Code::kCancelled)) << time;
  }
  const auto newest = last_id;
  other.ask(++last_id, Ask::kBarrier, first);
  EXPECT_EQ(waits.next_answer(), std::pair(newest, Code::kOk));
  EXPECT_EQ(other.next_answer(), std::pair(last_id, Code::kOk));
}

// It used to be waited for, up to ten seconds, and then lost its next answers.
TEST_F(RpcServerTest, APeerThatTakesNoAnswersIsNotWaitedForAndKeepsThem) {
  constexpr std::uint64_t kQuestions = 100;  // more than the slots of its mailbox have room for
  RudeClient rude(server_->endpoint());
  auto device = must(fabric::Device::open(control_options({})));
  auto other = must(RpcClient::connect(device, server_->endpoint(), in_time()));
  const auto before = now_ns();
  for (std::uint64_t id = 1; id <= kQuestions; ++id) rude.ask(id, Ask::kNames);
  must(other->call(Ask::kNames, {}, in_time()));
  EXPECT_LT(Nanos(now_ns() - before), std::chrono::seconds(5));
  for (std::uint64_t id = 1; id <= kQuestions; ++id)
    ASSERT_EQ(rude.next_answer(), std::pair(id, Code::kOk));
}

// A peer that takes one now and then used to have everybody else wait just as long.
TEST_F(RpcServerTest, APeerThatTakesItsAnswersSlowlyIsNotWaitedFor) {
  RudeClient rude(server_->endpoint());
  auto device = must(fabric::Device::open(control_options({})));
  auto other = must(RpcClient::connect(device, server_->endpoint(), in_time()));
  const auto before = now_ns();
  for (std::uint64_t id = 1; id <= 40; ++id) rude.ask(id, Ask::kNames);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(rude.next_answer(), std::pair(id, Code::kOk));
    must(other->call(Ask::kNames, {}, in_time()));
  }
  EXPECT_LT(Nanos(now_ns() - before), std::chrono::seconds(5));
}

// What it does not take is bounded, too, and it can go at any time.
TEST_F(RpcServerTest, AnswersThatAPeerDoesNotTakeAreBounded) {
  auto device = must(fabric::Device::open(control_options({})));
  auto other = must(RpcClient::connect(device, server_->endpoint(), in_time()));
  {
    RudeClient rude(server_->endpoint());
    for (std::uint64_t id = 1; id <= 2 * RpcServer::kMostWaiting; ++id) rude.ask(id, Ask::kNames);
    must(other->call(Ask::kNames, {}, in_time()));
    EXPECT_EQ(rude.next_answer(), std::pair(std::uint64_t{1}, Code::kOk));
  }
  must(other->call(Ask::kNames, {}, in_time()));
}

}  // namespace
}  // namespace ferry::ps::testing
