#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/bootstrap/secret.h"

namespace ferry::bootstrap {

// Who called whom.
enum class Role : std::uint8_t { kConnector, kAcceptor };

// What a connection is for.
enum class Purpose : std::uint8_t {
  kControl = 1,
  kLane = 2,
  kGuest = 3,  // a connection of another system that asks for Tensorferry: its blob says for what
};

// The versions of the handshake and of what follows it that this build speaks.
inline constexpr std::uint16_t kMinVersion = 1;
inline constexpr std::uint16_t kMaxVersion = 1;

inline constexpr std::size_t kMaxBlob = 65536;

// What one side tells the other. Only the versions travel before both sides have proved that they
// know the secret; the rest follows under a message authentication code.
struct Hello {
  std::uint16_t min_version = kMinVersion;
  std::uint16_t max_version = kMaxVersion;
  Purpose purpose = Purpose::kControl;
  std::array<std::uint8_t, 16> device{};  // identity of the sending device
  std::uint64_t session = 0;              // a lane names the session that it joins
  std::uint32_t lane = 0;
  std::vector<std::byte> blob;  // at most kMaxBlob: what the providers offer

  friend bool operator==(const Hello&, const Hello&) = default;
};

// The acceptor's say, once the connector is authenticated and its hello is known, before the
// acceptor's own hello leaves. An error is sent to the connector, whose handshake then fails with
// the same code and text (cut at kMaxDenial bytes).
using Admit = std::function<Status(const Hello& peer)>;
inline constexpr std::size_t kMaxDenial = 512;

// One side of the mutual challenge-response that opens every connection (docs/wire/bootstrap.md).
//
// Does no I/O. The owner moves bytes: what arrives goes to consume() in any fragments, what
// output() shows goes to the peer, also after a failure, because the last frame may tell the peer
// why. A connector that is done knows that the acceptor has admitted it. Before the peer is
// authenticated less than 40 bytes are kept between two calls. Not thread-safe.
class Handshake {
 public:
  // Fails with kInvalidArgument if `mine` cannot be sent (blob too large, versions reversed).
  static Result<Handshake> open(Role role, const Secret& secret, Hello mine, Admit admit = {});
  // The same with a nonce of the caller's, for tests and fuzzing. A nonce must never be used twice.
  static Result<Handshake> open_with_nonce(Role role, const Secret& secret, Hello mine,
                                           const Bytes32& nonce, Admit admit = {});
  Handshake(Handshake&&) = default;
  Handshake& operator=(Handshake&&) = default;
  ~Handshake();

  // Takes bytes of the peer. Once failed it stays failed and repeats its error.
  //   kInvalidArgument     not a Tensorferry peer, or one that breaks the protocol
  //   kFailedPrecondition  no common version
  //   kUnauthenticated     the secrets differ, or the bytes were tampered with
  //   any                  the acceptor did not admit us
  Status consume(std::span<const std::byte> bytes);
  // The peer closed its end. Success if done, else the error that names what was missing.
  Status peer_closed();

  // Bytes to send; say how many left with consumed_output().
  std::span<const std::byte> output() const;
  void consumed_output(std::size_t count);

  // How far the peer has come: its opening is here; it has proved that it knows the secret.
  bool has_opening() const { return state_ != State::kOpening && state_ != State::kFailed; }
  bool has_proof() const { return state_ == State::kHello || state_ == State::kDone; }
  // Ends an unfinished handshake: the peer is told that others take our time, and may try again.
  void say_busy();

  // The peer is authenticated and its hello is known. Output may still be waiting to be sent.
  bool done() const { return state_ == State::kDone; }

  // Only when done.
  const Hello& peer() const;
  std::uint16_t version() const;
  const Bytes32& session_key() const;
  // What arrived behind the handshake: the first bytes of what follows.
  std::span<const std::byte> rest() const;

 private:
  enum class State : std::uint8_t { kOpening, kProof, kHello, kDone, kFailed };

  Handshake(Role role, const Secret& secret, Hello mine, const Bytes32& nonce, Admit admit);

  // Each takes one unit of the peer's, if it is there whole.
  Status step(bool& progressed);
  Status take_opening(bool& progressed);
  Status take_frame(bool& progressed);
  bool fits(std::uint8_t type, std::uint32_t length) const;
  Status take_proof(std::span<const std::byte> frame);
  Status take_hello(std::span<const std::byte> frame);
  Status take_denial(std::span<const std::byte> frame);
  Status take_refusal(std::span<const std::byte> frame) const;
  Status check_seal(std::span<const std::byte> frame);
  Status answer();
  const char* awaited() const;

  void send(std::span<const std::byte> bytes);
  void send_opening();
  void send_proof();
  void send_hello();
  void send_sealed(std::uint8_t type, std::span<const std::byte> body);
  void refuse(Code code);
  void record(std::span<const std::byte> bytes);

  Role role_;
  State state_ = State::kOpening;
  Secret secret_;
  Hello mine_;
  Bytes32 nonce_;
  Admit admit_;

  Hello peer_;
  std::uint16_t version_ = 0;
  Bytes32 session_key_{};
  std::optional<Error> error_;

  std::vector<std::byte> transcript_;  // all that crossed so far, both ways, in order
  std::vector<std::byte> input_;       // not yet understood; the rest once done
  std::vector<std::byte> output_;
  std::size_t sent_ = 0;  // of output_
};

// What a finished handshake leaves.
struct Joined {
  Hello peer;
  Bytes32 session_key{};
  std::uint16_t version = 0;
  std::vector<std::byte> rest;  // bytes of the peer that belong to what follows
};

// Runs a handshake over a non-blocking socket, which stays the caller's. After a failure the
// caller closes it.
Result<Joined> join(int fd, Role role, const Secret& secret, Hello mine, Deadline deadline,
                    Admit admit = {});

}  // namespace ferry::bootstrap
