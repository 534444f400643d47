#pragma once

#include <cstdint>
#include <utility>

#include "ferry/mail/mail_engine_internal.h"
#include "ferry/mail/mail_room_internal.h"

namespace ferry::mail {

// A mailbox in its room: all that waits. Tries what its engine does at once until that succeeds or
// fails, or the deadline comes, and makes progress on every mailbox of the room meanwhile. Any
// thread; it has no lock, and between calls nothing but its place in the room.
class MailCore {
 public:
  MailCore(RoomCore& room, fabric::Device& device, fabric::Channel& channel, MailSetup setup)
      : room_(room), engine_(room.resources(), device, channel, std::move(setup)) {
    room_.join(engine_);
  }
  ~MailCore() { room_.leave(engine_); }
  MailCore(const MailCore&) = delete;
  MailCore& operator=(const MailCore&) = delete;

  MailEngine& engine() { return engine_; }
  const MailSignals& signals() const { return engine_.signals(); }

  // Waits until it is accepted. Null: it has gone out.
  Result<MailOutgoing*> send_when_room(MailParts parts, Deadline deadline, fabric::WaitMode mode);
  // Waits until it has ended.
  void wait_send(MailOutgoing* out, fabric::WaitMode mode);
  Status drain(Deadline deadline, fabric::WaitMode mode);
  // kResourceExhausted at once if the deadline is 0.
  Result<landing::BufferPool::Buffer> allocate_when_room(std::uint64_t bytes, Deadline deadline,
                                                         fabric::WaitMode mode);
  Result<MailParcel*> wait_next(bool begun, Deadline deadline, fabric::WaitMode mode);
  Status wait_landed(MailParcel& parcel, std::uint64_t span, Deadline deadline,
                     fabric::WaitMode mode);

 private:
  // Waits until done() or something can be done in the room, and does what others need. False: the
  // deadline came first.
  template <class Done>
  bool await(Done done, Deadline deadline, fabric::WaitMode mode);

  RoomCore& room_;
  MailEngine engine_;
};

}  // namespace ferry::mail
