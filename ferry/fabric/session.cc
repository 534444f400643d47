#include "ferry/base/log.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/fabric/channel_core_internal.h"
#include "ferry/fabric/session_internal.h"

namespace ferry::fabric {

namespace {

constexpr std::size_t kMaxName = 256;
constexpr std::size_t kMaxErrorText = 1024;
constexpr std::size_t kMaxPayloadOfCall = bootstrap::kMaxPayload - kMaxName - 8;

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
      number_(number),
      number_at_peer_(static_cast<std::uint32_t>(peer.session)),
      key_(key),
      introduction_([&] {
        introduction.identity.device.bytes = peer.device;
        return std::move(introduction);
      }()),
      socket_(std::move(socket), *context.unsent, introduction_.identity.endpoint,
              [this](std::uint32_t events) { return context_.watch(fd(), events); }),
      liveness_(*context.options, socket_.fd(), introduction_.identity, context.peers->silent) {}

Session::~Session() = default;

void Session::start() {
  // Bytes that the peer's host does not acknowledge end the connection when the peer would be given
  // up. Hosts are judged sooner, by acknowledgements.
  auto give_up = std::chrono::duration_cast<std::chrono::milliseconds>(context_.options->give_up);
  auto status = bootstrap::set_user_timeout(fd(), give_up);
  if (status) status = socket_.watch_on_loop();
  if (!status) peer_lost(status.error());
}

Status Session::check_alive() const {
  if (alive()) return {};
  LockGuard<Mutex> guard(lock_);
  return tl::unexpected<Error>(*cause_);
}

// Sending.

void Session::send(FrameType type, std::uint64_t id, std::span<const std::byte> payload) {
  if (!alive()) return;
  auto sent =
      socket_.send(static_cast<std::uint16_t>(type), id, payload, type == FrameType::kAnswer);
  if (!sent) peer_lost(sent.error());
}

void Session::send_lane(FrameType type, std::uint32_t lane) {
  std::vector<std::byte> payload;
  bootstrap::Encoder(payload).u32(lane);
  send(type, 0, payload);
}

Result<std::vector<std::byte>> Session::request(FrameType type, std::span<const std::byte> payload,
                                                Deadline deadline) {
  FERRY_TRY(check_alive());
  const auto [id, call] = calls_.add();
  send(type, id, payload);
  const auto* waited = call.get();
  context_.control->wait_until([this, waited] { return waited->done.load() || !alive(); }, deadline,
                               WaitMode::kAdaptive);
  calls_.remove(id);
  if (call->done.load()) return std::move(call->answer);
  FERRY_TRY(check_alive());
  return fail(Code::kDeadlineExceeded, "peer {} did not answer in time", identity().endpoint);
}

Result<std::vector<std::byte>> Session::call(std::string_view provider,
                                             std::span<const std::byte> payload,
                                             Deadline deadline) {
  if (payload.size() > kMaxPayloadOfCall)
    return fail(Code::kInvalidArgument, "a call to provider {} has {} bytes; {} is the most",
                provider, payload.size(), kMaxPayloadOfCall);
  return request(FrameType::kCall, named(provider, payload), deadline);
}

void Session::tell(std::string_view provider, std::span<const std::byte> notice) {
  send(FrameType::kTell, 0, named(provider, notice));
}

void Session::answer(std::uint64_t id, const Result<std::vector<std::byte>>& result) {
  std::vector<std::byte> payload;
  bootstrap::Encoder encoder(payload);
  if (result) {
    encoder.u8(static_cast<std::uint8_t>(Code::kOk)).bytes(*result);
  } else {
    auto text = std::string_view(result.error().message()).substr(0, kMaxErrorText);
    encoder.u8(static_cast<std::uint8_t>(result.error().code())).string(text);
  }
  send(FrameType::kAnswer, id, payload);
}

// Receiving, on the control loop.

void Session::ready_on_loop(std::span<const std::byte> first, std::uint32_t events) {
  (void)events;
  bool heard = false;
  auto status = socket_.serve_on_loop(first, handler(), heard);
  if (heard) liveness_.hear_on_loop();
  if (!status) peer_lost(status.error());
}

Status Session::handle_on_loop(const bootstrap::Frame& frame) {
  switch (static_cast<FrameType>(frame.type)) {
    case FrameType::kPing:
      socket_.owe_pong_on_loop();
      return {};
    case FrameType::kPong:
      return {};
    case FrameType::kOpenLane:
      open_on_loop(frame);
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
    case FrameType::kAnswer:
      return answer_on_loop(frame);
    case FrameType::kBye:
      return bye_on_loop(frame);
  }
  return fail(Code::kInvalidArgument, "peer {} sent a control frame of unknown type {}",
              identity().endpoint, frame.type);
}

void Session::open_on_loop(const bootstrap::Frame& frame) {
  auto made = [&]() -> Result<std::vector<std::byte>> {
    bootstrap::Decoder in(frame.payload);
    auto lane = in.u32();
    auto name = in.string(kMaxName);
    auto payload = in.bytes(bootstrap::kMaxPayload);
    FERRY_TRY(in.finish("a request for a lane"));
    if (lane >= context_.options->max_lanes_per_peer)
      return fail(Code::kResourceExhausted, "lane {} is over this device's limit of {} per peer",
                  lane, context_.options->max_lanes_per_peer);
    auto* provider = context_.provider(name);
    if (provider == nullptr)
      return fail(Code::kUnavailable, "this device has no provider '{}'", name);
    auto accepted =
        FERRY_TRY(provider->accept(shared_from_this(), lane, payload, context_.next_loop()));
    std::shared_ptr<Lane> old;
    {
      LockGuard<Mutex> guard(lock_);
      auto& place = accepted_[lane];
      old = std::move(place.second);
      place = {provider, std::move(accepted.lane)};
    }
    if (old != nullptr) old->close(fail(Code::kAborted, "the peer opened this lane anew").value());
    // Before the answer: bytes of a write that the peer gave up must not land after those of a
    // write that it sends on the new lane.
    if (auto core = core_of(lane); core != nullptr)
      core->lane().abandon(
          fail(Code::kUnavailable, "peer {} connects lane {} anew", identity().endpoint, lane)
              .value());
    return std::move(accepted.answer);
  }();
  answer(frame.id, made);
}

Status Session::handle_lane_on_loop(const bootstrap::Frame& frame) {
  bootstrap::Decoder in(frame.payload);
  auto number = in.u32();
  FERRY_TRY(in.finish("a frame about a lane"));
  auto core = core_of(number);
  switch (static_cast<FrameType>(frame.type)) {
    case FrameType::kCloseLane:
      if (core != nullptr)
        core->fail(
            fail(Code::kUnavailable, "peer {} closed the channel", identity().endpoint).value());
      return {};
    case FrameType::kReconnectLane:
      if (core != nullptr && connector_) context_.reconnect(shared_from_this(), number);
      return {};
    default:
      break;
  }
  std::pair<Provider*, std::shared_ptr<Lane>> ready{};
  {
    LockGuard<Mutex> guard(lock_);
    auto found = accepted_.find(number);
    if (found == accepted_.end())
      return ::ferry::fail(Code::kInvalidArgument, "lane {} was never asked for", number);
    ready = std::move(found->second);
    accepted_.erase(found);
  }
  if (core != nullptr) {
    core->replace(std::move(ready.second));
    return {};
  }
  core = std::make_shared<ChannelCore>(context_.channels(), shared_from_this(), number,
                                       *ready.first, "the peer chose it", std::move(ready.second));
  {
    LockGuard<Mutex> guard(lock_);
    cores_[number] = core;
  }
  context_.accepted(std::move(core));
  return {};
}

void Session::serve_on_loop(const bootstrap::Frame& frame, bool wants_answer) {
  auto served = [&]() -> Result<std::vector<std::byte>> {
    bootstrap::Decoder in(frame.payload);
    auto name = in.string(kMaxName);
    auto payload = in.bytes(bootstrap::kMaxPayload);
    FERRY_TRY(in.finish("a call"));
    auto* provider = context_.provider(name);
    if (provider == nullptr)
      return fail(Code::kUnavailable, "this device has no provider '{}'", name);
    return provider->serve(*this, payload);
  }();
  if (wants_answer) answer(frame.id, served);
}

void Session::look_up_on_loop(const bootstrap::Frame& frame) {
  bootstrap::Decoder in(frame.payload);
  auto wait = std::chrono::milliseconds(in.u32());
  auto name = in.string(kMaxName);
  auto status = in.finish("a look-up");
  if (!status) return answer(frame.id, tl::unexpected<Error>(status.error()));
  auto reply = [self = weak_from_this(), id = frame.id](const Result<RemoteRegion>& found) {
    auto session = self.lock();
    if (session == nullptr) return;
    Result<std::vector<std::byte>> result;
    if (found) {
      auto checked = session->context_.grants->check(*found, 0, 0, Rights::kNone, session->number_);
      auto wire = found->to_wire();
      if (checked) {
        result = std::vector<std::byte>(wire.begin(), wire.end());
      } else {
        result = tl::unexpected<Error>(checked.error());
      }
    } else {
      result = tl::unexpected<Error>(found.error());
    }
    session->answer(id, result);
  };
  context_.book->look_up(name, number_, Deadline::after(wait), std::move(reply));
}

Status Session::answer_on_loop(const bootstrap::Frame& frame) {
  bootstrap::Decoder in(frame.payload);
  auto code = static_cast<Code>(in.u8());
  auto body = in.bytes(bootstrap::kMaxPayload);
  FERRY_TRY(in.finish("an answer"));
  if (code == Code::kOk) {
    calls_.answer(frame.id, std::vector<std::byte>(body.begin(), body.end()));
  } else {
    std::string text(reinterpret_cast<const char*>(body.data()), body.size());
    calls_.answer(frame.id, tl::unexpected<Error>(Error(code, std::move(text), 0, "the peer", 0)));
  }
  return {};
}

}  // namespace ferry::fabric
