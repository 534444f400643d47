// More processes than cores: eight on two cores, each writing to all others, beside two of them.
//
// Every process writes seven tensors a round, so that a round's work is the same in both cases: one
// to each other process of eight, all seven to the only other one of two. Bytes are checked by
// marks.

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "bench/limits/tensor.h"
#include "bench/rounds/fact.h"
#include "bench/rounds/need.h"
#include "ferry/cli/common/random_secret.h"
#include "ferry/cli/common/stats.h"
#include "ferry/ferry.h"

namespace ferry::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kProcesses = 8;
constexpr int kTensors = kProcesses - 1;
constexpr int kBursts = 3;
constexpr auto kPatience = 30s;
constexpr std::size_t kFlagBytes = 64;
// What all processes together write in a burst.
constexpr std::uint64_t kBurstBytes = std::uint64_t{128} << 20;

// Tensor `index` of a process goes to the (index + 1)th process after it, over again when there are
// fewer. It lands in the receiver's slot `index`, so every slot has one writer.
int receiver_of(int me, int index, int active) { return (me + 1 + index % (active - 1)) % active; }
int writer_of(int me, int index, int active) {
  return (me + active - 1 - index % (active - 1)) % active;
}

// Written by one process in one round: no two alike.
std::uint64_t mark_of(std::uint64_t round, int writer) {
  return round * kProcesses + static_cast<std::uint64_t>(writer);
}

struct Peer {
  Channel channel;
  RemoteRegion slots;
};

class Member {
 public:
  Member(Team& team, int me, const fabric::Options& options, std::uint64_t bytes)
      : team_(team), me_(me), bytes_(bytes), device_(need(Device::open(options))) {
    source_ = need(device_.allocate(bytes_));
    limits::fill(source_.bytes());
    slots_ = need(device_.allocate(2 * kTensors * bytes_ + kTensors * kFlagBytes));
    std::memset(slots_.data(), 0, slots_.size());
    need(device_.publish("slots", need(device_.grant(slots_, Rights::kReadWrite))));
    team_.set_endpoint(me_, device_.endpoint());
    team_.meet();
    for (int to = 0; to < kProcesses; ++to) {
      if (to == me_) continue;
      auto& peer = peers_.at(static_cast<std::size_t>(to));
      peer.channel = need(device_.connect(team_.endpoint(to)));
      peer.slots = need(peer.channel.look_up("slots", Deadline::after(kPatience)));
    }
    for (int i = 1; i < kProcesses; ++i)
      accepted_.push_back(need(device_.accept(Deadline::after(kPatience))));
    team_.meet();
  }

  // Nanoseconds of the rounds among the first `active` processes; the others sleep.
  double burst(int active) {
    const auto per_round = static_cast<std::uint64_t>(active) * kTensors * bytes_;
    const auto rounds = std::max<std::uint64_t>(kBurstBytes / per_round, 2);
    team_.meet();
    const auto start = now_ns();
    for (std::uint64_t i = 0; i < rounds && me_ < active; ++i) one_round(active);
    team_.meet();
    // Flags only grow, also those of processes that slept.
    round_ = rounds_before_ += rounds;
    return static_cast<double>(now_ns() - start) / static_cast<double>(rounds * per_round);
  }

 private:
  // A writer is at most one round ahead of its readers: it starts round n + 1 when it has all of
  // round n, which its readers wrote after they had read round n - 1. So two slots are enough.
  void one_round(int active) {
    ++round_;
    limits::stamp(source_.bytes(), mark_of(round_, me_));
    std::array<Transfer, kTensors> sent;
    for (int i = 0; i < kTensors; ++i) {
      auto& peer = peers_.at(static_cast<std::size_t>(receiver_of(me_, i, active)));
      sent.at(static_cast<std::size_t>(i)) = peer.channel.write_flagged(
          source_.bytes(), {peer.slots, slot_at(i)}, {peer.slots, flag_at(i)}, round_);
    }
    for (int i = 0; i < kTensors; ++i) check(i, active);
    for (auto& transfer : sent) need(transfer.wait());
  }

  void check(int index, int active) {
    need(device_.wait_flag(slots_.data() + flag_at(index), round_, Deadline::after(kPatience)));
    const std::array<std::span<const std::byte>, 1> tensor = {
        slots_.bytes().subspan(slot_at(index), bytes_)};
    if (limits::missing_stamps(tensor, bytes_, mark_of(round_, writer_of(me_, index, active))) > 0)
      throw limits::Failure("WRONG DATA: a tensor lacks its marks");
  }

  std::uint64_t slot_at(int index) const {
    return (2 * static_cast<std::uint64_t>(index) + round_ % 2) * bytes_;
  }
  std::uint64_t flag_at(int index) const {
    return 2 * kTensors * bytes_ + static_cast<std::uint64_t>(index) * kFlagBytes;
  }

  Team& team_;
  const int me_;
  const std::uint64_t bytes_;
  Device device_;
  Region source_;
  Region slots_;
  std::array<Peer, kProcesses> peers_;
  std::vector<Channel> accepted_;
  std::uint64_t round_ = 0;
  std::uint64_t rounds_before_ = 0;
};

// The cores that all processes share, whatever the machine has.
void keep_to_two_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int kept = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && ++kept > 2) CPU_CLR(core, &allowed);
  }
  sched_setaffinity(0, sizeof allowed, &allowed);
}

void take_part(Team& team, int me, const fabric::Options& options, std::uint64_t bytes) {
  Member member(team, me, options, bytes);
  member.burst(2);
  member.burst(kProcesses);
  std::vector<double> ratios;
  for (int i = 0; i < kBursts; ++i) {
    const auto two = member.burst(2);
    const auto eight = member.burst(kProcesses);
    ratios.push_back(eight / two);
  }
  if (me == 0) team.report(0, cli::median(ratios));
  team.meet();
}

}  // namespace

double measure_crowd(const FactSetting& setting) {
  keep_to_two_cores();
  fabric::Options options;
  options.provider = setting.provider;
  options.secret = need(cli::random_secret());
  options.arena_bytes = std::size_t{20} << 20;
  Team team(kProcesses);
  team.start([&](Team& all, int me) { take_part(all, me, options, setting.bytes); });
  team.finish();
  return team.reported(0);
}

}  // namespace ferry::bench
