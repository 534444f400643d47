#include "bench/rounds/transfer_round.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/limits/round.h"
#include "bench/rounds/need.h"
#include "ferry/cli/common/random_secret.h"
#include "ferry/ferry.h"

namespace ferry::bench {
namespace {

using fabric::OpOptions;
using fabric::RemoteAt;

constexpr auto kRoundPatience = std::chrono::seconds(60);

struct Setting {
  std::string provider = "shm";
  std::string memory = "arena";   // arena, own, inplace
  std::string copy = "both";      // one, both
  std::string pattern = "round";  // round, write, read, poll
  std::string secret;
  int lanes = 1;
};

// A tensor given by a flagged write into a region of the taker's; answered by a flag.
class FerryPair : public limits::Pair {
 public:
  FerryPair(limits::Link& link, const Setting& setting)
      : link_(link), setting_(setting), device_(need(Device::open(options_of(setting)))) {
    flags_ = need(device_.allocate(64));
    std::memset(flags_.data(), 0, flags_.size());
    if (giver()) {
      link_.meet();
      channel_ = need(device_.connect(read_text(), {.stripe = setting.lanes > 1}));
    } else {
      write_text(device_.endpoint());
      link_.meet();
      channel_ = need(device_.accept(Deadline::after(kRoundPatience)));
    }
    link_.meet();
    auto mine = need(device_.grant(flags_, Rights::kReadWrite));
    peer_flags_ = swap_regions(mine);
  }

  void open(std::uint64_t bytes) override {
    tensor_ = {};
    if (setting_.memory == "own") {
      memory_ = limits::Memory(bytes);
      region_ = need(device_.register_memory(memory_.bytes()));
      tensor_ = memory_.bytes();
    } else {
      region_ = need(device_.allocate(bytes));
      limits::fault_in(region_.bytes());
      tensor_ = region_.bytes();
    }
    auto mine = need(device_.grant(region_, Rights::kReadWrite));
    landing_ = swap_regions(mine);
    if (in_place() && giver()) tensor_ = need(channel_.map(landing_));
    link_.meet();
  }

  void close() override {
    link_.meet();
    region_.reset();
    memory_ = limits::Memory();
    link_.meet();
  }

  std::span<std::byte> source() override { return tensor_; }

  void give(std::uint32_t) override {
    give_flagged(in_place() ? std::span<const std::byte>() : std::span<const std::byte>(tensor_));
  }

  limits::Pieces take(std::uint32_t) override {
    await_flag();
    return whole();
  }

  void answer(std::uint32_t) override {
    auto sent = channel_.write_flagged({}, peer_flags_, peer_flags_, given_, {}, sleep_);
    if (answer_.poll()) answer_ = std::move(sent);
  }

 protected:
  // One flagged write, and the answer's flag.
  void give_flagged(std::span<const std::byte> payload) {
    auto sent = channel_.write_flagged(payload, landing_, peer_flags_, ++given_, {}, sleep_);
    await(given_);
    if (!sent.poll()) need(sent.wait(mode()));
    need(sent.wait());
  }
  void await_flag() { await(++given_); }
  // A deadline costs a look at the clock: one does for many rounds, as in a program with steps. It
  // may be long over when the next run begins; then there is a new one.
  void await(std::uint64_t value) {
    if (waits_++ % 1024 == 0) deadline_ = Deadline::after(kRoundPatience);
    if (channel_.wait_flag(flags_.data(), value, deadline_, mode())) return;
    deadline_ = Deadline::after(kRoundPatience);
    need(channel_.wait_flag(flags_.data(), value, deadline_, mode()));
  }
  limits::Pieces whole() {
    piece_[0] = tensor_;
    return piece_;
  }

  static fabric::Options options_of(const Setting& setting) {
    fabric::Options options;
    options.provider = setting.provider;
    options.secret = setting.secret;
    options.shm_help = setting.copy == "both";
    options.lanes_per_peer = setting.lanes;
    return options;
  }
  bool giver() const { return link_.side() == limits::Side::kGiver; }
  bool in_place() const { return setting_.memory == "inplace"; }
  WaitMode mode() const { return sleep_ ? WaitMode::kSleep : WaitMode::kSpin; }

  void write_text(const std::string& text) const {
    std::memcpy(link_.blackboard().data(), text.c_str(), text.size() + 1);
  }
  std::string read_text() const { return reinterpret_cast<const char*>(link_.blackboard().data()); }
  // Each side leaves its region in its half of the blackboard and takes the other's.
  RemoteRegion swap_regions(const RemoteRegion& mine) const {
    auto board = link_.blackboard();
    auto wire = mine.to_wire();
    std::memcpy(board.data() + (giver() ? 0 : 1024), wire.data(), wire.size());
    link_.meet();
    auto theirs = board.subspan(giver() ? 1024 : 0, RemoteRegion::kWireBytes);
    auto region = need(RemoteRegion::from_wire(theirs));
    link_.meet();
    return region;
  }

  limits::Link& link_;
  const Setting setting_;
  Device device_;
  Region flags_;
  Channel channel_;
  RemoteRegion peer_flags_;
  Region region_;
  limits::Memory memory_;
  RemoteRegion landing_;
  std::span<std::byte> tensor_;
  std::array<std::span<const std::byte>, 1> piece_;
  std::uint64_t given_ = 0;
  std::uint64_t waits_ = 0;
  Deadline deadline_;
  Transfer answer_;
};

// One tensor written, or read, again and again with many copies under way, as ib_write_bw and
// ib_read_bw do. The last write carries the flag; reads are the taker's, between flag and answer.
class StreamPair : public FerryPair {
 public:
  using FerryPair::FerryPair;
  bool streams() const override { return true; }

  void give_stream(std::uint64_t count) override {
    if (!reads()) {
      keep_busy(count - 1, [this] { return channel_.write(tensor_, landing_); });
      give_flagged(tensor_);
    } else {
      give_flagged({});
    }
  }

  limits::Pieces take_stream(std::uint64_t count) override {
    await_flag();
    if (reads()) {
      keep_busy(count, [this] { return channel_.read(tensor_, landing_); });
    }
    return whole();
  }

 private:
  static constexpr std::size_t kWindow = 128;  // as perftest's --tx-depth

  bool reads() const { return setting_.pattern == "read"; }

  template <class Post>
  void keep_busy(std::uint64_t count, Post post) {
    std::vector<Transfer> window(std::min<std::uint64_t>(count, kWindow));
    for (std::uint64_t i = 0; i < count; ++i) {
      auto& place = window[i % kWindow];
      need(place.wait(mode()));
      place = post();
    }
    for (auto& transfer : window) need(transfer.wait(mode()));
  }
};

// Two bytes written, answered by two bytes written; both sides look at their memory, as
// ib_write_lat does. No flag: two aligned bytes arrive together.
class PollPair : public FerryPair {
 public:
  using FerryPair::FerryPair;
  static constexpr std::uint64_t kBytes = 2;
  bool typical() const override { return true; }

  void open(std::uint64_t bytes) override {
    FerryPair::open(bytes);
    std::memset(tensor_.data(), 0, kBytes);
    std::memset(flags_.data(), 0, kBytes);
    seen_ = 0;
    answered_ = 0;
    link_.meet();
  }

  void give(std::uint32_t) override {
    auto sent = channel_.write(tensor_, landing_);
    ++answered_;
    poll_until(flags_, [this](std::uint16_t now) { return now == answered_; });
    need(sent.wait(WaitMode::kSpin));
  }

  limits::Pieces take(std::uint32_t) override {
    seen_ = poll_until(region_, [this](std::uint16_t now) { return now != seen_; });
    return whole();
  }

  void answer(std::uint32_t) override {
    need(sent_.wait(WaitMode::kSpin));
    ++answered_;
    sent_ = channel_.write(std::as_bytes(std::span(&answered_, 1)), peer_flags_);
  }

 private:
  template <class Predicate>
  std::uint16_t poll_until(const Region& region, Predicate enough) {
    const auto* word = reinterpret_cast<const std::uint16_t*>(region.data());
    limits::Link::Patience patience;
    for (;;) {
      const auto now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
      if (enough(now)) return now;
      link_.spin(patience);
    }
  }

  std::uint16_t seen_ = 0;
  std::uint16_t answered_ = 0;
  Transfer sent_;
};

std::unique_ptr<limits::Pair> make_pair_of(limits::Link& link, const Setting& setting) {
  if (setting.pattern == "round") return std::make_unique<FerryPair>(link, setting);
  if (setting.pattern == "poll") return std::make_unique<PollPair>(link, setting);
  return std::make_unique<StreamPair>(link, setting);
}

int serve(Setting setting) {
  setting.secret = need(cli::random_secret());
  limits::Program program;
  program.name = fmt::format("ferry-{}-{}-{}-{}", setting.provider, setting.memory, setting.copy,
                             setting.pattern);
  program.what = "this library";
  program.make = [setting](limits::Link& link) { return make_pair_of(link, setting); };
  if (setting.pattern == "poll") program.min_bytes = program.max_bytes = PollPair::kBytes;
  return limits::serve(program);
}

}  // namespace

void add_bench_round(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("transfer-round", "One pair of processes for `bench transfer`");
  command->group("");  // not in --help: `ferry bench transfer` starts it
  auto setting = std::make_shared<Setting>();
  command->add_option("--provider", setting->provider);
  command->add_option("--memory", setting->memory)
      ->check(CLI::IsMember({"arena", "own", "inplace"}));
  command->add_option("--copy", setting->copy)->check(CLI::IsMember({"one", "both"}));
  command->add_option("--pattern", setting->pattern)
      ->check(CLI::IsMember({"round", "write", "read", "poll"}));
  command->add_option("--lanes", setting->lanes)->check(CLI::Range(1, 64));
  command->callback([setting, &exit_code] { exit_code = serve(*setting); });
}

}  // namespace ferry::bench
