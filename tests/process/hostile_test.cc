// Peers that mean harm, or are broken, against a device's port.

#include <sys/socket.h>

#include <cstring>
#include <random>

#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/frame.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/fabric/introduction_internal.h"
#include "ferry/fabric/session_frames_internal.h"
#include "ferry/fabric/tcp/frame_internal.h"
#include "tests/process/kit.h"

namespace ferry::process {
namespace {

class HostilePeers : public ::testing::Test {
 protected:
  HostilePeers() : device_(open_device("tcp")), bystander_(std::in_place, device_, "tcp") {}
  ~HostilePeers() override { EXPECT_EQ(bystander_->complaint(), "") << "others must not notice"; }

  static bootstrap::Secret secret(const char* text = kSecret) {
    return must(bootstrap::Secret::from_text(text));
  }

  // A blob as a device of this cluster sends it.
  static std::vector<std::byte> introduction() {
    fabric::Introduction mine;
    mine.identity.endpoint = "127.0.0.1:9";
    mine.identity.host = "elsewhere";
    mine.offers["tcp"] = {};
    return mine.encode();
  }
  static bootstrap::Hello control_hello() {
    bootstrap::Hello hello;
    hello.session = 77;
    hello.device[0] = 1;
    hello.blob = introduction();
    return hello;
  }
  // An authenticated control connection in the hands of somebody who will abuse it.
  Fd join() {
    auto socket = dial(device_);
    must(bootstrap::join(socket.get(), bootstrap::Role::kConnector, secret(), control_hello(),
                         soon()));
    return socket;
  }
  static void send_bytes(int fd, std::span<const std::byte> bytes) {
    (void)bootstrap::send_all(fd, bytes, Deadline::after(2s));
  }
  static std::vector<std::byte> frame(std::uint16_t type, std::span<const std::byte> payload) {
    std::vector<std::byte> out;
    bootstrap::append_frame(out, type, 5, payload);
    return out;
  }
  std::vector<std::byte> noise(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random_());
    return bytes;
  }
  // Opens a tcp lane by hand up to the point where its frames begin.
  Fd open_lane(int control) {
    std::vector<std::byte> payload;
    bootstrap::Encoder(payload).u32(3).string("tcp").bytes({});
    send_bytes(control, frame(static_cast<std::uint16_t>(fabric::FrameType::kOpenLane), payload));
    auto token = read_token(control);
    bootstrap::Hello hello;
    hello.purpose = bootstrap::Purpose::kLane;
    hello.device[0] = 1;
    hello.session = token;
    hello.lane = 3;
    auto socket = dial(device_);
    must(bootstrap::join(socket.get(), bootstrap::Role::kConnector, secret(), hello, soon()));
    return socket;
  }
  static void say_lane_ready(int control) {
    std::vector<std::byte> payload;
    bootstrap::Encoder(payload).u32(3);
    send_bytes(control, frame(static_cast<std::uint16_t>(fabric::FrameType::kLaneReady), payload));
  }
  static std::uint64_t read_token(int control) {
    bootstrap::FrameReader reader;
    for (;;) {
      std::byte byte{};
      must(bootstrap::receive_all(control, {&byte, 1}, soon()));
      reader.feed({&byte, 1});
      auto next = must(reader.next());
      if (!next || next->type != static_cast<std::uint16_t>(fabric::FrameType::kAnswer)) continue;
      bootstrap::Decoder answer(next->payload);
      EXPECT_EQ(answer.u8(), 0);
      auto body = answer.bytes(64);
      return bootstrap::Decoder(body).u64();
    }
  }

  std::mt19937 random_{42};
  Device device_;
  std::optional<Bystander> bystander_;
};

TEST_F(HostilePeers, AWrongSecretIsToldSoAndCounted) {
  auto before = device_.stats().peers_refused;
  auto socket = dial(device_);
  auto joined = bootstrap::join(socket.get(), bootstrap::Role::kConnector,
                                secret("a guess at the secret"), control_hello(), soon());
  EXPECT_EQ(code_of(joined), Code::kUnauthenticated);
  EXPECT_TRUE(closed_by_peer(socket.get(), soon()));
  auto deadline = soon();  // the stranger may know before it is counted
  while (device_.stats().peers_refused == before && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(device_.stats().peers_refused, before + 1);
}

TEST_F(HostilePeers, AnotherVersionIsToldSo) {
  auto socket = dial(device_);
  auto hello = control_hello();
  hello.min_version = 900;
  hello.max_version = 901;
  EXPECT_EQ(
      code_of(bootstrap::join(socket.get(), bootstrap::Role::kConnector, secret(), hello, soon())),
      Code::kFailedPrecondition);
}

TEST_F(HostilePeers, GarbageIsCutOff) {
  auto before = device_.stats().peers_refused;
  for (int i = 0; i < 20; ++i) {
    auto socket = dial(device_);
    send_bytes(socket.get(), noise(1 + random_() % 5000));
    ::shutdown(socket.get(), SHUT_WR);
    EXPECT_TRUE(closed_by_peer(socket.get(), soon()));
  }
  auto deadline = soon();
  while (device_.stats().peers_refused < before + 20 && !deadline.expired()) {
    std::this_thread::yield();
  }
  EXPECT_GE(device_.stats().peers_refused, before + 20);
}

TEST_F(HostilePeers, StalledHandshakesBlockNobodyAndAreClosed) {
  std::vector<Fd> stalled;
  for (int i = 0; i < 30; ++i) {
    stalled.push_back(dial(device_));
    // Some say nothing, some begin.
    auto begin = std::as_bytes(std::span("FRRY", 4));
    if (i % 2 == 0) send_bytes(stalled.back().get(), begin);
  }
  auto good = open_device("tcp");
  EXPECT_EQ(code_of(good.connect(device_.endpoint(), {.deadline = soon()})), Code::kOk);
  for (auto& socket : stalled) EXPECT_TRUE(closed_by_peer(socket.get(), soon()));
  must(device_.accept(soon()));
}

TEST_F(HostilePeers, TooManyConnectionsAreRefusedAndItPasses) {
  std::vector<Fd> many;
  for (int i = 0; i < 400; ++i) many.push_back(dial(device_));
  EXPECT_EQ(bystander_->complaint(), "");
  many.clear();
  auto good = open_device("tcp");
  auto deadline = soon();
  Code last = Code::kUnknown;
  while (last != Code::kOk && !deadline.expired()) {
    last = code_of(good.connect(device_.endpoint(), {.deadline = soon()}));
  }
  EXPECT_EQ(last, Code::kOk);
}

TEST_F(HostilePeers, AHandshakeMayEndAtAnyByte) {
  for (int i = 0; i < 60; ++i) {
    auto socket = dial(device_);
    auto mine =
        must(bootstrap::Handshake::open(bootstrap::Role::kConnector, secret(), control_hello()));
    std::size_t allowed = random_() % 400;
    std::byte buffer[1024];
    while (allowed > 0 && !mine.done()) {
      auto out = mine.output();
      auto part = out.first(std::min(out.size(), allowed));
      send_bytes(socket.get(), part);
      allowed -= part.size();
      mine.consumed_output(part.size());
      auto got = ::recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (got > 0) (void)mine.consume({buffer, static_cast<std::size_t>(got)});
      if (got == 0) break;
    }
  }
  EXPECT_EQ(bystander_->complaint(), "");
}

TEST_F(HostilePeers, BrokenControlFramesEndOnlyTheirSession) {
  for (int i = 0; i < 40; ++i) {
    auto socket = join();
    // A header that is none.
    send_bytes(socket.get(), noise(16 + random_() % 3000));
    ::shutdown(socket.get(), SHUT_WR);
    EXPECT_TRUE(closed_by_peer(socket.get(), soon()));
  }
  auto deadline = soon();
  while (device_.stats().sessions > 1 && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(device_.stats().sessions, 1U);
}

TEST_F(HostilePeers, BrokenPayloadsOfEveryFrameAreSurvived) {
  for (std::uint16_t type = 0; type < 14; ++type) {
    for (std::size_t size : {0UL, 1UL, 4UL, 7UL, 100UL, 5000UL}) {
      auto socket = join();
      send_bytes(socket.get(), frame(type, noise(size)));
      std::vector<std::byte> zeros(size);
      send_bytes(socket.get(), frame(type, zeros));
      ::shutdown(socket.get(), SHUT_WR);
      EXPECT_TRUE(closed_by_peer(socket.get(), soon())) << type << " " << size;
    }
  }
  EXPECT_EQ(bystander_->complaint(), "");
}

TEST_F(HostilePeers, FramesMayEndAtAnyByte) {
  std::vector<std::byte> payload;
  bootstrap::Encoder(payload).u32(3).string("tcp").bytes({});
  auto whole = frame(static_cast<std::uint16_t>(fabric::FrameType::kOpenLane), payload);
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    auto socket = join();
    send_bytes(socket.get(), std::span(whole).first(cut));
  }
  EXPECT_EQ(bystander_->complaint(), "");
}

TEST_F(HostilePeers, BrokenLaneFramesEndOnlyTheirSession) {
  for (int i = 0; i < 30; ++i) {
    auto control = join();
    auto lane = open_lane(control.get());
    auto bytes = noise(80 + random_() % 1000);
    bytes[0] = static_cast<std::byte>(i % 14);  // every type of frame, with nonsense in it
    send_bytes(lane.get(), bytes);
    ::shutdown(lane.get(), SHUT_WR);
    EXPECT_TRUE(closed_by_peer(lane.get(), soon()));
  }
  EXPECT_EQ(bystander_->complaint(), "");
}

// The half of a write that was given up used to land as long as the old socket held it, over what
// was written on the new lane.
TEST_F(HostilePeers, BytesOfALaneThatWasGivenUpDoNotLandOnceItIsOpenedAnew) {
  auto region = must(device_.allocate(4096));
  std::memset(region.data(), 0, 4096);
  auto grant = must(device_.grant(region, Rights::kWrite));
  auto control = join();
  auto lane = open_lane(control.get());
  say_lane_ready(control.get());
  auto channel = must(device_.accept(soon()));
  fabric::tcp::Header header;
  header.type = static_cast<std::uint8_t>(fabric::tcp::FrameType::kWrite);
  header.id = 1;
  header.key = grant.key;
  header.epoch = grant.epoch;
  header.length = 4096;
  const std::vector<std::byte> half(2048, std::byte{1});
  send_bytes(lane.get(), std::as_bytes(std::span(&header, 1)));
  send_bytes(lane.get(), half);
  auto byte_at = [&](std::size_t at) {
    return __atomic_load_n(reinterpret_cast<unsigned char*>(region.data() + at), __ATOMIC_ACQUIRE);
  };
  for (auto deadline = soon(); byte_at(2047) != 1 && !deadline.expired();)
    std::this_thread::sleep_for(1ms);
  ASSERT_EQ(byte_at(2047), 1);
  auto next = open_lane(control.get());
  send_bytes(lane.get(), half);
  EXPECT_TRUE(closed_by_peer(lane.get(), Deadline::after(5s)));
  EXPECT_EQ(byte_at(2048), 0);
  EXPECT_EQ(byte_at(4095), 0);
}

TEST_F(HostilePeers, LaneTokensAreNotGuessed) {
  bootstrap::Hello hello;
  hello.purpose = bootstrap::Purpose::kLane;
  hello.session = 12345;
  auto socket = dial(device_);
  auto joined = bootstrap::join(socket.get(), bootstrap::Role::kConnector, secret(), hello, soon());
  EXPECT_TRUE(!joined || closed_by_peer(socket.get(), soon()));
}

TEST_F(HostilePeers, MoreSessionsThanAllowedAreRefusedByName) {
  auto options = options_for("tcp");
  options.max_sessions = 2;
  auto small = must(Device::open(options));
  std::vector<Device> devices;
  std::vector<Channel> channels;
  for (int i = 0; i < 2; ++i) {
    devices.push_back(open_device("tcp"));
    channels.push_back(must(devices.back().connect(small.endpoint(), {.deadline = soon()})));
  }
  auto third = open_device("tcp");
  EXPECT_EQ(code_of(third.connect(small.endpoint(), {.deadline = soon()})),
            Code::kResourceExhausted);
  channels.clear();
  auto deadline = soon();
  Code last = Code::kUnknown;
  while (last != Code::kOk && !deadline.expired()) {
    last = code_of(third.connect(small.endpoint(), {.deadline = soon()}));
  }
  EXPECT_EQ(last, Code::kOk) << "there is room again";
}

}  // namespace
}  // namespace ferry::process
