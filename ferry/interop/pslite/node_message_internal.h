#pragma once

#include <ps/ps.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ferry/bootstrap/codec.h"

// The bytes of messages between nodes. The first part of a message, its head, begins with the kind
// of the message and the node that sends it; the other parts are arrays.

namespace ps {

enum class MessageKind : std::uint8_t {
  kData = 0,
  kJoin,         // a customer of a process has called Start()
  kTable,        // all have: who is where
  kBarrier,      // a customer has come to a barrier
  kBarrierDone,  // all have
  kBye,
  kRefused,  // more have called Start() than were declared
};

// Smaller arrays are copied by the mailbox anyway.
inline constexpr std::size_t kLeastInPlace = 4096;

// A head, to which more can be written.
std::vector<std::byte> head_of(MessageKind kind, int sender);
// What a message of a program says, but for who sends it and whether its keys are those of the one
// before.
void put_meta(ferry::bootstrap::Encoder& out, const Message& message);
void get_meta(ferry::bootstrap::Decoder& in, Meta& meta);

}  // namespace ps
