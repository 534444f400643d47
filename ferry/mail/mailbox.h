#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "ferry/fabric/device.h"
#include "ferry/mail/mail_options.h"
#include "ferry/mail/mail_stats.h"
#include "ferry/mail/tuning.h"

// Messages of any size between two processes: lists of buffers, sent over one channel, received as
// lists of views. Why it is right: docs/design/messages.md. The bytes: docs/wire/messages.md.

namespace ferry::mail {

class MailCore;
class RoomCore;
class Mailbox;
struct MailOutgoing;
struct MailParcel;

// A message that has arrived, or is arriving: views of its parts. Letting go of it, by release() or
// by destruction, gives the memory back. One thread at a time, any thread. Move-only. Must not
// outlive its mailbox.
class Message {
 public:
  Message() = default;
  Message(Message&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)), parcel_(other.parcel_) {}
  Message& operator=(Message&& other) noexcept {
    if (this != &other) {
      (void)release();
      core_ = std::exchange(other.core_, nullptr);
      parcel_ = other.parcel_;
    }
    return *this;
  }
  ~Message() { (void)release(); }

  // In registered memory of this process, or of the sender. A sender that breaks the protocol can
  // still change the bytes: check what you have read, not what you will read again.
  std::span<const std::span<const std::byte>> parts() const;
  std::uint64_t bytes() const;  // of all parts
  // Whether it lies in one of the few slots of its mailbox, which are freed in order: who keeps
  // such a message for long keeps the peer from sending.
  bool in_slot() const;
  // Which message of the mailbox it is, from 1.
  std::uint64_t number() const;

  // How many bytes are there, counted over the parts in order: all, unless receive_begun() gave it.
  std::uint64_t landed() const;
  // Waits for the first so many bytes. kDeadlineExceeded may be tried again; after another failure
  // the rest does not come.
  Status wait_bytes(std::uint64_t bytes, Deadline deadline,
                    fabric::WaitMode mode = fabric::WaitMode::kAdaptive);
  // kUnavailable if the sender is gone; the memory is given back all the same.
  Status release();
  explicit operator bool() const { return core_ != nullptr; }

 private:
  friend class Mailbox;
  Message(MailCore* core, MailParcel* parcel) : core_(core), parcel_(parcel) {}
  MailCore* core_ = nullptr;
  MailParcel* parcel_ = nullptr;
};

// A send under way. Its parts are the library's until it has ended: wait() or poll() says so, or
// Mailbox::drain(). Dropping it does not cancel the send. One thread at a time; must not outlive
// its mailbox. Move-only.
class [[nodiscard]] Sending {
 public:
  Sending() = default;  // one that has ended well
  Sending(Sending&& other) noexcept
      : core_(other.core_),
        outgoing_(std::exchange(other.outgoing_, nullptr)),
        error_(std::move(other.error_)) {}
  Sending& operator=(Sending&& other) noexcept {
    if (this != &other) {
      drop();
      core_ = other.core_;
      outgoing_ = std::exchange(other.outgoing_, nullptr);
      error_ = std::move(other.error_);
    }
    return *this;
  }
  ~Sending() { drop(); }

  // True once it has ended; makes a little progress. Never blocks, but when it ends may wait for
  // threads of this process that copy from memory that was registered for it (on verbs, for the
  // peer to let go of it: 0.5 s, times Options::patience above 1, if the peer is stopped).
  bool poll();
  // Makes progress until it has ended, by its deadline (on verbs, see poll()), and says how:
  // kDeadlineExceeded      nothing was sent; or a large message was announced and not taken in
  // time:
  //                        it may still arrive, whole, above all if it was in memory from
  //                        allocate(). Memory of the program's own may be used again
  // kUnavailable           the peer is gone
  // kResourceExhausted ... what the peer refused it with
  Status wait(fabric::WaitMode mode = fabric::WaitMode::kAdaptive);

 private:
  friend class Mailbox;
  Sending(MailCore* core, MailOutgoing* outgoing) : core_(core), outgoing_(outgoing) {}
  explicit Sending(Error error) : error_(std::move(error)) {}
  void take_outcome();
  void drop();
  MailCore* core_ = nullptr;
  MailOutgoing* outgoing_ = nullptr;
  std::optional<Error> error_;
};

// Registered memory to build a message in: large ones are not copied from it, and are used in place
// where the path maps it. Once a send has used it, its bytes do not change any more: the peer may
// be looking at them. Let go of it then; it comes back to allocate() when the last send is through.
// Move-only; must not outlive its owner.
template <class Owner>
class LentBuffer {
 public:
  LentBuffer() = default;
  LentBuffer(Owner* owner, std::size_t index, std::span<std::byte> bytes)
      : owner_(owner), index_(index), bytes_(bytes) {}
  LentBuffer(LentBuffer&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), index_(other.index_), bytes_(other.bytes_) {}
  LentBuffer& operator=(LentBuffer&& other) noexcept {
    if (this != &other) {
      reset();
      owner_ = std::exchange(other.owner_, nullptr);
      index_ = other.index_;
      bytes_ = other.bytes_;
    }
    return *this;
  }
  ~LentBuffer() { reset(); }

  // 64-aligned; what it holds is left over.
  std::span<std::byte> bytes() const { return bytes_; }
  void reset();
  explicit operator bool() const { return owner_ != nullptr; }

 private:
  Owner* owner_ = nullptr;
  std::size_t index_ = 0;
  std::span<std::byte> bytes_;
};
// For messages of one mailbox.
using MailBuffer = LentBuffer<MailCore>;
template <>
void MailBuffer::reset();
// For messages to any peer of the device, over any mailbox of the room. All peers may read it.
using RoomBuffer = LentBuffer<RoomCore>;
template <>
void RoomBuffer::reset();

// The receive memory that all mailboxes of a device share, with a budget that does not depend on
// their number; and the wait for any of them. Thread-safe. Must outlive its mailboxes, and not its
// device, which stays where it is.
class MailRoom {
 public:
  static Result<MailRoom> open(fabric::Device& device, MailRoomOptions options = {});
  MailRoom(MailRoom&&) noexcept;
  MailRoom& operator=(MailRoom&&) noexcept;
  ~MailRoom();

  // Waits until one of these mailboxes of this room has a message, or has failed, so that receive()
  // returns at once: its index. Looks at them in turn, so that none starves another.
  // kDeadlineExceeded if none comes.
  Result<std::size_t> wait_any(std::span<Mailbox* const> boxes, Deadline deadline,
                               fabric::WaitMode mode = fabric::WaitMode::kAdaptive);
  // Registered memory for messages to any peer. kResourceExhausted if that would exceed
  // MailRoomOptions::shared_bytes (or, with what is kept, four times that), or what the device has.
  Result<RoomBuffer> allocate(std::uint64_t bytes);
  // Bytes of receive buffers that messages lie in now.
  std::uint64_t bytes_in_use() const;
  // Whether a message waits for such memory. Lock-free.
  bool crowded() const;

 private:
  friend class Mailbox;
  explicit MailRoom(std::unique_ptr<RoomCore> core);
  std::unique_ptr<RoomCore> core_;
};

// One end of a channel as a way for messages, both directions. Messages arrive whole, once and in
// the order in which they were sent. There is no thread behind it: whoever waits makes progress on
// all mailboxes of the room.
//
// Thread-safe, but for moving and destruction: no other call may be running then. Not to be called
// from completion callbacks. Must not outlive its room, device and channel, which stay where they
// are. A child of fork() has none of it: it must neither call nor destroy it, and leaves by exec()
// or _exit().
class Mailbox {
 public:
  // Both ends call it, on a channel whose small messages nobody else takes meanwhile. `device` is
  // the room's.
  static Result<Mailbox> open(MailRoom& room, fabric::Device& device, fabric::Channel& channel,
                              MailboxOptions options, Deadline deadline);
  Mailbox(Mailbox&&) noexcept;
  Mailbox& operator=(Mailbox&&) noexcept;
  // Ends what is under way: sends fail, and messages that were not received are lost. The peer is
  // told, and still receives whatever was sent before.
  ~Mailbox();

  // Sends the parts, at most 1,024, as one message. They are the library's until the handle says
  // that the send has ended; `parts` itself is not. Never blocks: kResourceExhausted if so much
  // waits to be sent that MailboxOptions::send_bytes would be exceeded; wait for earlier sends, or
  // drain(). kInvalidArgument for too many parts, kOutOfRange for more bytes than the peer takes.
  // See Sending::wait() for the rest.
  Sending send(std::span<const std::span<const std::byte>> parts, Deadline deadline);
  Sending send(std::span<const std::byte> bytes, Deadline deadline);
  // The same, and waits, also while too much waits to be sent.
  Status send_and_wait(std::span<const std::span<const std::byte>> parts, Deadline deadline,
                       fabric::WaitMode mode = fabric::WaitMode::kAdaptive);
  Status send_and_wait(std::span<const std::byte> bytes, Deadline deadline,
                       fabric::WaitMode mode = fabric::WaitMode::kAdaptive);
  // Waits until every send has ended; the failures are for their handles.
  Status drain(Deadline deadline, fabric::WaitMode mode = fabric::WaitMode::kAdaptive);

  // Registered memory for messages to this peer. kResourceExhausted if that would exceed
  // MailboxOptions::send_bytes, or what the device has.
  Result<MailBuffer> allocate(std::uint64_t bytes);
  // The same, and waits until the peer has let go of enough: kDeadlineExceeded.
  Result<MailBuffer> allocate(std::uint64_t bytes, Deadline deadline,
                              fabric::WaitMode mode = fabric::WaitMode::kAdaptive);

  // The next message, whole. kDeadlineExceeded if none comes, kUnavailable if the peer is gone or
  // has closed its mailbox, kDataLoss if it broke the protocol: then the mailbox is opened anew.
  Result<Message> receive(Deadline deadline, fabric::WaitMode mode = fabric::WaitMode::kAdaptive);
  // The next message as soon as there is memory for it: its sizes are known, and its bytes come in
  // order. See Message::wait_bytes().
  Result<Message> receive_begun(Deadline deadline,
                                fabric::WaitMode mode = fabric::WaitMode::kAdaptive);
  // The next message if it is there. Never blocks.
  Result<std::optional<Message>> poll();

  // Whether poll() or the end of a send may have something new: lock-free, and cheap enough to ask
  // of many mailboxes at each turn of a loop. For who does not want a message now, one that is
  // there already is nothing new.
  bool may_be_ready(bool wants_message = true) const;
  // How many sends have not ended, seen to by whichever thread was in the mailbox last. Lock-free.
  std::uint64_t open_sends() const;
  MailStats stats() const;
  // What is in effect, and where that comes from which the options leave open.
  Tuning tuning() const;
  TuningSource tuning_source() const;
  // Replaces what the options leave open, for messages from now on. Slots stay as large as they
  // are: what does not fit into one is announced, whatever the threshold. kOutOfRange names a value
  // that is out of bounds; nothing has changed then.
  Status retune(const Tuning& tuning, TuningSource source);

 private:
  friend class MailRoom;
  explicit Mailbox(std::unique_ptr<MailCore> core);
  std::unique_ptr<MailCore> core_;
};

}  // namespace ferry::mail
