#include <sys/epoll.h>
#include <sys/socket.h>

#include "ferry/base/log.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/fabric/channel_core_internal.h"
#include "ferry/fabric/device_core_internal.h"
#include "ferry/fabric/session_internal.h"

namespace ferry::fabric {

namespace {

constexpr std::size_t kMaxUnsent = std::size_t{16} << 20;
constexpr std::int64_t kPingNs = 600'000'000;
constexpr std::int64_t kSilenceNs = 2'600'000'000;
constexpr std::size_t kMaxName = 256;

std::vector<std::byte> named(std::string_view provider, std::span<const std::byte> payload) {
  std::vector<std::byte> out;
  bootstrap::Encoder(out).string(provider).bytes(payload);
  return out;
}

}  // namespace

Session::Session(DeviceCore& device, bool connector, Fd socket, std::uint32_t number,
                 const bootstrap::Hello& peer, const bootstrap::Bytes32& key,
                 Introduction introduction)
    : device_(device),
      connector_(connector),
      socket_(std::move(socket)),
      number_(number),
      number_at_peer_(static_cast<std::uint32_t>(peer.session)),
      key_(key),
      introduction_([&] {
        introduction.identity.device.bytes = peer.device;
        return std::move(introduction);
      }()),
      last_heard_(now_ns()),
      last_ping_(last_heard_) {}

Session::~Session() = default;

void Session::start() {
  auto status = device_.control->watch(*this, EPOLLIN);
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
  Status status;
  {
    LockGuard<Mutex> guard(send_lock_);
    bootstrap::append_frame(out_, static_cast<std::uint16_t>(type), id, payload);
    status = flush_locked();
  }
  if (!status) peer_lost(status.error());
}

void Session::send_lane(FrameType type, std::uint32_t lane) {
  std::vector<std::byte> payload;
  bootstrap::Encoder(payload).u32(lane);
  send(type, 0, payload);
}

Status Session::flush_locked() {
  while (sent_ < out_.size()) {
    auto sent = ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_,
                       MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) return fail_errno(errno, "writing to peer {}", identity().endpoint);
    sent_ += static_cast<std::size_t>(sent);
  }
  bool all = sent_ == out_.size();
  if (all) {
    out_.clear();
    sent_ = 0;
  } else if (out_.size() - sent_ > kMaxUnsent) {
    return fail(Code::kUnavailable, "peer {} does not read its control connection",
                identity().endpoint);
  }
  if (all == !watching_write_) return {};
  watching_write_ = !all;
  return device_.control->watch(*this, all ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

Result<std::vector<std::byte>> Session::request(FrameType type, std::span<const std::byte> payload,
                                                Deadline deadline) {
  FERRY_TRY(check_alive());
  auto call = std::make_shared<Call>();
  auto id = next_id_.fetch_add(1);
  {
    LockGuard<Mutex> guard(lock_);
    calls_.emplace(id, call);
  }
  send(type, id, payload);
  device_.control->loop().wait_until([&] { return call->done.load() || !alive(); }, deadline,
                                     WaitMode::kAdaptive);
  {
    LockGuard<Mutex> guard(lock_);
    calls_.erase(id);
  }
  if (call->done.load()) return std::move(call->answer);
  FERRY_TRY(check_alive());
  return fail(Code::kDeadlineExceeded, "peer {} did not answer in time", identity().endpoint);
}

Result<std::vector<std::byte>> Session::call(std::string_view provider,
                                             std::span<const std::byte> payload,
                                             Deadline deadline) {
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
    encoder.u8(static_cast<std::uint8_t>(result.error().code())).string(result.error().message());
  }
  send(FrameType::kAnswer, id, payload);
}

// Receiving, on the control loop.

void Session::ready_on_loop(std::span<const std::byte> first, std::uint32_t events) {
  Status status;
  if ((events & EPOLLOUT) != 0) {
    LockGuard<Mutex> guard(send_lock_);
    status = flush_locked();
  }
  if (status && !first.empty()) reader_.feed(first);
  if (status) status = receive_on_loop();
  if (!status) peer_lost(status.error());
}

Status Session::receive_on_loop() {
  std::byte buffer[16384];
  for (;;) {
    for (auto frame = FERRY_TRY(reader_.next()); frame; frame = FERRY_TRY(reader_.next())) {
      FERRY_TRY(handle_on_loop(*frame));
      if (!alive()) return {};
    }
    auto got = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (got < 0) return fail_errno(errno, "reading from peer {}", identity().endpoint);
    if (got == 0)
      return fail(Code::kUnavailable, "peer {} closed the connection: it has ended",
                  identity().endpoint);
    last_heard_ = now_ns();
    reader_.feed({buffer, static_cast<std::size_t>(got)});
  }
}

Status Session::handle_on_loop(const bootstrap::Frame& frame) {
  switch (static_cast<FrameType>(frame.type)) {
    case FrameType::kPing:
      send(FrameType::kPong, frame.id, {});
      return {};
    case FrameType::kPong:
      return {};
    case FrameType::kOpenLane:
      open_on_loop(frame);
      return {};
    case FrameType::kLaneReady:
    case FrameType::kCloseLane:
    case FrameType::kMendLane:
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
      return fail(Code::kUnavailable, "peer {} closed the connection", identity().endpoint);
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
    if (lane >= device_.options.max_lanes_per_peer)
      return fail(Code::kResourceExhausted, "lane {} is over this device's limit of {} per peer",
                  lane, device_.options.max_lanes_per_peer);
    auto* provider = device_.provider(name);
    if (provider == nullptr)
      return fail(Code::kUnavailable, "this device has no provider '{}'", name);
    auto accepted =
        FERRY_TRY(provider->accept(shared_from_this(), lane, payload, device_.next_loop()));
    std::shared_ptr<Lane> old;
    {
      LockGuard<Mutex> guard(lock_);
      auto& place = accepted_[lane];
      old = std::move(place.second);
      place = {provider, std::move(accepted.lane)};
    }
    if (old != nullptr) old->close(fail(Code::kAborted, "the peer opened this lane anew").value());
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
    case FrameType::kMendLane:
      if (core != nullptr && connector_) device_.mend(shared_from_this(), number);
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
  core = std::make_shared<ChannelCore>(device_.shared_from_this(), shared_from_this(), number,
                                       *ready.first, "the peer chose it", std::move(ready.second));
  {
    LockGuard<Mutex> guard(lock_);
    cores_[number] = core;
  }
  device_.accepted(std::move(core));
  return {};
}

void Session::serve_on_loop(const bootstrap::Frame& frame, bool wants_answer) {
  auto served = [&]() -> Result<std::vector<std::byte>> {
    bootstrap::Decoder in(frame.payload);
    auto name = in.string(kMaxName);
    auto payload = in.bytes(bootstrap::kMaxPayload);
    FERRY_TRY(in.finish("a call"));
    auto* provider = device_.provider(name);
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
      auto checked = session->device_.grants->check(*found, 0, 0, Rights::kNone, session->number_);
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
  device_.book.look_up(name, number_, Deadline::after(wait), std::move(reply));
}

Status Session::answer_on_loop(const bootstrap::Frame& frame) {
  bootstrap::Decoder in(frame.payload);
  auto code = static_cast<Code>(in.u8());
  auto body = in.bytes(bootstrap::kMaxPayload);
  FERRY_TRY(in.finish("an answer"));
  std::shared_ptr<Call> call;
  {
    LockGuard<Mutex> guard(lock_);
    auto found = calls_.find(frame.id);
    if (found == calls_.end()) return {};  // its caller gave up
    call = found->second;
    calls_.erase(found);
  }
  if (code == Code::kOk) {
    call->answer = std::vector<std::byte>(body.begin(), body.end());
  } else {
    std::string text(reinterpret_cast<const char*>(body.data()), body.size());
    call->answer = tl::unexpected<Error>(Error(code, std::move(text), 0, "the peer", 0));
  }
  call->done.store(true, std::memory_order_release);
  return {};
}

// Life and death.

void Session::heartbeat_on_loop(std::int64_t now, bool we_slept) {
  auto scaled = [&](std::int64_t ns) {
    return static_cast<std::int64_t>(static_cast<double>(ns) * device_.options.patience);
  };
  if (we_slept) last_heard_ = now;
  if (now - last_heard_ > scaled(kSilenceNs)) {
    peer_lost(fail(Code::kUnavailable,
                   "peer {} did not answer for {:.1f} s: stopped, overloaded, or cut off",
                   identity().endpoint, static_cast<double>(now - last_heard_) / 1e9)
                  .value());
    return;
  }
  if (now - last_ping_ < scaled(kPingNs)) return;
  last_ping_ = now;
  send(FrameType::kPing, 0, {});
}

void Session::peer_lost(Error cause) {
  device_.control->see_to({shared_from_this(), std::move(cause)});
}

void Session::end_on_loop(const Error& cause) {
  std::map<std::uint32_t, std::weak_ptr<ChannelCore>> cores;
  decltype(accepted_) accepted;
  {
    LockGuard<Mutex> guard(lock_);
    if (cause_ != nullptr) return;
    cause_ = std::make_shared<const Error>(cause);
    cores = cores_;
    accepted.swap(accepted_);
  }
  if (cause.code() != Code::kCancelled) {
    device_.peers_lost.add();
    logger().info("session with {} ended: {}", identity().endpoint, cause.to_string());
  }
  alive_.store(false, std::memory_order_release);
  ::shutdown(socket_.get(), SHUT_RDWR);
  for (auto& [number, weak] : cores)
    if (auto core = weak.lock()) core->fail(cause);
  for (auto& [number, entry] : accepted) entry.second->close(cause);
  device_.book.forget(number_);
  for (auto& provider : device_.providers) provider->forget(*this);
  device_.notify_loops();
}

}  // namespace ferry::fabric
