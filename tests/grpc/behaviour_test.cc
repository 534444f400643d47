#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/grpc/kit.h"
#include "tests/grpc/serve.h"

// What gRPC does for its users, with the same assertions on TCP and with the plug-in.

namespace {

using ferry::test::Echo;
using ferry::test::EchoCallback;
using ferry::test::Words;

std::chrono::system_clock::time_point in_seconds(double seconds) {
  return std::chrono::system_clock::now() +
         std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

constexpr double kLong = 60;  // nothing here takes so long

class GrpcBehaviour : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new Server; }
  static void TearDownTestSuite() {
    EXPECT_EQ(server_->stop(), 0);
    if (has_plugin()) {
      EXPECT_THAT(server_->report(), testing::HasSubstr("from ipv4:127.0.0.1"));
    } else {
      EXPECT_EQ(server_->report(), "");
    }
    delete server_;
  }

  static Words words(std::size_t bytes, std::int64_t number = 1) {
    Words made;
    made.set_payload(stamped(bytes, static_cast<std::uint64_t>(number)));
    made.set_number(number);
    return made;
  }

  static Server* server_;
  std::unique_ptr<Echo::Stub> stub_ = Echo::NewStub(server_->channel());
};

Server* GrpcBehaviour::server_ = nullptr;

TEST_F(GrpcBehaviour, UnaryOfManySizes) {
  for (std::size_t bytes :
       {0, 1, 100, 8000, 8192, 9000, 16384, 65536, 1 << 20, 5'000'001, 33 << 20}) {
    grpc::ClientContext context;
    context.set_deadline(in_seconds(kLong));
    Words said;
    const auto asked = words(bytes, static_cast<std::int64_t>(bytes));
    const auto status = stub_->Unary(&context, asked, &said);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(said.payload() == asked.payload(), true) << bytes;
  }
}

TEST_F(GrpcBehaviour, ManySmallCalls) {
  for (int i = 0; i < 500; ++i) {
    grpc::ClientContext context;
    context.set_deadline(in_seconds(kLong));
    Words said;
    ASSERT_TRUE(stub_->Unary(&context, words(64, i), &said).ok());
    ASSERT_EQ(said.payload(), words(64, i).payload());
  }
}

TEST_F(GrpcBehaviour, ClientStreams) {
  grpc::ClientContext context;
  context.set_deadline(in_seconds(kLong));
  Words said;
  auto out = stub_->Gather(&context, &said);
  std::int64_t bytes = 0;
  for (int i = 0; i < 100; ++i) {
    const auto one = words(static_cast<std::size_t>(i) * 3001, i);
    bytes += static_cast<std::int64_t>(one.payload().size());
    ASSERT_TRUE(out->Write(one));
  }
  ASSERT_TRUE(out->WritesDone());
  ASSERT_TRUE(out->Finish().ok());
  EXPECT_EQ(said.number(), bytes);
}

TEST_F(GrpcBehaviour, ServerStreams) {
  grpc::ClientContext context;
  context.set_deadline(in_seconds(kLong));
  Words asked;
  asked.set_number(40);
  asked.set_answer_bytes(300'000);
  auto in = stub_->Scatter(&context, asked);
  Words one;
  std::int64_t count = 0;
  while (in->Read(&one)) {
    ASSERT_EQ(one.number(), count);
    ASSERT_EQ(one.payload(), std::string(300'000, static_cast<char>(count)));
    ++count;
  }
  EXPECT_TRUE(in->Finish().ok());
  EXPECT_EQ(count, 40);
}

TEST_F(GrpcBehaviour, BothStream) {
  grpc::ClientContext context;
  context.set_deadline(in_seconds(kLong));
  auto talk = stub_->Talk(&context);
  for (int i = 0; i < 200; ++i) {
    const auto asked = words(static_cast<std::size_t>(i % 7) * 10'000, i);
    ASSERT_TRUE(talk->Write(asked));
    Words said;
    ASSERT_TRUE(talk->Read(&said));
    ASSERT_EQ(said.payload(), asked.payload());
  }
  talk->WritesDone();
  EXPECT_TRUE(talk->Finish().ok());
}

// A reader that is slower than the writer: flow control holds the writer, and nothing is lost.
TEST_F(GrpcBehaviour, SlowReadersHoldWriters) {
  grpc::ClientContext context;
  context.set_deadline(in_seconds(kLong));
  Words asked;
  asked.set_number(60);
  asked.set_answer_bytes(1 << 20);
  auto in = stub_->Scatter(&context, asked);
  Words one;
  std::int64_t count = 0;
  while (in->Read(&one)) {
    if (count++ % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ASSERT_EQ(one.payload().size(), 1U << 20);
  }
  EXPECT_TRUE(in->Finish().ok());
  EXPECT_EQ(count, 60);
}

TEST_F(GrpcBehaviour, CallbackApi) {
  auto stub = EchoCallback::NewStub(server_->channel());
  std::mutex lock;
  std::condition_variable changed;
  constexpr int kCalls = 50;
  int left = kCalls;
  int good = 0;
  struct Call {
    grpc::ClientContext context;
    Words asked;
    Words said;
  };
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < kCalls; ++i) {
    auto* call = calls.emplace_back(std::make_unique<Call>()).get();
    call->context.set_deadline(in_seconds(kLong));
    call->asked = words(static_cast<std::size_t>(i) * 5000, i);
    stub->async()->Unary(&call->context, &call->asked, &call->said, [&, call](grpc::Status status) {
      std::lock_guard guard(lock);
      good += status.ok() && call->said.payload() == call->asked.payload() ? 1 : 0;
      if (--left == 0) changed.notify_all();
    });
  }
  std::unique_lock guard(lock);
  ASSERT_TRUE(
      changed.wait_for(guard, std::chrono::duration<double>(kLong), [&] { return left == 0; }));
  EXPECT_EQ(good, kCalls);
}

TEST_F(GrpcBehaviour, CallbackServerStreams) {
  auto stub = EchoCallback::NewStub(server_->channel());
  grpc::ClientContext context;
  context.set_deadline(in_seconds(kLong));
  auto talk = stub->Talk(&context);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(talk->Write(words(20'000, i)));
    Words said;
    ASSERT_TRUE(talk->Read(&said));
    ASSERT_EQ(said.payload(), words(20'000, i).payload());
  }
  talk->WritesDone();
  EXPECT_TRUE(talk->Finish().ok());
}

TEST_F(GrpcBehaviour, AsynchronousApi) {
  grpc::CompletionQueue queue;
  struct Call {
    grpc::ClientContext context;
    Words said;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Words>> reader;
  };
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 64; ++i) {
    auto* call = calls.emplace_back(std::make_unique<Call>()).get();
    call->context.set_deadline(in_seconds(kLong));
    call->reader =
        stub_->AsyncUnary(&call->context, words(static_cast<std::size_t>(i) * 4000, i), &queue);
    call->reader->Finish(&call->said, &call->status, call);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    ASSERT_TRUE(ok && static_cast<Call*>(tag)->status.ok());
  }
  for (std::size_t i = 0; i < calls.size(); ++i)
    ASSERT_EQ(calls[i]->said.payload(), words(i * 4000, static_cast<std::int64_t>(i)).payload());
  queue.Shutdown();
}

// Bytes without protobuf, kept by the program for a while: more than may be lent.
TEST_F(GrpcBehaviour, RawBytesAreKept) {
  const auto channel = server_->channel();
  std::vector<grpc::ByteBuffer> kept;
  std::vector<std::string> texts;
  for (int i = 0; i < 24; ++i) {
    texts.push_back(stamped(static_cast<std::size_t>(i) << 20, static_cast<std::uint64_t>(i)));
    grpc::Slice slice(texts.back());
    const auto status =
        call_raw(channel, kRawMethod, grpc::ByteBuffer(&slice, 1), &kept.emplace_back());
    ASSERT_TRUE(status.ok()) << i << ": " << status.error_message();
  }
  for (std::size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(text_of(kept[i]) == texts[i], true) << i;
}

TEST_F(GrpcBehaviour, LargeMetadata) {
  grpc::ClientContext context;
  context.set_deadline(in_seconds(kLong));
  for (int i = 0; i < 20; ++i)
    context.AddMetadata("x-big-" + std::to_string(i),
                        std::string(20'000, static_cast<char>('a' + i)));
  Words said;
  ASSERT_TRUE(stub_->Unary(&context, words(10), &said).ok());
  const auto& trailing = context.GetServerTrailingMetadata();
  for (int i = 0; i < 20; ++i) {
    auto found = trailing.find("x-big-" + std::to_string(i));
    ASSERT_NE(found, trailing.end());
    EXPECT_EQ(std::string(found->second.data(), found->second.size()),
              std::string(20'000, static_cast<char>('a' + i)));
  }
}

TEST_F(GrpcBehaviour, StatusesCross) {
  grpc::ClientContext context;
  context.set_deadline(in_seconds(kLong));
  auto asked = words(10);
  asked.set_fail_with(grpc::StatusCode::ALREADY_EXISTS);
  Words said;
  const auto status = stub_->Unary(&context, asked, &said);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(status.error_message(), "as asked for");
}

TEST_F(GrpcBehaviour, DeadlinesHold) {
  grpc::ClientContext context;
  context.set_deadline(in_seconds(0.2));
  auto asked = words(10);
  asked.set_sleep_ms(1000);
  Words said;
  EXPECT_EQ(stub_->Unary(&context, asked, &said).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(GrpcBehaviour, CallsAreCancelled) {
  grpc::ClientContext context;
  context.set_deadline(in_seconds(kLong));
  auto talk = stub_->Talk(&context);
  ASSERT_TRUE(talk->Write(words(1 << 20)));
  context.TryCancel();
  EXPECT_EQ(talk->Finish().error_code(), grpc::StatusCode::CANCELLED);
  grpc::ClientContext next;
  next.set_deadline(in_seconds(kLong));
  Words said;
  EXPECT_TRUE(stub_->Unary(&next, words(100), &said).ok());
}

// Eight threads on one channel: unary calls and streams at once, every byte looked at.
TEST_F(GrpcBehaviour, ManyThreadsShareAChannel) {
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      if (t % 2 == 0) {
        for (int i = 0; i < 250; ++i) {
          grpc::ClientContext context;
          context.set_deadline(in_seconds(kLong));
          const auto asked = words(static_cast<std::size_t>((i * 37 + t) % 50) * 701, i * 8 + t);
          Words said;
          bad += stub_->Unary(&context, asked, &said).ok() && said.payload() == asked.payload() ? 0
                                                                                                : 1;
        }
        return;
      }
      grpc::ClientContext context;
      context.set_deadline(in_seconds(kLong));
      auto talk = stub_->Talk(&context);
      for (int i = 0; i < 60; ++i) {
        const auto asked = words(static_cast<std::size_t>(i) * 3333, i * 8 + t);
        Words said;
        bad += talk->Write(asked) && talk->Read(&said) && said.payload() == asked.payload() ? 0 : 1;
      }
      talk->WritesDone();
      bad += talk->Finish().ok() ? 0 : 1;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(bad.load(), 0);
}

// Eight threads, small and large calls, every byte looked at.
TEST_F(GrpcBehaviour, AHundredThousandCalls) {
  constexpr int kCalls = 12'500;
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        grpc::ClientContext context;
        context.set_deadline(in_seconds(kLong));
        const bool large = i % 100 == t;
        const auto asked = words(large ? 70'000 : static_cast<std::size_t>(i % 600), i * 8 + t);
        Words said;
        const bool good = stub_->Unary(&context, asked, &said).ok();
        bad += good && said.number() == asked.number() && said.payload() == asked.payload() ? 0 : 1;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(bad.load(), 0);
}

TEST_F(GrpcBehaviour, ManyChannelsOfOneProcess) {
  std::vector<std::unique_ptr<Echo::Stub>> stubs;
  for (int i = 0; i < 20; ++i) stubs.push_back(Echo::NewStub(server_->channel()));
  for (int round = 0; round < 3; ++round)
    for (auto& stub : stubs) {
      grpc::ClientContext context;
      context.set_deadline(in_seconds(kLong));
      Words said;
      ASSERT_TRUE(stub->Unary(&context, words(30'000, round), &said).ok());
      ASSERT_EQ(said.payload(), words(30'000, round).payload());
    }
}

}  // namespace
