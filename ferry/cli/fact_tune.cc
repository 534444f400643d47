// Two processes calibrate the path between them; what they found goes into the cache.

#include "ferry/cli/bench_fact.h"
#include "ferry/cli/bench_need.h"
#include "ferry/ferry.h"
#include "ferry/transfer/calibrate.h"
#include "ferry/transfer/tuning_cache.h"

namespace ferry::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kTunePatience = 60s;

void calibrate_and_keep(Device& device, Channel& channel, double seconds) {
  const transfer::CalibrateOptions options{Nanos(static_cast<std::int64_t>(seconds * 1e9)),
                                           kTunePatience / 2};
  const auto found =
      need(transfer::calibrate(device, channel, options, Deadline::after(kTunePatience)));
  const transfer::TuningCache cache(transfer::TuningCache::default_folder());
  need(cache.store(transfer::TuningPath::of(channel), found));
}

void take_part_in_tuning(Team& team, int me, const fabric::Options& options, double seconds) {
  auto device = need(Device::open(options));
  if (me == 0) team.set_endpoint(0, device.endpoint());
  team.meet();
  auto channel = need(me == 0 ? device.accept(Deadline::after(kTunePatience))
                              : device.connect(team.endpoint(0)));
  calibrate_and_keep(device, channel, seconds);
  // Nobody leaves while the other still needs it.
  team.meet();
}

}  // namespace

double measure_tuning(const FactSetting& setting) {
  fabric::Options options;
  options.provider = setting.provider;
  options.secret = fresh_secret();
  const auto begun = now_ns();
  Team team(2);
  team.start([&](Team& all, int me) { take_part_in_tuning(all, me, options, setting.seconds); });
  team.finish();
  return static_cast<double>(now_ns() - begun);
}

}  // namespace ferry::cli
