// Many who want to join a device at once, and strangers who only take up room.

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <deque>
#include <latch>
#include <map>

#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/dial.h"
#include "ferry/fabric/introduction_internal.h"
#include "tests/process/kit.h"

namespace ferry::process {
namespace {

void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

bool has_descriptors(rlim_t count) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_max >= count;
}

bootstrap::Hello hello_of(int number) {
  bootstrap::Hello hello;
  hello.session = static_cast<std::uint64_t>(number);
  fabric::Introduction mine;
  mine.identity.endpoint = "127.0.0.1:9";
  mine.identity.host = "elsewhere";
  mine.offers["tcp"] = {};
  hello.blob = mine.encode();
  return hello;
}

// What went wrong, and how often. Thread-safe.
class Complaints {
 public:
  void add(const std::string& text) {
    LockGuard<Mutex> guard(lock_);
    ++counts_[text];
  }
  std::string to_string() {
    LockGuard<Mutex> guard(lock_);
    std::string all;
    for (const auto& [text, count] : counts_) all += std::to_string(count) + " x " + text + "\n";
    return all;
  }

 private:
  Mutex lock_;
  std::map<std::string, int> counts_;
};

std::string thousand_join_at_once() {
  raise_descriptor_limit();
  constexpr int kCount = 1000;
  auto options = options_for("tcp");
  options.patience = 100;   // handshakes take long where all come at once
  options.give_up = 10min;  // members that say nothing further stay
  auto device = must(Device::open(options));
  auto endpoint = must(bootstrap::Endpoint::parse(device.endpoint()));
  auto secret = must(bootstrap::Secret::from_text(kSecret));
  Complaints complaints;
  std::vector<Fd> sockets(kCount);
  std::vector<std::thread> threads;
  std::latch start(kCount);
  for (int i = 0; i < kCount; ++i) {
    threads.emplace_back([&, i] {
      auto hello = hello_of(i);
      start.arrive_and_wait();
      auto made = bootstrap::dial(endpoint, secret, hello, Deadline::after(60s));
      if (made) {
        sockets[static_cast<std::size_t>(i)] = std::move(made->socket);
      } else {
        complaints.add(made.error().message());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  // The last newcomer has its answer a moment before the device counts it.
  auto sessions = [&] { return device.stats().sessions; };
  for (auto limit = soon(); sessions() != kCount && !limit.expired();)
    std::this_thread::sleep_for(1ms);
  if (sessions() != kCount) complaints.add("sessions: " + std::to_string(sessions()));
  return complaints.to_string();
}

TEST(Crowd, AThousandJoinAtOnce) {
  if (!has_descriptors(4096)) GTEST_SKIP() << "4096 descriptors are needed: ulimit -Hn";
  EXPECT_EQ(in_child(thousand_join_at_once, 120s), "");
}

// Devices need a lane each, too.
std::string devices_connect_at_once() {
  raise_descriptor_limit();
  constexpr int kCount = 200;
  auto device = open_device("tcp");
  auto region = must(device.allocate(8 * kCount));
  must(device.publish("weights", must(device.grant(region, Rights::kWrite))));
  std::vector<Device> devices;
  for (int i = 0; i < kCount; ++i) devices.push_back(open_device("tcp"));
  Complaints complaints;
  std::vector<std::thread> threads;
  std::latch start(kCount);
  std::latch end(kCount);
  for (int i = 0; i < kCount; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      auto limit = Deadline::after(60s);
      auto channel =
          devices[static_cast<std::size_t>(i)].connect(device.endpoint(), {.deadline = limit});
      Status status;
      if (!channel) status = tl::unexpected<Error>(channel.error());
      if (status) {
        auto remote = channel->look_up("weights", limit);
        const std::uint64_t value = 1;
        status = remote
                     ? channel
                           ->write(std::as_bytes(std::span(&value, 1)),
                                   {*remote, 8 * static_cast<std::size_t>(i)}, {.deadline = limit})
                           .wait()
                     : tl::unexpected<Error>(remote.error());
      }
      if (!status) complaints.add(status.error().to_string());
      end.arrive_and_wait();
    });
  }
  for (auto& thread : threads) thread.join();
  return complaints.to_string();
}

TEST(Crowd, DevicesConnectAtOnce) {
  if (!has_descriptors(8192)) GTEST_SKIP() << "8192 descriptors are needed: ulimit -Hn";
  EXPECT_EQ(in_child(devices_connect_at_once, 120s), "");
}

// Connects without the secret as fast as it can, and holds the last few hundred connections.
class Flood {
 public:
  Flood(const Device& device, bool speaks)
      : endpoint_(must(bootstrap::Endpoint::parse(device.endpoint()))),
        speaks_(speaks),
        thread_([this] { run(); }) {}
  ~Flood() {
    stop_ = true;
    thread_.join();
  }
  void wait_for(std::uint64_t more) const {
    auto goal = count_ + more;
    for (auto limit = soon(); count_ < goal && !limit.expired();) std::this_thread::sleep_for(1ms);
  }

 private:
  void run() {
    std::vector<std::byte> opening;
    bootstrap::Encoder(opening).raw(std::as_bytes(std::span("FRRY", 4))).u16(1).u16(1);
    opening.resize(40);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(endpoint_.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::deque<Fd> held;
    while (!stop_) {
      Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      linger reset{1, 0};  // keeps no port in TIME_WAIT
      ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
      if (speaks_) ::send(socket.get(), opening.data(), opening.size(), MSG_NOSIGNAL);
      held.push_back(std::move(socket));
      if (held.size() > 400) held.pop_front();
      ++count_;
    }
  }

  const bootstrap::Endpoint endpoint_;
  const bool speaks_;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void connect_beside_a_flood(bool speaks) {
  auto device = open_device("tcp");
  Bystander bystander(device, "tcp");
  Flood flood(device, speaks);
  flood.wait_for(2000);
  for (int i = 0; i < 5; ++i) {
    auto honest = open_device("tcp");
    auto channel = honest.connect(device.endpoint(), {.deadline = Deadline::after(60s)});
    EXPECT_EQ(code_of(channel), Code::kOk) << (channel ? "" : channel.error().to_string());
    if (channel) must(device.accept(soon()));
    flood.wait_for(500);
  }
  EXPECT_EQ(bystander.complaint(), "");
}

TEST(Crowd, AMemberGetsInBesideASilentFlood) { connect_beside_a_flood(false); }

TEST(Crowd, AMemberGetsInBesideAFloodThatBeginsHandshakes) { connect_beside_a_flood(true); }

// Nothing is gained by asking again.
TEST(Crowd, ARefusalIsFinal) {
  auto device = open_device("tcp");
  auto options = options_for("tcp");
  options.secret = "a guess at the secret";
  auto stranger = must(Device::open(options));
  auto refused = device.stats().peers_refused;
  auto channel = stranger.connect(device.endpoint(), {.deadline = Deadline::after(600s)});
  EXPECT_EQ(code_of(channel), Code::kUnauthenticated);
  EXPECT_LE(device.stats().peers_refused, refused + 1);
  auto gone = must(bootstrap::listen_tcp(must(bootstrap::Endpoint::parse("127.0.0.1:0")), 1));
  auto nobody = must(bootstrap::local_endpoint(gone.get())).to_string();
  gone.reset();
  EXPECT_EQ(code_of(stranger.connect(nobody, {.deadline = Deadline::after(600s)})),
            Code::kUnavailable);
}

}  // namespace
}  // namespace ferry::process
