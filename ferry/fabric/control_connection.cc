#include <sys/ioctl.h>
#include <sys/socket.h>

#include <utility>

#include "ferry/base/log.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/fabric/control_connection_internal.h"

namespace ferry::fabric {

namespace {
constexpr std::size_t kMaxErrorText = 1024;
}  // namespace

ControlConnection::ControlConnection(const SessionContext& context, Fd socket, std::uint32_t number,
                                     const bootstrap::Hello& peer, const bootstrap::Bytes32& key,
                                     Introduction introduction, std::function<void(Error)> lost)
    : context_(context),
      number_(number),
      number_at_peer_(static_cast<std::uint32_t>(peer.session)),
      key_(key),
      introduction_([&] {
        introduction.identity.device.bytes = peer.device;
        return std::move(introduction);
      }()),
      lost_(std::move(lost)),
      socket_(std::move(socket), *context.unsent, introduction_.identity.endpoint,
              [this](std::uint32_t events) { return context_.watch(fd(), events); }),
      liveness_(*context.options, socket_.fd(), introduction_.identity, context.peers->silent) {}

Status ControlConnection::check_alive() const {
  if (alive()) return {};
  LockGuard<Mutex> guard(lock_);
  return tl::unexpected<Error>(*cause_);
}

// Sending.

void ControlConnection::send(FrameType type, std::uint64_t id, std::span<const std::byte> payload) {
  if (!alive()) return;
  auto sent =
      socket_.send(static_cast<std::uint16_t>(type), id, payload, type == FrameType::kAnswer);
  if (!sent) lost_(sent.error());
}

void ControlConnection::send_lane_frame(FrameType type, std::uint32_t lane) {
  std::vector<std::byte> payload;
  bootstrap::Encoder(payload).u32(lane);
  send(type, 0, payload);
}

Result<std::vector<std::byte>> ControlConnection::request(FrameType type,
                                                          std::span<const std::byte> payload,
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

void ControlConnection::send_answer(std::uint64_t id,
                                    const Result<std::vector<std::byte>>& result) {
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

void ControlConnection::start_on_loop() {
  // Bytes that the peer's host does not acknowledge end the connection when the peer would be given
  // up. Hosts are judged sooner, by acknowledgements.
  auto give_up = std::chrono::duration_cast<std::chrono::milliseconds>(context_.options->give_up);
  auto status = bootstrap::set_user_timeout(fd(), give_up);
  if (status) status = socket_.watch_on_loop();
  if (!status) lost_(status.error());
}

void ControlConnection::ready_on_loop(std::span<const std::byte> first, const Handle& handle) {
  bool heard = false;
  auto status = socket_.serve_on_loop(
      first, [&](const bootstrap::Frame& frame) { return handle_on_loop(frame, handle); }, heard);
  if (heard) liveness_.hear_on_loop();
  if (!status) lost_(status.error());
}

Status ControlConnection::handle_on_loop(const bootstrap::Frame& frame, const Handle& others) {
  switch (static_cast<FrameType>(frame.type)) {
    case FrameType::kPing:
      socket_.owe_pong_on_loop();
      return {};
    case FrameType::kPong:
      return {};
    case FrameType::kAnswer:
      return take_answer_on_loop(frame);
    case FrameType::kBye:
      return bye_on_loop(frame);
    default:
      return others(frame);
  }
}

Status ControlConnection::take_answer_on_loop(const bootstrap::Frame& frame) {
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

// How it learns that the peer is gone or leaves, and how it ends.

void ControlConnection::heartbeat_on_loop(Nanos awake) {
  auto living = liveness_.look_on_loop(awake);
  if (!living) return lost_(living.error());
  if (liveness_.ping_is_due_on_loop(awake)) send(FrameType::kPing, 0, {});
}

tl::unexpected<Error> ControlConnection::bye_on_loop(const bootstrap::Frame& frame) {
  Error cause =
      fail(Code::kUnavailable, "peer {} closed the connection", identity().endpoint).value();
  bootstrap::Decoder in(frame.payload);
  const auto silence = std::chrono::milliseconds(in.u32());
  if (in.ok()) cause = given_up_by(identity().endpoint, silence);
  goodbye_ = std::make_shared<const Error>(cause);
  return tl::unexpected<Error>(std::move(cause));
}

Error ControlConnection::last_words_on_loop(const Error& cause, const Handle& handle) {
  constexpr int kMostReads = 64;
  const bool listens = cause.code() == Code::kUnavailable;
  for (int reads = 0; listens && reads < kMostReads && goodbye_ == nullptr; ++reads) {
    int unread = 0;
    if (::ioctl(fd(), FIONREAD, &unread) != 0 || unread == 0) break;
    bool heard = false;
    const auto received = socket_.receive_on_loop(
        [&](const bootstrap::Frame& frame) { return handle_on_loop(frame, handle); }, heard);
    if (!received) break;
  }
  return goodbye_ == nullptr ? cause : *goodbye_;
}

bool ControlConnection::end_on_loop(const Error& cause) {
  {
    LockGuard<Mutex> guard(lock_);
    if (cause_ != nullptr) return false;
    cause_ = std::make_shared<const Error>(cause);
  }
  if (cause.code() != Code::kCancelled) {
    context_.peers->lost.add();
    logger().info("session with {} ended: {}", identity().endpoint, cause.to_string());
  }
  if (const auto silence = liveness_.given_up_after().count(); silence != 0) {
    std::vector<std::byte> payload;
    bootstrap::Encoder(payload).u32(static_cast<std::uint32_t>(silence));
    send(FrameType::kBye, 0, payload);
  }
  liveness_.end_on_loop();
  alive_.store(false, std::memory_order_release);
  ::shutdown(fd(), SHUT_RDWR);
  return true;
}

}  // namespace ferry::fabric
