#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ferry/fabric/types.h"
#include "ferry/landing/layout.h"

namespace ferry::mail {

// The bytes of docs/wire/messages.md. What a peer wrote is loaded once, checked, then used.

struct MailLimits {
  static constexpr std::uint32_t kParts = 1024;       // of one message
  static constexpr std::uint32_t kPieces = 64;        // of memory that one announcement names
  static constexpr std::uint32_t kRendezvous = 1024;  // indices
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 48;
  static constexpr std::uint64_t kAlign = 64;  // of the parts of a large message
};

// What each end tells the other when a mailbox is opened.
struct MailHello {
  bool spins = false;
  std::uint32_t slots = 0;
  std::uint32_t rendezvous = 0;  // words in `words`: large messages that may be under way
  std::uint64_t body = 0;        // bytes of a slot
  std::uint64_t nonce = 0;       // of the landing
  std::uint64_t most_bytes = 0;  // of a message that this end takes
  fabric::RemoteRegion landing;  // the slots
  fabric::RemoteRegion words;    // one line for each rendezvous

  static constexpr std::size_t kWireBytes = 104;
  using Wire = std::array<std::byte, kWireBytes>;
  Wire to_wire() const;
  static Result<MailHello> from_wire(std::span<const std::byte> wire);
};

// One word of a rendezvous, written by the receiver into the sender's memory.
struct MailWord {
  enum class State : std::uint8_t {
    kTaken = 1,    // in use where it is: the send is done, its memory is not free
    kDone = 2,     // its memory is free
    kRefused = 3,  // `code` says why; its memory is free
  };
  std::uint64_t number = 0;
  State state = State::kDone;
  Code code = Code::kOk;

  std::uint64_t to_u64() const {
    return number << 16 | static_cast<std::uint64_t>(code) << 8 | static_cast<std::uint64_t>(state);
  }
  static Result<MailWord> from_u64(std::uint64_t value);
};

enum class MailKind : std::uint32_t { kEager = 1, kAnnouncement = 2 };

// Before each record of a batch.
struct MailHead {
  static constexpr std::uint64_t kBytes = 16;
  MailKind kind = MailKind::kEager;
  std::uint32_t parts = 0;
  std::uint64_t body = 0;  // bytes that follow, a multiple of 8

  // From memory that the peer can write, aligned to 8: the head of a record that fits into it.
  static Result<MailHead> load(std::span<const std::byte> from);
  void store(std::byte* to) const;
};

// A batch: records one after the other, after this.
struct MailBatch {
  static constexpr std::uint64_t kBytes = 8;
  std::uint32_t bytes = 0;  // of the records
  std::uint32_t records = 0;

  static Result<MailBatch> load(std::span<const std::byte> body);
  void store(std::byte* to) const;
};

using MailParts = std::span<const std::span<const std::byte>>;

// An eager record: sizes, then parts, each padded to 8.
std::uint64_t eager_record_bytes(MailParts parts);
// Returns the record's bytes.
std::uint64_t store_eager(std::byte* to, MailParts parts);
// Views of the parts. kDataLoss for sizes that do not add up to the record's.
Status load_eager(const MailHead& head, std::span<const std::byte> body,
                  std::vector<std::span<const std::byte>>& parts);

// A large message: where its bytes are. Parts lie one after the other, each padded to kAlign; a
// piece of the sender's memory holds one or more of them.
struct Announcement {
  struct Piece {
    fabric::RemoteRegion region;
    std::uint64_t offset = 0;
    std::uint32_t parts = 0;
  };
  std::uint64_t number = 0;
  std::uint32_t index = 0;
  bool mappable = false;  // all pieces can be used in place where the path maps
  std::vector<std::uint64_t> sizes;
  std::vector<Piece> pieces;

  static constexpr std::uint64_t kFixed = 24;
  static constexpr std::uint64_t kPieceBytes = 48;
  static constexpr std::uint64_t kMostRecord =
      MailHead::kBytes + kFixed + MailLimits::kParts * 8 + MailLimits::kPieces * kPieceBytes;

  std::uint64_t record_bytes() const {
    return MailHead::kBytes + kFixed + sizes.size() * 8 + pieces.size() * kPieceBytes;
  }
  void store(std::byte* to) const;
  // From bytes that cannot be trusted, copied out of the peer's reach: fills this one. Sizes,
  // pieces and regions agree afterwards.
  Status load(const MailHead& head, std::span<const std::byte> body);

  std::uint64_t total() const;  // bytes of the parts
  // Bytes that `count` parts from `first` on take, with the padding between them.
  std::uint64_t span_of(std::uint32_t first, std::uint32_t count) const;
  std::uint64_t span() const { return span_of(0, static_cast<std::uint32_t>(sizes.size())); }
};

// The smallest body of a slot: any announcement fits.
constexpr std::uint64_t kLeastMailSlot =
    align_up(MailBatch::kBytes + Announcement::kMostRecord, 64);

}  // namespace ferry::mail
