#include "ferry/base/log.h"
#include "ferry/interop/grpc_endpoint/options_internal.h"
#include "ferry/interop/grpc_endpoint/plugin_device_internal.h"

namespace ferry::interop {

namespace {

constexpr std::size_t kDeviceArena = std::size_t{4} << 20;
constexpr std::uint32_t kMostLanes = 1 << 20;

fabric::Options device_options(const PluginOptions& options, const SecretSource& secret,
                               const std::string& reached_at) {
  fabric::Options made;
  made.provider = options.provider;
  made.secret = secret.text;
  made.secret_file = secret.file;
  if (!reached_at.empty()) made.listen = reached_at;
  if (!options.listen.empty()) made.listen = options.listen;
  made.arena_bytes = kDeviceArena;
  made.patience = options.patience;
  made.give_up = options.give_up;
  made.max_lanes_per_peer = kMostLanes;
  return made;
}

}  // namespace

Status PluginDevice::open(const std::string& reached_at) {
  auto state = State::kClosed;
  if (state_.compare_exchange_strong(state, State::kOpening)) {
    outcome_ = open_now(reached_at);
    if (!outcome_)
      logger().warn("gRPC stays on TCP in this process: {}", outcome_.error().to_string());
    state = outcome_ ? State::kOpen : State::kFailed;
    state_.store(state);
    state_.notify_all();
  }
  while (state == State::kOpening) {
    state_.wait(state);
    state = state_.load();
  }
  if (state == State::kDisowned)
    return fail(Code::kFailedPrecondition, "the process was forked after gRPC was used");
  return outcome_;
}

void PluginDevice::disown() {
  if (state_.load() != State::kClosed) state_.store(State::kDisowned);
}

Status PluginDevice::open_now(const std::string& reached_at) {
  const auto& options = PluginOptions::get();
  const auto source = FERRY_TRY(SecretSource::find(options));
  secret_.emplace(FERRY_TRY(source.read()));
  device_.emplace(FERRY_TRY(fabric::Device::open(device_options(options, source, reached_at))));
  FERRY_TRY(device_->wait_descriptor());
  mail::MailRoomOptions room;
  room.tuning = mail::TuningUse::kCached;
  room.budget_bytes = options.memory;
  room.shared_bytes = options.memory;
  room_.emplace(FERRY_TRY(mail::MailRoom::open(*device_, room)));
  return {};
}

}  // namespace ferry::interop
