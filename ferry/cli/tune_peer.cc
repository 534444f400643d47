#include "ferry/cli/tune_peer.h"

#include <fmt/format.h>

#include <cstdio>

#include "ferry/ferry.h"
#include "ferry/mail/calibrate.h"

namespace ferry::cli {
namespace {

using mail::TuningCache;
using mail::TuningEntry;
using mail::TuningPath;

constexpr auto kMostTuning = std::chrono::seconds(60);  // on a slow path
constexpr auto kPeerPatience = std::chrono::seconds(30);

Result<Device> open_to_tune(const TunePeer& options, const std::string& listen) {
  auto setting = device_options(options.peer);
  setting.provider = options.provider;
  if (!listen.empty()) setting.listen = listen;
  return Device::open(setting);
}

Result<TuningEntry> tune_over(Device& device, Channel& channel, const TunePeer& options,
                              const TuningCache& cache) {
  const mail::CalibrateOptions time{Nanos(static_cast<std::int64_t>(options.seconds * 1e9)),
                                    kMostTuning};
  const auto limit = Deadline::after(kMostTuning + kPeerPatience);
  const auto found = FERRY_TRY(mail::calibrate(device, channel, time, limit));
  const auto path = TuningPath::of(channel);
  FERRY_TRY(cache.store(path, found));
  // The end that is through first must not take the other's channel away.
  (void)channel.send({}).wait();
  std::byte none{};
  (void)channel.receive({&none, 1}, Deadline::after(std::chrono::seconds(2)));
  if (auto kept = cache.load(path)) return *std::move(kept);
  return fail(Code::kInternal, "what was kept in {} cannot be read", cache.folder());
}

}  // namespace

Result<TuningEntry> tune_with_peer(const std::string& endpoint, const TunePeer& options,
                                   const TuningCache& cache) {
  auto device = FERRY_TRY(open_to_tune(options, ""));
  auto channel = FERRY_TRY(device.connect(endpoint));
  return tune_over(device, channel, options, cache);
}

Result<TuningEntry> tune_as_peer(const std::string& listen, const TunePeer& options,
                                 const TuningCache& cache) {
  auto device = FERRY_TRY(open_to_tune(options, listen));
  fmt::print(stderr, "waiting at {} for {:.0f} s; on the other host run: ferry tune --peer {}\n",
             device.endpoint(), options.peer.seconds, device.endpoint());
  const auto wait = Nanos(static_cast<std::int64_t>(options.peer.seconds * 1e9));
  auto channel = FERRY_TRY(device.accept(Deadline::after(wait)));
  return tune_over(device, channel, options, cache);
}

}  // namespace ferry::cli
