#include "ferry/cli/bench_round.h"

#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "bench/limits/round.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/ferry.h"

namespace ferry::cli {
namespace {

using fabric::OpOptions;
using fabric::RemoteAt;

constexpr auto kPatience = std::chrono::seconds(60);

struct Setting {
  std::string provider = "shm";
  std::string memory = "arena";  // arena, own, inplace
  std::string copy = "both";     // one, both
  std::string secret;
  int lanes = 1;
};

template <class T>
T need(Result<T> result) {
  if (!result) throw bench::Failure(result.error().to_string());
  return *std::move(result);
}
void need(const Status& status) {
  if (!status) throw bench::Failure(status.error().to_string());
}

// A tensor given by a flagged write into a region of the taker's; answered by a flag.
class FerryPair : public bench::Pair {
 public:
  FerryPair(bench::Link& link, const Setting& setting)
      : link_(link), setting_(setting), device_(need(Device::open(options_of(setting)))) {
    flags_ = need(device_.allocate(64));
    std::memset(flags_.data(), 0, flags_.size());
    if (giver()) {
      link_.meet();
      channel_ = need(device_.connect(read_text(), {.stripe = setting.lanes > 1}));
    } else {
      write_text(device_.endpoint());
      link_.meet();
      channel_ = need(device_.accept(Deadline::after(kPatience)));
    }
    link_.meet();
    auto mine = need(device_.grant(flags_, Rights::kReadWrite));
    peer_flags_ = swap_regions(mine);
  }

  void open(std::uint64_t bytes) override {
    tensor_ = {};
    if (setting_.memory == "own") {
      memory_ = bench::Memory(bytes);
      region_ = need(device_.register_memory(memory_.bytes()));
      tensor_ = memory_.bytes();
    } else {
      region_ = need(device_.allocate(bytes));
      bench::fault_in(region_.bytes());
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
    memory_ = bench::Memory();
    link_.meet();
  }

  std::span<std::byte> source() override { return tensor_; }

  void give(std::uint32_t) override {
    auto payload = in_place() ? std::span<const std::byte>() : std::span<const std::byte>(tensor_);
    auto sent = channel_.write_flagged(payload, landing_, peer_flags_, ++given_, {}, sleep_);
    need(channel_.wait_flag(flags_.data(), given_, Deadline::after(kPatience), mode()));
    if (!sent.poll()) need(sent.wait(mode()));
    need(sent.wait());
  }

  bench::Pieces take(std::uint32_t) override {
    need(channel_.wait_flag(flags_.data(), ++given_, Deadline::after(kPatience), mode()));
    piece_[0] = tensor_;
    return piece_;
  }

  void answer(std::uint32_t) override {
    auto sent = channel_.write_flagged({}, peer_flags_, peer_flags_, given_, {}, sleep_);
    if (answer_.poll()) answer_ = std::move(sent);
  }

 private:
  static fabric::Options options_of(const Setting& setting) {
    fabric::Options options;
    options.provider = setting.provider;
    options.secret = setting.secret;
    options.shm_help = setting.copy == "both";
    options.lanes_per_peer = setting.lanes;
    return options;
  }
  bool giver() const { return link_.side() == bench::Side::kGiver; }
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

  bench::Link& link_;
  const Setting setting_;
  Device device_;
  Region flags_;
  Channel channel_;
  RemoteRegion peer_flags_;
  Region region_;
  bench::Memory memory_;
  RemoteRegion landing_;
  std::span<std::byte> tensor_;
  std::array<std::span<const std::byte>, 1> piece_;
  std::uint64_t given_ = 0;
  Transfer answer_;
};

int serve(Setting setting) {
  // Made before the fork, so that both processes know it.
  std::array<std::byte, 16> random{};
  if (!bootstrap::random_bytes(random)) return 1;
  for (auto byte : random) setting.secret += fmt::format("{:02x}", std::to_integer<int>(byte));
  auto name = fmt::format("ferry-{}-{}-{}", setting.provider, setting.memory, setting.copy);
  return bench::serve({.name = name, .what = "this library", .make = [setting](bench::Link& link) {
                         return std::make_unique<FerryPair>(link, setting);
                       }});
}

}  // namespace

void add_bench_round(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("bench-round", "One pair of processes for `bench transfer`");
  command->group("");  // not in --help: `ferry bench transfer` starts it
  auto setting = std::make_shared<Setting>();
  command->add_option("--provider", setting->provider);
  command->add_option("--memory", setting->memory)
      ->check(CLI::IsMember({"arena", "own", "inplace"}));
  command->add_option("--copy", setting->copy)->check(CLI::IsMember({"one", "both"}));
  command->add_option("--lanes", setting->lanes)->check(CLI::Range(1, 64));
  command->callback([setting, &exit_code] { exit_code = serve(*setting); });
}

}  // namespace ferry::cli
