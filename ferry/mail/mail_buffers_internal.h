#pragma once

#include <vector>

#include "ferry/landing/buffer_pool.h"
#include "ferry/mail/mail_outgoing_internal.h"
#include "ferry/mail/mail_signals_internal.h"
#include "ferry/mail/room_memory_internal.h"

namespace ferry::mail {

// Who has a share in which buffer of the pool that the peer may read: the program, by allocate(),
// and sends. A buffer goes back to the pool with its last share. Runs under the mailbox's lock; the
// pool's own, and the room's, come after it.
class MailBuffers {
 public:
  MailBuffers(RoomMemory& room, landing::BufferPool& pool, MailOutSignals& signals)
      : room_(room), pool_(pool), signals_(signals) {}

  // With one share: of `out`, or of the program, for which `given` bytes were counted.
  void add(const landing::BufferPool::Buffer& buffer, MailOutgoing* out, std::uint64_t given);
  // The parts that lie in buffers keep those from being used anew.
  void share(MailOutgoing& out);
  // False: others have a share.
  bool unshare(std::size_t index);
  // What the send has, also of the room's buffers.
  void unshare_all(MailOutgoing& out);

  // How each part gets to where the peer can read it. Neighbours that are copied are one piece.
  std::vector<MailPlace> find_places(MailParts parts, std::uint64_t copy_up_to);

 private:
  struct Shared {
    landing::BufferPool::Buffer buffer;
    std::uint32_t shares = 0;
    std::uint64_t given = 0;  // bytes that allocate() has counted for it
  };
  // The buffer that these bytes lie in; null: none.
  Shared* find(std::span<const std::byte> bytes);
  // How this part of a message gets to where the peer can read it.
  MailPlace find_place(std::span<const std::byte> part, std::uint64_t copy_up_to);

  RoomMemory& room_;
  landing::BufferPool& pool_;
  MailOutSignals& signals_;
  std::vector<Shared> shared_;  // by index in the pool
};

}  // namespace ferry::mail
