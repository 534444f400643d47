// A member of the cluster that takes more than its share of a device's control plane.

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <fstream>

#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/frame.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/fabric/introduction_internal.h"
#include "ferry/fabric/session_frames_internal.h"
#include "tests/process/kit.h"

namespace ferry::process {
namespace {

using fabric::FrameType;

// A control connection of a member, in the hands of the test.
Fd join_by_hand(const Device& device, int receive_buffer = 0) {
  auto endpoint = must(bootstrap::Endpoint::parse(device.endpoint()));
  auto socket = must(bootstrap::connect_tcp(endpoint, soon()));
  if (receive_buffer != 0)
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  bootstrap::Hello hello;
  hello.session = 77;
  fabric::Introduction mine;
  mine.identity.endpoint = "127.0.0.1:9";
  mine.identity.host = "elsewhere";
  mine.offers["tcp"] = {};
  hello.blob = mine.encode();
  must(bootstrap::join(socket.get(), bootstrap::Role::kConnector,
                       must(bootstrap::Secret::from_text(kSecret)), hello, soon()));
  return socket;
}

std::vector<std::byte> frames(FrameType type, std::size_t count,
                              std::span<const std::byte> payload = {}) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i < count; ++i)
    bootstrap::append_frame(out, static_cast<std::uint16_t>(type), i, payload);
  return out;
}

// Sends pings without a pause and reads what comes back, until it is destroyed.
class PingFlood {
 public:
  explicit PingFlood(const Device& device)
      : socket_(join_by_hand(device)), sender_([this] { send(); }), reader_([this] { read(); }) {}
  ~PingFlood() {
    ::shutdown(socket_.get(), SHUT_RDWR);
    sender_.join();
    reader_.join();
  }
  std::uint64_t sent() const { return sent_; }

 private:
  void send() {
    auto pings = frames(FrameType::kPing, 8192);
    for (;;) {
      if (!bootstrap::send_all(socket_.get(), pings, Deadline::after(60s))) return;
      sent_ += pings.size();
    }
  }
  void read() const {
    std::vector<char> buffer(std::size_t{1} << 20);
    for (;;) {
      auto got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      pollfd ready{socket_.get(), POLLIN, 0};
      if (got < 0 && errno == EAGAIN) {
        ::poll(&ready, 1, 100);
      } else if (got <= 0) {
        return;
      }
    }
  }

  Fd socket_;
  std::atomic<std::uint64_t> sent_{0};
  std::thread sender_;
  std::thread reader_;
};

// The loop used to read one connection for as long as there was something to read.
TEST(OneMember, DoesNotStarveOthersByPings) {
  auto device = open_device("tcp");
  auto region = must(device.allocate(4096));
  must(device.publish("weights", must(device.grant(region, Rights::kRead))));
  auto honest = open_device("tcp");
  auto channel = must(honest.connect(device.endpoint(), {.deadline = soon()}));
  auto accepted = must(device.accept(soon()));
  PingFlood flood(device);
  for (auto limit = soon(); flood.sent() < (1U << 20) && !limit.expired();)
    std::this_thread::sleep_for(1ms);
  for (int i = 0; i < 30; ++i) {
    auto before = flood.sent();
    ASSERT_EQ(code_of(channel.look_up("weights", soon())), Code::kOk) << "look-up " << i;
    for (auto limit = soon(); flood.sent() == before && !limit.expired();)
      std::this_thread::sleep_for(1ms);
    ASSERT_NE(flood.sent(), before) << "the flood goes on, too: nobody is shut out";
  }
  EXPECT_EQ(device.stats().peers_lost, 0U);
}

// The sanitizers keep freed memory for a while: nothing can be said of it then.
std::size_t resident_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#endif
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages >> pages;
  return pages * 4096;
}

// A request whose answer, an error that names the provider, is about as long as itself.
std::vector<std::byte> question(std::size_t id) {
  std::vector<std::byte> payload;
  bootstrap::Encoder(payload).u32(1).string(std::string(250, 'n')).bytes({});
  std::vector<std::byte> out;
  bootstrap::append_frame(out, static_cast<std::uint16_t>(FrameType::kOpenLane), id, payload);
  return out;
}

// Asks until the device takes no more, or `most` bytes have been asked. Whole requests only.
std::size_t ask_and_never_read(int socket, std::size_t most) {
  std::size_t asked = 0;
  for (std::size_t bytes = 0; bytes < most;) {
    auto next = question(asked);
    pollfd room{socket, POLLOUT, 0};
    if (::poll(&room, 1, 1000) <= 0) break;
    if (!bootstrap::send_all(socket, next, soon())) break;
    bytes += next.size();
    ++asked;
  }
  return asked;
}

// Answers used to be kept for a peer that does not read them, up to 16 MiB for each session.
TEST(OneMember, IsNotReadWhileItDoesNotTakeItsAnswers) {
  auto options = options_for("tcp");
  options.give_up = 10min;  // it is silent for a while
  auto device = must(Device::open(options));
  auto socket = join_by_hand(device, 65536);
  int small = 65536;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  auto before = resident_bytes();
  constexpr std::size_t kMost = std::size_t{64} << 20;
  auto asked = ask_and_never_read(socket.get(), kMost);
  EXPECT_LT(asked * question(0).size(), kMost) << "the device must push back";
  EXPECT_LT(resident_bytes(), before + (std::size_t{8} << 20));
  ASSERT_EQ(device.stats().sessions, 1U) << "and must not give the peer up";
  // Once it reads, every answer comes, in order.
  bootstrap::FrameReader reader;
  std::vector<std::byte> buffer(65536);
  std::size_t answered = 0;
  for (auto limit = Deadline::after(60s); answered < asked && !limit.expired();) {
    pollfd ready{socket.get(), POLLIN, 0};
    if (::poll(&ready, 1, 100) <= 0) continue;
    auto got = ::recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    ASSERT_GT(got, 0) << "after " << answered << " of " << asked << " answers";
    reader.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
    while (auto frame = must(reader.next())) {
      if (frame->type != static_cast<std::uint16_t>(FrameType::kAnswer)) continue;
      ASSERT_EQ(frame->id, answered++);
    }
  }
  EXPECT_EQ(answered, asked);
}

// One member that joins many times.
TEST(OneMember, HoldsLittleOfADevicesMemoryByManySessions) {
  auto options = options_for("tcp");
  // The kernel drops what finds no room in a small buffer, and may do so for longer than a host may
  // acknowledge nothing: this is about the device alone.
  options.give_up = 10min;
  options.patience = 30;
  auto device = must(Device::open(options));
  constexpr int kSessions = 40;
  std::vector<Fd> sockets;
  for (int i = 0; i < kSessions; ++i) sockets.push_back(join_by_hand(device, 65536));
  auto before = resident_bytes();
  std::vector<std::byte> many;
  while (many.size() < 65536) {
    auto next = question(many.size());
    many.insert(many.end(), next.begin(), next.end());
  }
  // The kernel takes its part of it, for each socket at both ends; what it takes is not ours.
  std::vector<std::size_t> sent(sockets.size(), 0);
  auto quiet = Deadline::after(2s);
  for (auto limit = Deadline::after(60s); !quiet.expired() && !limit.expired();) {
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      auto at = sent[i] % many.size();
      auto took =
          ::send(sockets[i].get(), many.data() + at, many.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (took <= 0) continue;
      sent[i] += static_cast<std::size_t>(took);
      quiet = Deadline::after(2s);
    }
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(quiet.expired()) << "the device must push back on every session";
  EXPECT_LT(resident_bytes(), before + kSessions * (std::size_t{256} << 10));
  EXPECT_EQ(device.stats().sessions, static_cast<std::uint64_t>(kSessions));
}

// All members used to share one limit of look-ups that wait: that of names.
TEST(OneMember, DoesNotTakeThePlacesOfOthersWhoWaitForNames) {
  auto options = options_for("tcp");
  options.max_names = 10;
  auto device = must(Device::open(options));
  auto region = must(device.allocate(4096));
  auto grant = must(device.grant(region, Rights::kRead));
  auto socket = join_by_hand(device);
  std::vector<std::byte> payload;
  bootstrap::Encoder(payload).u32(60'000).string("never");
  must(bootstrap::send_all(socket.get(), frames(FrameType::kLookUp, 1000, payload), soon()));
  // Frames are handled in order: what is over the limit is refused by the time it answers.
  bootstrap::FrameReader reader;
  for (bool refused = false; !refused;) {
    std::byte byte{};
    must(bootstrap::receive_all(socket.get(), {&byte, 1}, soon()));
    reader.feed({&byte, 1});
    auto frame = must(reader.next());
    refused = frame && frame->type == static_cast<std::uint16_t>(FrameType::kAnswer);
  }
  auto honest = open_device("tcp");
  auto channel = must(honest.connect(device.endpoint(), {.deadline = soon()}));
  auto found = Code::kUnknown;
  std::thread waiter([&] { found = code_of(channel.look_up("later", soon())); });
  std::this_thread::sleep_for(50ms);
  auto published = device.publish("later", grant);
  waiter.join();
  EXPECT_TRUE(published);
  EXPECT_EQ(found, Code::kOk);
}

}  // namespace
}  // namespace ferry::process
