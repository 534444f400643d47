#include "ferry/cli/doctor_peer.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "ferry/ferry.h"

namespace ferry::cli {
namespace {

constexpr const char* kName = "ferry-doctor";
constexpr std::size_t kBytes = std::size_t{16} << 20;
constexpr int kSmallRounds = 200;
constexpr int kLargeRounds = 8;

double seconds_since(std::int64_t start) { return static_cast<double>(now_ns() - start) / 1e9; }

// What the other end's region gives: small rounds, then large copies both ways, checked.
Status measure(Device& device, Channel& channel, const RemoteRegion& remote, Probe& probe) {
  auto region = FERRY_TRY(device.allocate(kBytes));
  auto bytes = region.bytes();
  auto start = now_ns();
  for (int i = 0; i < kSmallRounds; ++i) FERRY_TRY(channel.write(bytes.first(64), remote).wait());
  probe.round_us = seconds_since(start) / kSmallRounds * 1e6;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  FERRY_TRY(channel.write(bytes, remote).wait());
  start = now_ns();
  for (int i = 0; i < kLargeRounds; ++i) FERRY_TRY(channel.write(bytes, remote).wait());
  probe.write_gb_per_s = static_cast<double>(kBytes) * kLargeRounds / seconds_since(start) / 1e9;
  std::vector<std::byte> expected(bytes.begin(), bytes.end());
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  FERRY_TRY(channel.read(bytes, remote).wait());
  if (!std::equal(bytes.begin(), bytes.end(), expected.begin()))
    return fail(Code::kDataLoss, "what came back from {} is not what was sent", probe.endpoint);
  start = now_ns();
  for (int i = 0; i < kLargeRounds; ++i) FERRY_TRY(channel.read(bytes, remote).wait());
  probe.read_gb_per_s = static_cast<double>(kBytes) * kLargeRounds / seconds_since(start) / 1e9;
  return {};
}

// Tells who waits for a probe that somebody was turned away; at most a line every few seconds,
// since strangers may knock as often as they like.
class RefusalNotes {
 public:
  void note(std::uint64_t refused) {
    constexpr auto kPause = std::chrono::seconds(5);
    if (refused == told_ || !next_.expired()) return;
    fmt::print(
        "refused {} attempt(s): another secret or version, or no peer at all; FERRY_LOG=info says "
        "which\n",
        refused - told_);
    std::fflush(stdout);
    told_ = refused;
    next_ = Deadline::after(kPause);
  }

 private:
  std::uint64_t told_ = 0;
  Deadline next_;
};

}  // namespace

Result<PeerOptions> peer_options(const std::string& secret_file, double seconds) {
  PeerOptions options;
  options.secret_file = secret_file;
  if (const char* secret = std::getenv("FERRY_SECRET")) options.secret = secret;
  if (options.secret.empty() && options.secret_file.empty())
    return fail(Code::kInvalidArgument,
                "the cluster's secret is needed: --secret-file FILE, or FERRY_SECRET in the "
                "environment");
  options.seconds = seconds;
  return options;
}

fabric::Options device_options(const PeerOptions& options) {
  fabric::Options result;
  if (options.secret_file.empty()) {
    result.secret = options.secret;
  } else {
    result.secret_file = options.secret_file;
  }
  return result;
}

Result<Probe> probe_peer(const std::string& endpoint, const PeerOptions& options) {
  auto device = FERRY_TRY(Device::open(device_options(options)));
  Probe probe;
  probe.endpoint = endpoint;
  auto start = now_ns();
  auto channel = FERRY_TRY(device.connect(endpoint));
  probe.connect_ms = seconds_since(start) * 1e3;
  probe.provider = channel.provider();
  probe.why = channel.why();
  start = now_ns();
  auto remote = channel.look_up(kName, Deadline::after(std::chrono::milliseconds(200)));
  probe.control_us = seconds_since(start) * 1e6;
  if (!remote) {
    if (remote.error().code() != Code::kDeadlineExceeded)
      return tl::unexpected<Error>(remote.error());
    probe.control_us = 0;
    return probe;
  }
  FERRY_TRY(measure(device, channel, *remote, probe));
  return probe;
}

Status serve_probes(const std::string& listen, const PeerOptions& options) {
  auto setting = device_options(options);
  setting.listen = listen;
  auto device = FERRY_TRY(Device::open(setting));
  auto region = FERRY_TRY(device.allocate(kBytes));
  auto grant = FERRY_TRY(device.grant(region, Rights::kReadWrite));
  FERRY_TRY(device.publish(kName, grant));
  fmt::print("waiting at {} for {:.0f} s; on the other host run: ferry doctor --peer {}\n",
             device.endpoint(), options.seconds, device.endpoint());
  std::fflush(stdout);
  auto end = Deadline::after(Nanos(static_cast<std::int64_t>(options.seconds * 1e9)));
  std::vector<Channel> channels;
  RefusalNotes refusals;
  while (!end.expired()) {
    auto channel = device.accept(std::min(end, Deadline::after(std::chrono::seconds(1))));
    refusals.note(device.stats().peers_refused);
    if (channel) {
      fmt::print("probed by {} over {}\n", channel->peer_endpoint(), channel->provider());
      std::fflush(stdout);
      channels.push_back(*std::move(channel));
    }
    std::erase_if(channels, [](const Channel& open) { return !open.alive(); });
  }
  return {};
}

nlohmann::json to_json(const Probe& probe) {
  return {{"endpoint", probe.endpoint},
          {"provider", probe.provider},
          {"why", probe.why},
          {"connect_ms", probe.connect_ms},
          {"control_us", probe.control_us},
          {"round_us", probe.round_us},
          {"write_gb_per_s", probe.write_gb_per_s},
          {"read_gb_per_s", probe.read_gb_per_s}};
}

std::string to_text(const Probe& probe) {
  auto text = fmt::format("peer {}: connected in {:.1f} ms over {}\n  {}\n", probe.endpoint,
                          probe.connect_ms, probe.provider, probe.why);
  if (probe.round_us == 0)
    return text + "  run `ferry doctor --listen` at that address to have its speed measured too\n";
  return text + fmt::format(
                    "  control round {:.0f} us, 64 B write {:.2f} us, 16 MiB write {:.2f} "
                    "GB/s, read {:.2f} GB/s, bytes checked\n",
                    probe.control_us, probe.round_us, probe.write_gb_per_s, probe.read_gb_per_s);
}

}  // namespace ferry::cli
