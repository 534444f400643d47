// Data path.
#pragma once

#include <cstdint>

#include "ferry/fabric/operation_internal.h"
#include "ferry/fabric/verbs/credits_internal.h"
#include "ferry/fabric/verbs/exposures_internal.h"
#include "ferry/fabric/verbs/peer_link_internal.h"
#include "ferry/fabric/verbs/queue_pair_internal.h"
#include "ferry/fabric/verbs/send_ring_internal.h"
#include "ferry/fabric/verbs/slot_words_internal.h"
#include "ferry/fabric/verbs/teardown_internal.h"
#include "ferry/fabric/verbs/work_internal.h"

namespace ferry::fabric::verbs {

// Turns operations, binds and notices into work requests, and posts them to the queue pair. Each
// has a slot of the ring, by which the loop finds what has completed.
//
// Not thread-safe: the backlog, which owns it, calls it under its lock.
class SendQueue {
 public:
  // What posting stands on. The loop uses ring, credits and words too, and they say how.
  struct Parts {
    const Adapter& adapter;
    const PeerLink& peer;
    QueuePair& pair;
    SendRing& ring;
    Credits& credits;
    SlotWords& words;
    Teardown& teardown;  // told when the device refuses a request
  };
  enum class Outcome : std::uint8_t {
    kMore,       // only between two requests of one operation
    kPosted,     // all of the operation
    kNoRoom,     // a part of it, or nothing: the ring is full
    kNoCredits,  // its payload, or nothing: the message or the flag must wait
    kRefused,    // not all of it: the device took no more, and the lane will be taken down
  };

  explicit SendQueue(const Parts& parts) : parts_(parts) {}

  // Posts the operation, or goes on with it. Its grants are known. What was posted may have ended,
  // and be another one's, when this returns.
  Outcome post(Operation* op);
  void post_bind(const Bind& bind);
  // An empty message, whose completion says that the path works.
  void post_hello();
  // Gives the peer its credits back by a message of their own, if they are due.
  void return_credits();

  // Whether there is room for an operation; the rest is for credits and binds.
  bool has_room() const;
  bool has_room_for_bind() const { return parts_.ring.room() > 0; }
  // Whether a bind may be posted now: where binds are run again after a loss, when all that was
  // posted has completed.
  bool can_bind() const;

 private:
  struct Burst;

  Outcome add_next(Operation* op, Burst& burst);
  Outcome add_payload(Operation* op, Burst& burst);
  Outcome add_flag(Operation* op, Burst& burst);
  Outcome add_atomic(Operation* op, Burst& burst);
  Outcome add_message(Operation* op, Burst& burst);
  void post_notice(Immediate::Kind kind, SendSlot::Kind slot);
  ibv_send_wr& begin(Burst& burst, ibv_wr_opcode opcode);
  // Makes the request the one that the receiver's loop hears of; credits that are owed ride on it.
  void add_immediate(ibv_send_wr& request, Immediate::Kind kind);
  void number(ibv_send_wr& request, const SendSlot& slot, bool signal);
  bool flush(Burst& burst);

  const Parts parts_;
};

}  // namespace ferry::fabric::verbs
