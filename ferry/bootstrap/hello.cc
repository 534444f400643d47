#include "ferry/bootstrap/hello.h"

#include <algorithm>

#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/hello_internal.h"
#include "ferry/bootstrap/printable_internal.h"

namespace ferry::bootstrap {
namespace {

constexpr std::string_view kProofLabel[] = {"ferry connector proof", "ferry acceptor proof"};
constexpr std::string_view kSealLabel[] = {"ferry connector seal", "ferry acceptor seal"};
constexpr std::string_view kKeyLabel = "ferry session key";

constexpr std::size_t index(Role role) { return static_cast<std::size_t>(role); }
constexpr Role other(Role role) {
  return role == Role::kConnector ? Role::kAcceptor : Role::kConnector;
}

// A label with its terminating zero, so that no label is the beginning of another.
std::span<const std::byte> label_bytes(std::string_view label) {
  return std::as_bytes(std::span(label.data(), label.size() + 1));
}

std::span<const std::byte> view(std::string_view text) { return std::as_bytes(std::span(text)); }

tl::unexpected<Error> not_a_peer(const char* why) {
  return fail(Code::kInvalidArgument,
              "not a Tensorferry peer: {}; does another program use this address and port?", why);
}

tl::unexpected<Error> secrets_differ(const char* who) {
  return fail(Code::kUnauthenticated,
              "{}; the cluster secrets differ: give every member the same one", who);
}

}  // namespace

Result<Handshake> Handshake::open(Role role, const Secret& secret, Hello mine, Admit admit) {
  Bytes32 nonce;
  FERRY_TRY(random_bytes(nonce));
  return open_with_nonce(role, secret, std::move(mine), nonce, std::move(admit));
}

Result<Handshake> Handshake::open_with_nonce(Role role, const Secret& secret, Hello mine,
                                             const Bytes32& nonce, Admit admit) {
  if (mine.blob.size() > kMaxBlob)
    return fail(Code::kInvalidArgument,
                "a hello carries at most {} bytes of what the providers offer, not {}", kMaxBlob,
                mine.blob.size());
  if (mine.min_version > mine.max_version)
    return fail(Code::kInvalidArgument, "the versions {} to {} are reversed", mine.min_version,
                mine.max_version);
  return Handshake(role, secret, std::move(mine), nonce, std::move(admit));
}

Handshake::Handshake(Role role, const Secret& secret, Hello mine, const Bytes32& nonce, Admit admit)
    : role_(role),
      secret_(secret),
      mine_(std::move(mine)),
      nonce_(nonce),
      admit_(std::move(admit)) {
  if (role_ == Role::kConnector) send_opening();
}

Handshake::~Handshake() { wipe(session_key_); }

Status Handshake::consume(std::span<const std::byte> bytes) {
  if (state_ == State::kFailed) return tl::unexpected(*error_);
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  bool progressed = true;
  while (progressed && state_ != State::kDone) {
    progressed = false;
    auto stepped = step(progressed);
    if (stepped) continue;
    state_ = State::kFailed;
    error_ = stepped.error();
    input_.clear();
    return stepped;
  }
  return {};
}

Status Handshake::step(bool& progressed) {
  return state_ == State::kOpening ? take_opening(progressed) : take_frame(progressed);
}

// The first strange byte is enough: a program that speaks something else is told apart at once.
// It gets no answer, so that a port scan learns nothing.
Status Handshake::take_opening(bool& progressed) {
  auto magic = std::min(input_.size(), kMagic.size());
  if (!std::equal(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(magic),
                  view(kMagic).begin()))
    return not_a_peer("its first bytes are not 'FRRY'");
  if (input_.size() < kOpeningSize) return {};
  auto opening = std::span<const std::byte>(input_).first(kOpeningSize);
  Decoder in(opening.subspan(kMagic.size()));
  peer_.min_version = in.u16();
  peer_.max_version = in.u16();
  if (peer_.min_version > peer_.max_version) return not_a_peer("its versions are reversed");
  if (equal_in_constant_time(in.raw(nonce_.size()), nonce_))
    return fail(Code::kUnauthenticated,
                "the peer sent our own challenge back: a loop or an attempt to reflect proofs");
  record(opening);
  input_.erase(input_.begin(), input_.begin() + kOpeningSize);
  if (role_ == Role::kAcceptor) send_opening();
  version_ = std::min(mine_.max_version, peer_.max_version);
  if (version_ < std::max(mine_.min_version, peer_.min_version)) {
    refuse(Code::kFailedPrecondition);
    return fail(Code::kFailedPrecondition,
                "no common protocol version: we speak {} to {}, the peer speaks {} to {}; update "
                "the older side",
                mine_.min_version, mine_.max_version, peer_.min_version, peer_.max_version);
  }
  if (role_ == Role::kConnector) send_proof();
  state_ = State::kProof;
  progressed = true;
  return {};
}

Status Handshake::take_frame(bool& progressed) {
  if (input_.size() < kHeaderSize) return {};
  Decoder header(std::span<const std::byte>(input_).first(kHeaderSize));
  auto type = header.u8();
  auto reserved = header.raw(3);
  auto length = header.u32();
  bool clean =
      std::all_of(reserved.begin(), reserved.end(), [](std::byte b) { return b == std::byte{0}; });
  if (!clean || !fits(type, length)) {
    refuse(Code::kInvalidArgument);
    return fail(Code::kInvalidArgument,
                "not a Tensorferry peer: a handshake frame of type {} and {} bytes, while {} was "
                "due",
                type, length, awaited());
  }
  if (input_.size() < kHeaderSize + length) return {};
  std::vector<std::byte> frame(input_.begin(),
                               input_.begin() + static_cast<std::ptrdiff_t>(kHeaderSize + length));
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(frame.size()));
  progressed = true;
  switch (type) {
    case kProofFrame:
      return take_proof(frame);
    case kHelloFrame:
      return take_hello(frame);
    case kDenialFrame:
      return take_denial(frame);
    default:
      return take_refusal(frame);
  }
}

// Which frames may come now, and how long they may be.
bool Handshake::fits(std::uint8_t type, std::uint32_t length) const {
  switch (type) {
    case kProofFrame:
      return state_ == State::kProof && length == sizeof(Bytes32);
    case kHelloFrame:
      return state_ == State::kHello && length >= kHelloFixed + sizeof(Bytes32) &&
             length <= kHelloFixed + kMaxBlob + sizeof(Bytes32);
    case kDenialFrame:
      return state_ == State::kHello && role_ == Role::kConnector &&
             length >= 1 + sizeof(Bytes32) && length <= 1 + kMaxDenial + sizeof(Bytes32);
    case kRefusalFrame:
      return length == 1;
    default:
      return false;
  }
}

Status Handshake::take_proof(std::span<const std::byte> frame) {
  auto expected = secret_.mac({label_bytes(kProofLabel[index(other(role_))]), transcript_});
  if (!equal_in_constant_time(frame.subspan(kHeaderSize), expected)) {
    refuse(Code::kUnauthenticated);
    return secrets_differ("the peer's proof is wrong");
  }
  record(frame);
  if (role_ == Role::kAcceptor) send_proof();
  session_key_ = secret_.mac({label_bytes(kKeyLabel), transcript_});
  if (role_ == Role::kConnector) send_hello();
  state_ = State::kHello;
  return {};
}

Status Handshake::take_hello(std::span<const std::byte> frame) {
  FERRY_TRY(check_seal(frame));
  Decoder in(frame.subspan(kHeaderSize, frame.size() - kHeaderSize - sizeof(Bytes32)));
  peer_.purpose = static_cast<Purpose>(in.u8());
  auto reserved = in.raw(3);
  peer_.lane = in.u32();
  peer_.session = in.u64();
  auto device = in.raw(peer_.device.size());
  std::transform(device.begin(), device.end(), peer_.device.begin(),
                 [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  auto blob = in.raw(in.remaining());
  peer_.blob.assign(blob.begin(), blob.end());
  bool clean =
      std::all_of(reserved.begin(), reserved.end(), [](std::byte b) { return b == std::byte{0}; });
  bool known = peer_.purpose >= Purpose::kControl && peer_.purpose <= Purpose::kGuest;
  if (!clean || !known) {
    refuse(Code::kInvalidArgument);
    return fail(Code::kInvalidArgument, "the peer's hello names an unknown purpose, {}",
                static_cast<int>(peer_.purpose));
  }
  record(frame);
  if (role_ == Role::kAcceptor) FERRY_TRY(answer());
  state_ = State::kDone;
  transcript_ = {};
  return {};
}

Status Handshake::answer() {
  auto admitted = admit_ ? admit_(peer_) : Status();
  if (admitted) {
    send_hello();
    return {};
  }
  std::vector<std::byte> body;
  Encoder(body)
      .u8(static_cast<std::uint8_t>(admitted.error().code()))
      .raw(view(std::string_view(admitted.error().message()).substr(0, kMaxDenial)));
  send_sealed(kDenialFrame, body);
  return admitted;
}

Status Handshake::take_denial(std::span<const std::byte> frame) {
  FERRY_TRY(check_seal(frame));
  auto body = frame.subspan(kHeaderSize, frame.size() - kHeaderSize - sizeof(Bytes32));
  auto code = std::to_integer<std::uint8_t>(body[0]);
  bool known = code >= 1 && code <= static_cast<std::uint8_t>(Code::kUnauthenticated);
  std::string_view text(reinterpret_cast<const char*>(body.data()) + 1, body.size() - 1);
  return fail(known ? static_cast<Code>(code) : Code::kUnknown, "the peer did not admit us: {}",
              printable(text, kMaxDenial));
}

// Not authenticated, hence only a code out of four and no text.
Status Handshake::take_refusal(std::span<const std::byte> frame) const {
  auto code = static_cast<Code>(frame[kHeaderSize]);
  if (code == Code::kUnauthenticated) return secrets_differ("the peer refused our proof");
  if (code == Code::kUnavailable)
    return fail(Code::kUnavailable, "the peer is busy with others who want to join; try again");
  if (code == Code::kFailedPrecondition)
    return fail(Code::kFailedPrecondition,
                "the peer found no common protocol version: we speak {} to {}, it says {} to {}",
                mine_.min_version, mine_.max_version, peer_.min_version, peer_.max_version);
  return fail(Code::kInvalidArgument,
              "the peer could not understand our handshake; is something between the two that "
              "changes bytes?");
}

Status Handshake::peer_closed() {
  if (state_ == State::kDone) return {};
  if (state_ == State::kFailed) return tl::unexpected(*error_);
  state_ = State::kFailed;
  auto closed = fail(Code::kUnavailable,
                     "the peer closed the connection in the handshake, while {} was due; is it a "
                     "Tensorferry peer, and does its log say why?",
                     awaited());
  error_ = closed.value();
  return closed;
}

const char* Handshake::awaited() const {
  switch (state_) {
    case State::kOpening:
      return "its opening";
    case State::kProof:
      return "its proof";
    default:
      return "its hello";
  }
}

std::span<const std::byte> Handshake::output() const {
  return std::span<const std::byte>(output_).subspan(sent_);
}

void Handshake::consumed_output(std::size_t count) {
  FERRY_ASSERT(count <= output_.size() - sent_, "more bytes sent than there were");
  sent_ += count;
}

const Hello& Handshake::peer() const {
  FERRY_ASSERT(done(), "the peer is unknown before the handshake is done");
  return peer_;
}

std::uint16_t Handshake::version() const {
  FERRY_ASSERT(done(), "the version is not agreed before the handshake is done");
  return version_;
}

const Bytes32& Handshake::session_key() const {
  FERRY_ASSERT(done(), "there is no session key before the handshake is done");
  return session_key_;
}

std::span<const std::byte> Handshake::rest() const {
  FERRY_ASSERT(done(), "nothing follows a handshake that is not done");
  return input_;
}

void Handshake::send(std::span<const std::byte> bytes) {
  output_.insert(output_.end(), bytes.begin(), bytes.end());
  record(bytes);
}

void Handshake::record(std::span<const std::byte> bytes) {
  transcript_.insert(transcript_.end(), bytes.begin(), bytes.end());
}

void Handshake::send_opening() {
  std::vector<std::byte> opening;
  Encoder(opening).raw(view(kMagic)).u16(mine_.min_version).u16(mine_.max_version).raw(nonce_);
  send(opening);
}

void Handshake::send_proof() {
  auto proof = secret_.mac({label_bytes(kProofLabel[index(role_)]), transcript_});
  send(handshake_frame(kProofFrame, proof, 0));
}

void Handshake::send_hello() {
  std::vector<std::byte> body;
  Encoder(body)
      .u8(static_cast<std::uint8_t>(mine_.purpose))
      .raw(std::array<std::byte, 3>{})
      .u32(mine_.lane)
      .u64(mine_.session)
      .raw(std::as_bytes(std::span(mine_.device)))
      .raw(mine_.blob);
  send_sealed(kHelloFrame, body);
}

void Handshake::send_sealed(std::uint8_t type, std::span<const std::byte> body) {
  auto frame = handshake_frame(type, body, sizeof(Bytes32));
  auto seal =
      hmac_sha256(session_key_, {label_bytes(kSealLabel[index(role_)]), transcript_, frame});
  Encoder(frame).raw(seal);
  send(frame);
}

Status Handshake::check_seal(std::span<const std::byte> frame) {
  auto sealed = frame.first(frame.size() - sizeof(Bytes32));
  auto expected = hmac_sha256(session_key_,
                              {label_bytes(kSealLabel[index(other(role_))]), transcript_, sealed});
  if (equal_in_constant_time(frame.last(sizeof(Bytes32)), expected)) return {};
  refuse(Code::kUnauthenticated);
  return fail(Code::kUnauthenticated,
              "the peer's hello was changed on its way: its authentication code is wrong");
}

void Handshake::say_busy() {
  if (state_ == State::kDone || state_ == State::kFailed) return;
  refuse(Code::kUnavailable);
  state_ = State::kFailed;
  error_ = fail(Code::kUnavailable, "others took the place of this peer").value();
}

void Handshake::refuse(Code code) {
  std::byte reason{static_cast<std::uint8_t>(code)};
  send(handshake_frame(kRefusalFrame, {&reason, 1}, 0));
}

}  // namespace ferry::bootstrap
