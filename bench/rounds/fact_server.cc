// One server process with many clients: each sends a request through a mailbox and waits for the
// answer. The server has one room for all of them and takes whichever has something. Requests and
// answers are checked by marks at both ends of them.

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "bench/limits/tensor.h"
#include "bench/rounds/fact.h"
#include "bench/rounds/need.h"
#include "ferry/cli/common/random_secret.h"
#include "ferry/ferry.h"

namespace ferry::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kServerPatience = 30s;
constexpr std::size_t kAnswerBytes = 64;
constexpr std::size_t kGoodByeBytes = 1;
// Of the time measured, what goes before it.
constexpr double kWarmShare = 0.2;

Deadline server_patience() { return Deadline::after(kServerPatience); }

void check_marks(const Message& message, std::uint64_t bytes, std::uint64_t mark) {
  if (message.bytes() != bytes || limits::missing_stamps(message.parts(), bytes, mark) > 0)
    throw limits::Failure("WRONG DATA: a message lacks its marks");
}

// What the server has of one client. Stays where it is.
struct Served {
  Channel channel;
  std::optional<Mailbox> box;
  std::uint64_t id = 0;
  std::uint64_t calls = 0;
};

class CallServer {
 public:
  CallServer(Team& team, const fabric::Options& options, std::uint64_t bytes)
      : bytes_(bytes), device_(need(Device::open(options))), room_(need(MailRoom::open(device_))) {
    team.set_endpoint(0, device_.endpoint());
    team.meet();
    for (int i = 1; i < team.members(); ++i) accept_one();
  }

  // Until every client has said good-bye.
  void serve() {
    while (!boxes_.empty()) {
      const auto index = need(room_.wait_any(boxes_, server_patience()));
      if (!answer_one(*clients_[index])) {
        boxes_.erase(boxes_.begin() + static_cast<std::ptrdiff_t>(index));
        std::rotate(clients_.begin() + static_cast<std::ptrdiff_t>(index),
                    clients_.begin() + static_cast<std::ptrdiff_t>(index) + 1, clients_.end());
      }
    }
  }

 private:
  // Its first message says who it is.
  void accept_one() {
    auto& client = *clients_.emplace_back(std::make_unique<Served>());
    client.channel = need(device_.accept(server_patience()));
    client.box = need(Mailbox::open(room_, device_, client.channel, {}, server_patience()));
    const auto hello = need(client.box->receive(server_patience()));
    if (hello.bytes() != sizeof client.id) throw limits::Failure("a client's name is cut off");
    std::memcpy(&client.id, hello.parts()[0].data(), sizeof client.id);
    boxes_.push_back(&*client.box);
  }

  // False when it was a good-bye.
  bool answer_one(Served& client) {
    auto request = need(client.box->receive(server_patience()));
    if (request.bytes() == kGoodByeBytes) return false;
    const auto mark = limits::call_mark(++client.calls, client.id);
    check_marks(request, bytes_, mark);
    need(request.release());
    limits::stamp(answer_, mark);
    need(client.box->send_and_wait(answer_, server_patience()));
    return true;
  }

  const std::uint64_t bytes_;
  Device device_;
  MailRoom room_;
  // Those that are still there come first, in the order of `boxes_`.
  std::vector<std::unique_ptr<Served>> clients_;
  std::vector<Mailbox*> boxes_;
  std::array<std::byte, kAnswerBytes> answer_{};
};

class CallClient {
 public:
  CallClient(Team& team, int me, const fabric::Options& options, std::uint64_t bytes)
      : id_(static_cast<std::uint64_t>(me)),
        device_(need(Device::open(options))),
        room_(need(MailRoom::open(device_))),
        request_(bytes) {
    team.meet();
    channel_ = need(device_.connect(team.endpoint(0)));
    box_ = need(Mailbox::open(room_, device_, channel_, {}, server_patience()));
    need(box_->send_and_wait(std::as_bytes(std::span(&id_, 1)), server_patience()));
  }

  void say_good_bye() {
    const std::array<std::byte, kGoodByeBytes> word{};
    need(box_->send_and_wait(word, server_patience()));
  }

  void call() {
    const auto mark = limits::call_mark(++calls_, id_);
    limits::stamp(request_, mark);
    const auto deadline = server_patience();
    need(box_->send_and_wait(request_, deadline));
    check_marks(need(box_->receive(deadline)), kAnswerBytes, mark);
  }

 private:
  const std::uint64_t id_;
  Device device_;
  Channel channel_;
  MailRoom room_;
  std::optional<Mailbox> box_;
  std::vector<std::byte> request_;
  std::uint64_t calls_ = 0;
};

void take_part_in_calls(Team& team, int me, const fabric::Options& options,
                        const FactSetting& setting) {
  if (me == 0) {
    CallServer server(team, options, setting.bytes);
    team.report(0, static_cast<double>(now_ns()));
    team.meet();
    server.serve();
    team.meet();
    return;
  }
  CallClient client(team, me, options, setting.bytes);
  team.meet();
  // The same for all clients, whenever each of them gets a core.
  const auto begin = team.reported(0) + setting.seconds * kWarmShare * 1e9;
  const auto count =
      limits::calls_within(begin, begin + setting.seconds * 1e9, [&] { client.call(); });
  team.report(static_cast<std::size_t>(me), count / setting.seconds);
  client.say_good_bye();
  // Nobody leaves while another still needs it.
  team.meet();
}

}  // namespace

double measure_server(const FactSetting& setting) {
  fabric::Options options;
  options.provider = setting.provider;
  options.secret = need(cli::random_secret());
  Team team(setting.clients + 1);
  team.start([&](Team& all, int me) {
    auto mine = options;
    if (me > 0) mine.arena_bytes = std::size_t{8} << 20;
    take_part_in_calls(all, me, mine, setting);
  });
  team.finish();
  double calls = 0;
  for (int me = 1; me <= setting.clients; ++me)
    calls += team.reported(static_cast<std::size_t>(me));
  return calls;
}

}  // namespace ferry::bench
