#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "ferry/fabric/tcp/receiver_internal.h"

namespace ferry::fabric::tcp {
namespace {

// Writes down what arrives, payloads in memory of their own.
class Recorder : public FrameSink {
 public:
  Status begin(const Header& header) override {
    ids.push_back(header.id);
    payloads.emplace_back(payload_of(header));
    return {};
  }
  std::byte* place(std::uint64_t at) override {
    return drop_all ? nullptr : payloads.back().data() + at;
  }
  Status end() override {
    ++ended;
    return {};
  }
  std::vector<std::uint64_t> ids;
  std::vector<std::vector<std::byte>> payloads;
  std::size_t ended = 0;
  bool drop_all = false;
};

struct Stream {
  std::vector<std::byte> bytes;
  std::vector<std::vector<std::byte>> payloads;
};

Stream make_stream(std::span<const std::size_t> sizes) {
  Stream stream;
  std::mt19937 random(7);
  std::uint64_t id = 0;
  for (auto size : sizes) {
    Header header;
    header.type = static_cast<std::uint8_t>(FrameType::kWrite);
    header.id = ++id;
    header.length = size;
    std::vector<std::byte> payload(size);
    for (auto& byte : payload) byte = static_cast<std::byte>(random());
    auto* raw = reinterpret_cast<const std::byte*>(&header);
    stream.bytes.insert(stream.bytes.end(), raw, raw + sizeof header);
    stream.bytes.insert(stream.bytes.end(), payload.begin(), payload.end());
    stream.payloads.push_back(std::move(payload));
  }
  return stream;
}

// Hands the stream over in pieces of at most `most` bytes, as a socket would.
Status hand_over(Receiver& receiver, std::span<const std::byte> bytes, std::size_t most) {
  while (!bytes.empty()) {
    std::array<iovec, 2> gaps;
    int count = receiver.gaps(gaps);
    std::size_t filled = 0;
    for (int i = 0; i < count; ++i) {
      auto& gap = gaps[static_cast<std::size_t>(i)];
      auto part = std::min({bytes.size(), gap.iov_len, most - filled});
      std::memcpy(gap.iov_base, bytes.data(), part);
      bytes = bytes.subspan(part);
      filled += part;
      if (part < gap.iov_len) break;
    }
    FERRY_TRY(receiver.filled(filled));
  }
  return {};
}

constexpr std::size_t kSizes[] = {0,     1,     64,    0,     4096, 8112, 8113, 100000, 80, 16384,
                                  16383, 40000, 50000, 70000, 3,    0,    8192, 5,      5,  5};

class TcpReceiver : public ::testing::TestWithParam<std::size_t> {};

TEST_P(TcpReceiver, CutsTheSameFramesHoweverTheBytesCome) {
  auto stream = make_stream(kSizes);
  std::vector<std::byte> dump(512);
  Recorder recorder;
  Receiver receiver(recorder, dump);
  ASSERT_TRUE(hand_over(receiver, stream.bytes, GetParam()));
  EXPECT_EQ(recorder.ended, std::size(kSizes));
  ASSERT_EQ(recorder.payloads.size(), stream.payloads.size());
  for (std::size_t i = 0; i < stream.payloads.size(); ++i)
    EXPECT_EQ(recorder.payloads[i], stream.payloads[i]) << "frame " << i;
}

TEST_P(TcpReceiver, DropsWhatHasNoPlaceAndKeepsTheOrder) {
  auto stream = make_stream(kSizes);
  std::vector<std::byte> dump(512);
  Recorder recorder;
  recorder.drop_all = true;
  Receiver receiver(recorder, dump);
  ASSERT_TRUE(hand_over(receiver, stream.bytes, GetParam()));
  EXPECT_EQ(recorder.ended, std::size(kSizes));
  EXPECT_EQ(recorder.ids.back(), std::size(kSizes));
}

INSTANTIATE_TEST_SUITE_P(Pieces, TcpReceiver,
                         ::testing::Values(1, 7, 79, 80, 81, 1000, 4096, 1 << 20));

TEST(TcpReceiverGarbage, IsRefused) {
  std::vector<std::byte> garbage(kHeaderBytes, std::byte{0xff});
  std::vector<std::byte> dump(512);
  Recorder recorder;
  Receiver receiver(recorder, dump);
  auto status = hand_over(receiver, garbage, 4096);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(recorder.ids.empty());
}

}  // namespace
}  // namespace ferry::fabric::tcp
