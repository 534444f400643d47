// How long it takes to join a peer and to find its regions.

#include <algorithm>
#include <string>
#include <vector>

#include "bench/rounds/fact.h"
#include "bench/rounds/need.h"
#include "ferry/cli/common/random_secret.h"
#include "ferry/cli/common/stats.h"
#include "ferry/ferry.h"

namespace ferry::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kConnects = 20;
constexpr int kRegions = 1000;
constexpr std::size_t kRegionBytes = 4096;

fabric::Options options_of(const FactSetting& setting, const std::string& secret) {
  fabric::Options options;
  options.provider = setting.provider;
  options.secret = secret;
  options.arena_bytes = std::size_t{8} << 20;
  return options;
}

double elapsed_since(std::int64_t start) { return static_cast<double>(now_ns() - start); }

void accept_all(Team& team, const fabric::Options& options) {
  auto device = need(Device::open(options));
  team.set_endpoint(0, device.endpoint());
  team.meet();
  for (int i = 0; i < kConnects; ++i) {
    auto channel = need(device.accept(Deadline::after(30s)));
    team.meet();
  }
}

void connect_all(Team& team, const fabric::Options& options) {
  team.meet();
  std::vector<double> times;
  for (int i = 0; i < kConnects; ++i) {
    // A device keeps its session with a peer: only a new one starts from nothing.
    auto device = need(Device::open(options));
    const auto start = now_ns();
    auto channel = need(device.connect(team.endpoint(0)));
    times.push_back(elapsed_since(start));
    team.meet();
  }
  team.report(0, cli::median(times));
}

std::string region_name(int index) { return fmt::format("region/{}", index); }

void publish_all(Team& team, const fabric::Options& options) {
  auto device = need(Device::open(options));
  std::vector<Region> regions;
  regions.reserve(kRegions);
  for (int i = 0; i < kRegions; ++i) regions.push_back(need(device.allocate(kRegionBytes)));
  team.set_endpoint(0, device.endpoint());
  team.meet();
  auto channel = need(device.accept(Deadline::after(30s)));
  team.meet();
  const auto start = now_ns();
  for (int i = 0; i < kRegions; ++i) {
    const auto grant = need(device.grant(regions[static_cast<std::size_t>(i)], Rights::kReadWrite));
    need(device.publish(region_name(i), grant));
  }
  team.report(1, static_cast<double>(start));
  team.meet();
}

// Starts at once: a name that is not there yet is waited for.
void look_up_all(Team& team, const fabric::Options& options) {
  auto device = need(Device::open(options));
  team.meet();
  auto channel = need(device.connect(team.endpoint(0)));
  team.meet();
  const auto start = now_ns();
  std::vector<RemoteRegion> found;
  found.reserve(kRegions);
  for (int i = 0; i < kRegions; ++i)
    found.push_back(need(channel.look_up(region_name(i), Deadline::after(30s))));
  const auto end = now_ns();
  team.meet();
  const auto begun = std::min(static_cast<double>(start), team.reported(1));
  team.report(0, static_cast<double>(end) - begun);
  // Every region has a place of its own.
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  for (std::size_t i = 1; i < found.size(); ++i) {
    if (found[i].address - found[i - 1].address < kRegionBytes)
      throw limits::Failure("two names led to one region");
  }
}

using Half = void (*)(Team&, const fabric::Options&);

double of_two(const FactSetting& setting, Half first, Half second) {
  const auto options = options_of(setting, need(cli::random_secret()));
  Team team(2);
  team.start([&](Team& all, int me) { (me == 0 ? first : second)(all, options); });
  team.finish();
  return team.reported(0);
}

}  // namespace

double measure_connect(const FactSetting& setting) {
  return of_two(setting, accept_all, connect_all);
}

double measure_regions(const FactSetting& setting) {
  return of_two(setting, publish_all, look_up_all);
}

}  // namespace ferry::bench
