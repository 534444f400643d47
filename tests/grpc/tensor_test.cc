#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <thread>

#include "ferry/interop/grpc_tensor/tensor_service.h"
#include "tests/grpc/kit.h"
#include "tests/grpc/tensors.grpc.pb.h"
#include "tests/grpc/tensors.h"

// Tensors through generated services, without protobuf's class and with it; the same on TCP and
// with the plug-in.

namespace {

using ferry::grpc::TensorBuffer;
using ferry::grpc::TensorMessage;
using ferry::grpc::TensorStub;
using ferry::tensor::ElementType;
using ferry::tensor::Shape;
using ferry::tensor::Spec;
using ferry::test::PlainTensors;
using ferry::test::Tensors;
using testing::HasSubstr;

Spec floats(std::initializer_list<std::int64_t> dims) {
  return {ElementType::kF32, *Shape::of(dims)};
}

TensorBuffer counted(const Spec& spec, float first) {
  auto made = *TensorBuffer::allocate(spec);
  for (auto& element : made.fill_elements<float>()) element = first++;
  return made;
}

bool is_twice(std::span<const float> elements, float first) {
  return std::all_of(elements.begin(), elements.end(),
                     [&first](float element) { return element == 2 * first++; });
}

void limit(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
}

std::shared_ptr<grpc::Channel> tensor_channel(const Server& server) {
  grpc::ChannelArguments arguments;
  ferry::grpc::prepare_for_tensors(arguments);
  return server.channel(arguments);
}

class GrpcTensor : public testing::Test {
 protected:
  template <class Service>
  void expect_double(const Spec& spec) {
    TensorStub<Service> stub(channel_);
    grpc::ClientContext context;
    limit(context);
    TensorBuffer said;
    const auto status = stub.call("Double", &context, counted(spec, 3), &said);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(said.spec(), spec);
    EXPECT_TRUE(is_twice(said.elements<float>(), 3));
    const auto copies = context.GetServerTrailingMetadata().find(kTensorCopies);
    if (copies == context.GetServerTrailingMetadata().end()) return;
    server_copies_ = std::stoul(std::string(copies->second.data(), copies->second.size()));
  }
  template <class Service>
  void expect_talk() {
    TensorStub<Service> stub(channel_);
    grpc::ClientContext context;
    limit(context);
    auto talk = stub.template talk<TensorBuffer, TensorBuffer>("Talk", &context);
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(talk->Write(counted(floats({i, 1000}), static_cast<float>(i))));
      TensorBuffer said;
      ASSERT_TRUE(talk->Read(&said));
      EXPECT_EQ(said.shape().dim(0), i);
      EXPECT_TRUE(is_twice(said.elements<float>(), static_cast<float>(i)));
    }
    talk->WritesDone();
    EXPECT_TRUE(talk->Finish().ok());
  }
  grpc::Status send_raw(const std::string& bytes) {
    grpc::Slice slice(bytes);
    grpc::ByteBuffer said;
    return call_raw(channel_, "/ferry.test.Tensors/Double", grpc::ByteBuffer(&slice, 1), &said);
  }

  Server server_{{.tensors = true}};
  std::shared_ptr<grpc::Channel> channel_ = tensor_channel(server_);
  std::size_t server_copies_ = 0;
};

TEST_F(GrpcTensor, UnaryOfManyShapes) {
  for (const auto& spec : {floats({}), floats({0}), floats({1}), floats({3, 5}), floats({1, 0, 7}),
                           floats({33, 1000}), floats({2, 1 << 20})})
    expect_double<Tensors>(spec);
}

// What came in place of the server's memory stays as it is, though the connection is gone and the
// server goes on.
TEST_F(GrpcTensor, AnAnswerOutlivesItsConnection) {
  const auto spec = floats({1 << 18});
  std::vector<TensorBuffer> kept(3);
  for (std::size_t each = 0; each < kept.size(); ++each) {
    grpc::ClientContext context;
    limit(context);
    TensorStub<Tensors> stub(channel_);
    const auto status =
        stub.call("Double", &context, counted(spec, static_cast<float>(each * 10)), &kept[each]);
    ASSERT_TRUE(status.ok()) << status.error_message();
    channel_ = nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    channel_ = tensor_channel(server_);
    for (int more = 0; more < 5; ++more) expect_double<Tensors>(spec);
  }
  for (std::size_t each = 0; each < kept.size(); ++each)
    EXPECT_TRUE(is_twice(kept[each].elements<float>(), static_cast<float>(each * 10))) << each;
}

TEST_F(GrpcTensor, Streams) {
  expect_talk<Tensors>();
  TensorStub<Tensors> stub(channel_);
  grpc::ClientContext out_context;
  limit(out_context);
  TensorBuffer sum;
  auto out = stub.write<TensorBuffer>("Sum", &out_context, &sum);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(out->Write(counted(floats({100}), 0)));
  out->WritesDone();
  EXPECT_TRUE(out->Finish().ok());
  EXPECT_EQ(sum.elements<float>()[0], 49'500);
  grpc::ClientContext in_context;
  limit(in_context);
  auto in = stub.read<TensorBuffer>("Rows", &in_context, counted(floats({7, 50'000}), 0));
  float rows = 0;
  for (TensorBuffer one; in->Read(&one); ++rows)
    EXPECT_EQ(one.elements<float>()[1], rows * 5e4F + 1);
  EXPECT_TRUE(in->Finish().ok());
  EXPECT_EQ(rows, 7);
}

// A stock peer, on either side.
TEST_F(GrpcTensor, TheOtherEndHasProtobufsClass) {
  expect_double<PlainTensors>(floats({2, 3}));
  expect_double<PlainTensors>(floats({500, 1000}));
  expect_talk<PlainTensors>();
  auto stub = Tensors::NewStub(channel_);
  grpc::ClientContext context;
  limit(context);
  TensorMessage asked;
  asked.set_type(3);
  asked.add_shape(2);
  asked.add_shape(1000);
  const auto bytes = counted(floats({2, 1000}), 1);
  asked.set_data(bytes.bytes().data(), bytes.bytes().size());
  TensorMessage said;
  const auto status = stub->Double(&context, asked, &said);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(said.type(), 3U);
  EXPECT_THAT(said.shape(), testing::ElementsAre(2, 1000));
  ASSERT_EQ(said.data().size(), 8000U);
  EXPECT_TRUE(is_twice({reinterpret_cast<const float*>(said.data().data()), 2000}, 1));
}

// The bytes cross from the memory that the client has filled to where the server reads them, and
// back, without a copy of ours or of TensorBuffer's.
TEST_F(GrpcTensor, NothingIsCopied) {
  constexpr int kCalls = 10;
  constexpr std::int64_t kElements = 1 << 20;
  for (int i = 0; i < 3; ++i) expect_double<Tensors>(floats({kElements}));  // gRPC's windows open
  const auto before = TensorBuffer::copies();
  const auto servers = server_copies_;
  for (int i = 0; i < kCalls; ++i) expect_double<Tensors>(floats({kElements}));
  expect_double<Tensors>(floats({8 * kElements}));
  expect_double<Tensors>(floats({10'000}));
  if (!has_plugin()) return;
  EXPECT_EQ(TensorBuffer::copies(), before);
  EXPECT_EQ(server_copies_, servers);
  channel_ = nullptr;
  EXPECT_EQ(server_.stop(), 0);
  const auto report = server_.report();
  std::smatch found;
  ASSERT_TRUE(std::regex_search(report, found, std::regex("copies of (\\d+) bytes"))) << report;
  EXPECT_LT(std::stoul(found[1]), kElements * sizeof(float)) << report;
}

TEST_F(GrpcTensor, GarbageIsRefused) {
  const std::string head("\x08\x03\x12\x01\x02\x1a\x08", 7);  // f32[2], 8 bytes
  const std::string texts[] = {
      "",
      head,                                                         // cut off
      head + "1234567",                                             // one byte less
      head + "12345678" + "\x08",                                   // a field without its value
      std::string("\x08\x03\x12\x01\x03\x1a\x08", 7) + "12345678",  // of another shape
      std::string("\x08\x0b\x12\x01\x02\x1a\x08", 7) + "12345678",  // no such type
      std::string("\x12\x01\x02\x1a\x08", 5) + "12345678",          // no type
      std::string("\x08\x03\x12\x0a") + std::string(9, '\xff') + "\x01",  // -1
      std::string("\x08\x03\x12\x14") + std::string(8, '\xff') + "\x7f" + std::string(8, '\xff') +
          "\x7f",  // a product of more than 63 bits
      std::string("\x08\x03\x12\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01", 13),  // 9 dimensions
      std::string(11, '\xff'),
      "\x0b\x0c",  // a group
      std::string("\0\1", 2),
      stamped(1000, 9),
  };
  for (const auto& text : texts) {
    const auto status = send_raw(text);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << testing::PrintToString(text) << status.error_message();
  }
  EXPECT_TRUE(send_raw(head + "12345678").ok());
  // Unknown fields of all kinds, and the shape as numbers of their own.
  EXPECT_TRUE(send_raw(head.substr(0, 2) + "\x20\x05\x10\x01\x29"
                                           "12345678"
                                           "\x35"
                                           "1234"
                                           "\x10\x02\x3a\x01"
                                           "x\x1a\x08"
                                           "12345678")
                  .ok());
  expect_double<Tensors>(floats({10}));
}

// Messages that were good but for a few bits, in pieces: refused, or what they say they are.
TEST(GrpcTensorMessage, BitsThatFlip) {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same each time
  const auto good = counted(floats({3, 40}), 0).to_message();
  std::string text;
  for (const auto& slice : good) text.append(slice.begin(), slice.end());
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto bad = text.substr(0, i % 3 == 0 ? random() % text.size() : text.size());
    for (int flips = 0; flips < 3 && !bad.empty(); ++flips)
      bad[random() % std::min<std::size_t>(bad.size(), 12)] ^= static_cast<char>(1 << random() % 8);
    const auto cut = bad.empty() ? 0 : random() % bad.size();
    const auto made =
        TensorBuffer::from_message({grpc::Slice(bad.substr(0, cut)), grpc::Slice(bad.substr(cut))});
    if (made) {
      EXPECT_EQ(made->bytes().size(), *made->spec().bytes());
      EXPECT_LE(made->bytes().size(), bad.size());
    }
    refused += made ? 0 : 1;
  }
  EXPECT_GT(refused, 10'000);
}

TEST(GrpcTensorMessage, ATensorOfTheProgramsOwnIsNotCopied) {
  auto memory = std::make_shared<std::vector<float>>(1000, 1.5F);
  std::weak_ptr<std::vector<float>> watch = memory;
  auto bytes = std::as_writable_bytes(std::span(*memory));
  auto tensor = *ferry::tensor::Tensor::over(floats({10, 100}), bytes, memory);
  auto message = TensorBuffer::over(tensor)->to_message();
  tensor = {};
  memory = nullptr;
  ASSERT_EQ(message.size(), 2U);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(message[1].begin()), bytes.data());
  auto received = *TensorBuffer::from_message(std::move(message));
  EXPECT_EQ(received.bytes().data(), bytes.data());
  EXPECT_TRUE(received.fill().empty());
  EXPECT_FALSE(watch.expired());
  received = {};
  EXPECT_TRUE(watch.expired());
}

TEST(GrpcTensorMessage, TensorsThatCannotBeSent) {
  using ferry::Code;
  EXPECT_EQ(TensorBuffer::allocate({ElementType::kF64, *Shape::of({-1})}).error().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(TensorBuffer::allocate({ElementType::kF64, *Shape::of({1 << 28})}).error().code(),
            Code::kOutOfRange);
}

}  // namespace
