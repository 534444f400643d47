// Data path.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "ferry/base/clock.h"
#include "ferry/fabric/grant_table_internal.h"
#include "ferry/fabric/tcp/inbox_internal.h"
#include "ferry/fabric/tcp/receiver_internal.h"
#include "ferry/fabric/tcp/sender_internal.h"
#include "ferry/fabric/tcp/window_internal.h"

namespace ferry::fabric::tcp {

// The meaning of the frames that arrive on one lane: serves the peer's requests, as a NIC would,
// and ends ours. Knows no socket. For the token's holder only.
class FrameHandler final : public FrameSink {
 public:
  FrameHandler(const GrantTable& grants, std::uint32_t peer, Sender& sender, Window& window,
               Inbox& inbox, std::atomic<std::int64_t>& pending)
      : grants_(grants),
        peer_(peer),
        sender_(sender),
        window_(window),
        inbox_(inbox),
        pending_(pending) {}

  Status begin(const Header& header) override;
  std::byte* place(std::uint64_t at) override;
  Status end() override;

  // The peer has closed the lane on purpose.
  bool said_goodbye() const { return goodbye_; }
  // The silence after which it gave this side up; 0: it closed the lane for another reason.
  Nanos gave_up_after() const { return gave_up_after_; }
  // Whether the peer is likely to wait for word of what was just placed; asking forgets it.
  bool take_urgent() { return std::exchange(urgent_, false); }
  // Whether the peer waits for word of something that it has not been told of.
  bool is_waited_for() const { return prompt_ > sender_.told(); }
  // Operations are ended through here, so that they are counted.
  void finish(Operation* op, Status status, std::uint64_t value = 0);

 private:
  // All are for the frame at hand, header_. A Status that fails is the peer's breach of protocol.

  // Ends our requests up to `done`, and tells the sender how many messages the peer has taken.
  Status take_ack(std::uint64_t done, std::uint32_t taken);
  // Checks that the request is the next one, and finds a place for its payload.
  Status begin_request();
  // Checks that the answer is to our oldest open request, and fits it.
  Status begin_answer();
  // Finds where a write goes; if the peer may not write there, the write is refused at its end.
  void begin_write();
  // Queues the answer to a read: the bytes, or a refusal.
  Status serve_read();
  // Changes the word, and queues its old value, or a refusal.
  Status serve_atomic();
  // The request is here to its last byte: does what it asks, then counts it as placed.
  Status end_request();
  // The payload of a write has landed: stores its flag. A write that was refused is answered so.
  Status end_write();
  // The answer is here to its last byte: ends our operation, unless more parts of a read follow.
  Status end_answer();
  // Queues a refusal of the peer's request.
  Status refuse(Error reason);
  // Whether the peer may store the flag of a flagged write where it says.
  Status check_flag() const;
  // Where these bytes of a grant are; fails if the peer does not have this right to them.
  Result<std::byte*> find(std::uint64_t key, std::uint32_t epoch, std::uint64_t offset,
                          std::uint64_t length, Rights need) const;
  // What our operation fails with, after the peer's refusal.
  Error reason_of_refusal() const;

  const GrantTable& grants_;
  std::uint32_t peer_;
  Sender& sender_;
  Window& window_;
  Inbox& inbox_;
  std::atomic<std::int64_t>& pending_;

  Header header_{};
  std::byte* to_ = nullptr;         // where the payload goes
  std::optional<Error> refused_{};  // why the request at hand fails
  std::uint64_t last_request_ = 0;  // of the peer's
  std::uint64_t prompt_ = 0;        // the last of them whose end the peer waits for
  bool goodbye_ = false;
  Nanos gave_up_after_{0};
  bool urgent_ = false;
  std::array<char, kMaxReason> reason_{};
};

}  // namespace ferry::fabric::tcp
