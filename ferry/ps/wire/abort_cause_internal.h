#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ferry/bootstrap/codec.h"
#include "ferry/ps/options.h"

namespace ferry::ps {

// Which check an entry of a worker has failed: see docs/wire/ps.md, "The ring of a worker at a
// shard". The numbers are on the wire.
enum class Breach : std::uint8_t {
  kNumber = 1,     // not the next one of its ring
  kOperation = 2,  // there is no such operation
  kPart = 3,       // there is no such part
  kPayload = 4,    // outside of the slot or the memory that it names, or not aligned
  kBlocks = 5,     // the part does not have them, or their bytes are others
  kTwice = 6,      // the worker has pushed the block in this step
  kRows = 7,       // the part does not have them, or their bytes are others
  kStep = 8,       // a gradient of a step that is applied
  kEnd = 9,        // the end of a step that is not the worker's next one
};
// What the worker did, as in "the worker ...".
std::string_view text_of(Breach breach);

// Why a job is over before its end, for one worker or for all. Plain data. Travels in the word
// `redo` and in Ask::kStop, so the numbers of `Kind` are on the wire.
struct AbortCause {
  enum class Kind : std::uint8_t {
    kOther = 0,            // only the text of kStop says it
    kWorkersDied = 1,      // number: how many, which is too many
    kServerLost = 2,       // number: which one; nobody else has its blocks
    kBothCopiesLost = 3,   // number and other: which servers
    kStateNotWritten = 4,  // by the scheduler
    kBreach = 5,           // for this worker alone; number: Breach
  };
  Kind kind = Kind::kOther;
  std::uint32_t number = 0;
  std::uint16_t other = 0;

  // As a value of the word `redo`; every attempt is below it.
  static constexpr std::uint64_t kFirstWord = std::uint64_t{1} << 62;
  static constexpr bool is_word(std::uint64_t word) { return word >= kFirstWord; }
  constexpr std::uint64_t to_word() const {
    return kFirstWord | static_cast<std::uint64_t>(kind) << 48 | std::uint64_t{other} << 32 |
           number;
  }
  static constexpr AbortCause from_word(std::uint64_t word) {
    return {.kind = static_cast<Kind>(word >> 48 & 0xff),
            .number = static_cast<std::uint32_t>(word),
            .other = static_cast<std::uint16_t>(word >> 32)};
  }
  // For a worker. `endpoint_of` a server by its index; empty: it is not known.
  std::string describe(const JobOptions& job,
                       const std::function<std::string(std::uint32_t)>& endpoint_of) const;
  friend bool operator==(const AbortCause&, const AbortCause&) = default;
};

// The body of Ask::kStop.
struct StopNotice {
  bool failed = false;
  AbortCause cause{};  // if it has failed
  std::string text;    // the same in words, cut at kMostName
};
void put(bootstrap::Encoder& out, const StopNotice& notice);
StopNotice get_stop(bootstrap::Decoder& in);

}  // namespace ferry::ps
