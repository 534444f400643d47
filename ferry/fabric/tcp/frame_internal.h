// Data path.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ferry::fabric::tcp {

// The frames of a lane, as docs/wire/tcp.md has them byte by byte.
enum class FrameType : std::uint8_t {
  kAck = 1,      // nothing but `done` and `taken`
  kBye,          // the sender closes this lane on purpose
  kNop,          // request: given up before its first byte was sent; keeps the ids in order
  kWrite,        // request; payload follows
  kRead,         // request
  kFetchAdd,     // request
  kCompareSwap,  // request
  kMessage,      // request; payload follows
  kReadPart,     // answer; payload follows
  kReadEnd,      // answer: all parts are true
  kFound,        // answer to an atomic
  kRefusal,      // answer: the request failed; payload is the reason in words
};

inline constexpr std::uint8_t kFlagged = 1;  // kWrite: a flag is to be stored after the payload
inline constexpr std::uint8_t kNotify = 2;   // kWrite: wake whoever sleeps until the flag comes
inline constexpr std::uint8_t kPatient = 4;  // kWrite: nobody waits for word that it is done

inline constexpr std::size_t kHeaderBytes = 80;
inline constexpr std::uint64_t kMaxLength = std::uint64_t{1} << 48;
inline constexpr std::uint64_t kMaxPart = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxMessage = 4096;
inline constexpr std::uint64_t kMaxReason = 512;
// Requests of one side that are sent and not yet done, and messages not yet taken.
inline constexpr std::uint64_t kWindow = 256;
inline constexpr std::uint32_t kMessageCredits = 64;

// Little-endian, as it lies on the wire.
struct Header {
  std::uint8_t type = 0;
  std::uint8_t bits = 0;
  std::uint16_t code = 0;    // kRefusal
  std::uint32_t taken = 0;   // messages that the sender's user has taken, modulo 2^32
  std::uint64_t id = 0;      // requests count from 1; answers name theirs
  std::uint64_t done = 0;    // every request of the receiver up to this one is done
  std::uint64_t key = 0;     // of the grant
  std::uint64_t offset = 0;  // into the region; kReadPart: into the bytes asked for
  std::uint64_t length = 0;  // of the payload; kRead: bytes asked for
  std::uint32_t epoch = 0;   // of the grant
  std::uint32_t flag_epoch = 0;
  std::uint64_t flag_key = 0;  // kCompareSwap: the expected value
  std::uint64_t flag_offset = 0;
  std::uint64_t value = 0;  // of the flag; atomics: addend, new value; kFound: what was there

  FrameType kind() const { return static_cast<FrameType>(type); }
};
static_assert(sizeof(Header) == kHeaderBytes && std::is_trivially_copyable_v<Header>);
static_assert(std::endian::native == std::endian::little, "headers are sent as they lie in memory");

constexpr bool is_request(FrameType type) {
  return type >= FrameType::kNop && type <= FrameType::kMessage;
}

// Bytes that follow the header.
std::uint64_t payload_of(const Header& header);

// What is wrong with a header that a peer sent, or nullptr. Looks at the header alone.
const char* problem_of(const Header& header);

}  // namespace ferry::fabric::tcp
