#include "ferry/base/log.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/session_internal.h"

namespace ferry::fabric {

namespace {

constexpr std::size_t kMaxPayloadOfCall = bootstrap::kMaxPayload - kMaxNameInFrame - 8;

std::vector<std::byte> named(std::string_view provider, std::span<const std::byte> payload) {
  std::vector<std::byte> out;
  bootstrap::Encoder(out).string(provider).bytes(payload);
  return out;
}

}  // namespace

Session::Session(const SessionContext& context, bool connector, Fd socket, std::uint32_t number,
                 const bootstrap::Hello& peer, const bootstrap::Bytes32& key,
                 Introduction introduction)
    : context_(context),
      connector_(connector),
      connection_(context, std::move(socket), number, peer, key, std::move(introduction),
                  [this](Error cause) { peer_lost(std::move(cause)); }),
      lanes_(context, connection_) {}

// What providers ask the peer's.

Result<std::vector<std::byte>> Session::call(std::string_view provider,
                                             std::span<const std::byte> payload,
                                             Deadline deadline) {
  if (payload.size() > kMaxPayloadOfCall)
    return fail(Code::kInvalidArgument, "a call to provider {} has {} bytes; {} is the most",
                provider, payload.size(), kMaxPayloadOfCall);
  return connection_.request(FrameType::kCall, named(provider, payload), deadline);
}

void Session::tell(std::string_view provider, std::span<const std::byte> notice) {
  connection_.send(FrameType::kTell, 0, named(provider, notice));
}

// Lanes.

ChannelCore::Home Session::home_of(std::uint32_t lane) {
  auto self = shared_from_this();
  return {context_.channels(), std::shared_ptr<ControlConnection>(self, &connection_),
          [self, lane] { self->drop_lane(lane); }};
}

Result<std::shared_ptr<ChannelCore>> Session::open_lane(std::uint32_t lane, Provider& provider,
                                                        const std::string& why, Deadline deadline) {
  return lanes_.open(lane, provider, why, deadline, shared_from_this(), home_of(lane));
}

Status Session::reconnect_lane(std::uint32_t lane, Deadline deadline) {
  return lanes_.reconnect(lane, deadline, shared_from_this());
}

void Session::drop_lane(std::uint32_t lane) {
  if (!lanes_.drop(lane) || !connector_) return;
  connection_.send(FrameType::kBye, 0, {});
  peer_lost(fail(Code::kCancelled, "the last channel of the session was closed").value());
}

// Whoever says so may hold the token of the lane's loop, and a channel that ends needs it: if its
// last user goes while it is looked for here, it must not end on that thread.
void Session::lane_broken(Lane& lane, Error cause) {
  context_.report({shared_from_this(), std::move(cause), &lane});
}

void Session::lane_broken_on_loop(const Lane* lane, const Error& cause) {
  const auto number = lanes_.number_of(lane);
  if (!number) return;
  logger().info("lane {} to {} is connected anew: {}", *number, identity().endpoint,
                cause.to_string());
  if (connector_) {
    context_.reconnect(shared_from_this(), *number);
  } else {
    connection_.send_lane_frame(FrameType::kReconnectLane, *number);
  }
}

// What the peer asks, on the control loop.

void Session::ready_on_loop(std::span<const std::byte> first) {
  connection_.ready_on_loop(first, handler());
}

Status Session::handle_on_loop(const bootstrap::Frame& frame) {
  switch (static_cast<FrameType>(frame.type)) {
    case FrameType::kOpenLane:
      connection_.send_answer(frame.id, lanes_.accept_on_loop(frame.payload, shared_from_this()));
      return {};
    case FrameType::kLaneReady:
    case FrameType::kCloseLane:
    case FrameType::kReconnectLane:
      return handle_lane_on_loop(frame);
    case FrameType::kCall:
      serve_on_loop(frame, true);
      return {};
    case FrameType::kTell:
      serve_on_loop(frame, false);
      return {};
    case FrameType::kLookUp:
      look_up_on_loop(frame);
      return {};
    default:
      return fail(Code::kInvalidArgument, "peer {} sent a control frame of unknown type {}",
                  identity().endpoint, frame.type);
  }
}

Status Session::handle_lane_on_loop(const bootstrap::Frame& frame) {
  bootstrap::Decoder in(frame.payload);
  auto lane = in.u32();
  FERRY_TRY(in.finish("a frame about a lane"));
  const auto type = static_cast<FrameType>(frame.type);
  if (type == FrameType::kLaneReady) return lanes_.ready_on_loop(lane, home_of(lane));
  auto core = lanes_.channel(lane);
  if (core == nullptr) return {};
  if (type == FrameType::kCloseLane) {
    core->fail(fail(Code::kUnavailable, "peer {} closed the channel", identity().endpoint).value());
  } else if (connector_) {
    context_.reconnect(shared_from_this(), lane);
  }
  return {};
}

void Session::serve_on_loop(const bootstrap::Frame& frame, bool wants_answer) {
  auto served = [&]() -> Result<std::vector<std::byte>> {
    bootstrap::Decoder in(frame.payload);
    auto name = in.string(kMaxNameInFrame);
    auto payload = in.bytes(bootstrap::kMaxPayload);
    FERRY_TRY(in.finish("a call"));
    auto* provider = context_.provider(name);
    if (provider == nullptr)
      return fail(Code::kUnavailable, "this device has no provider '{}'", name);
    return provider->serve(*this, payload);
  }();
  if (wants_answer) connection_.send_answer(frame.id, served);
}

void Session::look_up_on_loop(const bootstrap::Frame& frame) {
  bootstrap::Decoder in(frame.payload);
  auto wait = std::chrono::milliseconds(in.u32());
  auto name = in.string(kMaxNameInFrame);
  auto status = in.finish("a look-up");
  if (!status) return connection_.send_answer(frame.id, tl::unexpected<Error>(status.error()));
  auto reply = [self = weak_from_this(), id = frame.id](const Result<RemoteRegion>& found) {
    auto session = self.lock();
    if (session == nullptr) return;
    Result<std::vector<std::byte>> result;
    if (found) {
      auto checked =
          session->context_.grants->check(*found, 0, 0, Rights::kNone, session->number());
      auto wire = found->to_wire();
      if (checked) {
        result = std::vector<std::byte>(wire.begin(), wire.end());
      } else {
        result = tl::unexpected<Error>(checked.error());
      }
    } else {
      result = tl::unexpected<Error>(found.error());
    }
    session->connection_.send_answer(id, result);
  };
  context_.book->look_up(name, number(), Deadline::after(wait), std::move(reply));
}

// The end.

void Session::peer_lost(Error cause) { context_.report({shared_from_this(), std::move(cause)}); }

Error Session::last_words_on_loop(const Error& cause) {
  return connection_.last_words_on_loop(cause, handler());
}

void Session::end_on_loop(const Error& cause) {
  if (!connection_.end_on_loop(cause)) return;
  lanes_.close_all(cause);
  context_.book->forget(number());
  for (const auto& provider : *context_.providers) provider->forget(*this);
  for (const auto& loop : *context_.loops) loop->notify();
}

}  // namespace ferry::fabric
