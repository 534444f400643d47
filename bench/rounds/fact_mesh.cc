// Four processes, fully connected: in each round every process sends a message to each other one
// and reads theirs, a word of every cache line. Messages are made in memory of their mailbox and
// marked; the marks are checked.

#include <algorithm>
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

constexpr int kNodes = 4;
constexpr int kTrialRounds = 4;

Deadline mesh_patience() { return Deadline::after(30s); }

// Sent by one process in one round: no two alike.
std::uint64_t mesh_mark(std::uint64_t round, int sender) {
  return round * kNodes + static_cast<std::uint64_t>(sender);
}

// The way to one other process. Stays where it is.
struct Neighbour {
  int node = 0;
  Channel channel;
  std::optional<Mailbox> box;
};

class MeshNode {
 public:
  MeshNode(Team& team, int me, const fabric::Options& options, std::uint64_t bytes)
      : me_(me),
        bytes_(bytes),
        device_(need(Device::open(options))),
        room_(need(MailRoom::open(device_))) {
    team.set_endpoint(me_, device_.endpoint());
    team.meet();
    // Pair by pair, so that it is clear who is accepted.
    for (int low = 0; low < kNodes; ++low) {
      for (int high = low + 1; high < kNodes; ++high) {
        if (me_ == low) join(high, need(device_.connect(team.endpoint(high))));
        if (me_ == high) join(low, need(device_.accept(mesh_patience())));
        team.meet();
      }
    }
  }

  void play(std::uint64_t rounds) {
    for (; rounds > 0; --rounds) one_round();
  }

 private:
  void join(int node, Channel channel) {
    auto& there = *neighbours_.emplace_back(std::make_unique<Neighbour>());
    there.node = node;
    there.channel = std::move(channel);
    there.box = need(Mailbox::open(room_, device_, there.channel, {}, mesh_patience()));
  }

  void one_round() {
    ++round_;
    std::vector<mail::Sending> sends;
    std::vector<Mailbox*> waiting;
    std::vector<int> from;
    for (auto& there : neighbours_) {
      sends.push_back(send_to(*there->box));
      waiting.push_back(&*there->box);
      from.push_back(there->node);
    }
    while (!waiting.empty()) {
      const auto index = need(room_.wait_any(waiting, mesh_patience()));
      check(need(waiting[index]->receive(mesh_patience())), from[index]);
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(index));
      from.erase(from.begin() + static_cast<std::ptrdiff_t>(index));
    }
    for (auto& sending : sends) need(sending.wait());
  }

  // The memory is let go of at once: it comes back when the receiver has read it.
  mail::Sending send_to(Mailbox& box) {
    const auto message = need(box.allocate(bytes_));
    limits::stamp(message.bytes(), mesh_mark(round_, me_));
    return box.send(message.bytes(), mesh_patience());
  }

  void check(const Message& message, int sender) {
    if (message.bytes() != bytes_ ||
        limits::missing_stamps(message.parts(), bytes_, mesh_mark(round_, sender)) > 0)
      throw limits::Failure("WRONG DATA: a message lacks its marks");
    sink_ = limits::read_through(message.parts(), limits::Touch::kAll);
  }

  const int me_;
  const std::uint64_t bytes_;
  Device device_;
  MailRoom room_;
  std::vector<std::unique_ptr<Neighbour>> neighbours_;
  std::uint64_t round_ = 0;
  volatile std::uint64_t sink_ = 0;
};

// Nanoseconds of a round.
double timed_mesh(Team& team, MeshNode& node, std::uint64_t rounds) {
  team.meet();
  const auto start = now_ns();
  node.play(rounds);
  team.meet();
  return static_cast<double>(now_ns() - start) / static_cast<double>(rounds);
}

void take_part_in_mesh(Team& team, int me, const fabric::Options& options,
                       const FactSetting& setting) {
  MeshNode node(team, me, options, setting.bytes);
  node.play(kTrialRounds);
  const auto trial = timed_mesh(team, node, kTrialRounds);
  // The first process says how many rounds fit into the time.
  if (me == 0) team.report(0, std::max(2.0, setting.seconds * 1e9 / trial));
  team.meet();
  const auto rounds = static_cast<std::uint64_t>(team.reported(0));
  const auto ns = timed_mesh(team, node, rounds);
  if (me == 0) team.report(1, kNodes * (kNodes - 1) * static_cast<double>(setting.bytes) / ns);
  team.meet();
}

}  // namespace

double measure_mesh(const FactSetting& setting) {
  fabric::Options options;
  options.provider = setting.provider;
  options.secret = need(cli::random_secret());
  Team team(kNodes);
  team.start([&](Team& all, int me) { take_part_in_mesh(all, me, options, setting); });
  team.finish();
  return team.reported(1);
}

}  // namespace ferry::bench
