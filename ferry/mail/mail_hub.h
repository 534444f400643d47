#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/mail/mailbox.h"

namespace ferry::mail {

// Mailboxes to many peers, with a thread that takes in newcomers and one that receives.
// Thread-safe, but for destruction. Must not outlive its device.
class MailHub {
 public:
  using PeerId = std::uint64_t;  // of this hub; never used twice
  // One end of a connection. Keeps the mailbox for as long as somebody has it.
  struct Peer {
    PeerId id = 0;
    std::shared_ptr<MailRoom> room;  // outlives the mailbox
    fabric::Channel channel;
    std::unique_ptr<Mailbox> box;
  };
  // Called on the thread that receives, one at a time. Unlike callbacks of the fabric these may
  // block; then this hub receives nothing else meanwhile, from any peer, and tick() waits.
  class Handler {
   public:
    // The message may be kept, together with the peer; neither must outlive the device.
    virtual void arrived(const std::shared_ptr<Peer>& from, Message message) = 0;
    virtual void gone(PeerId peer) = 0;
    virtual void tick() {}  // every few milliseconds, and after each message

   protected:
    ~Handler() = default;
  };

  static Result<std::unique_ptr<MailHub>> open(fabric::Device& device, const MailRoomOptions& room,
                                               const MailboxOptions& box, Handler& handler);
  // Stops, and closes all mailboxes.
  ~MailHub();

  Result<std::shared_ptr<Peer>> connect(const std::string& endpoint, Deadline deadline);

  // For a thread that waits for what a message brings: receives in place of the hub's thread, which
  // stays away meanwhile and a little longer, until ready() or the deadline. Handlers are called on
  // it. False, at once, if another thread does so already, or from within a handler.
  bool receive_until(const std::function<bool()>& ready, Deadline deadline);

 private:
  // The peers as one thread knows them.
  struct Known {
    std::uint64_t changes = 0;
    std::vector<std::shared_ptr<Peer>> peers;
    std::vector<Mailbox*> boxes;
  };
  MailHub(fabric::Device& device, const MailboxOptions& box, Handler& handler)
      : device_(device), box_options_(box), handler_(handler) {}
  Result<std::shared_ptr<Peer>> add(fabric::Channel channel, Deadline deadline);
  void accept_all();
  void receive_all();
  void receive_next(Known& known, Deadline deadline);
  void receive_one(const std::shared_ptr<Peer>& peer) FERRY_REQUIRES(handler_lock_);
  void refresh_peers(Known& known);

  fabric::Device& device_;
  const MailboxOptions box_options_;
  Handler& handler_;
  std::shared_ptr<MailRoom> room_;  // shared with peers, which others may hold on to
  Mutex lock_;
  std::map<PeerId, std::shared_ptr<Peer>> peers_ FERRY_GUARDED_BY(lock_);
  PeerId last_ FERRY_GUARDED_BY(lock_) = 0;
  std::atomic<std::uint64_t> changes_{0};       // of peers_
  Mutex handler_lock_;                          // of whoever calls the handler
  std::atomic<std::thread::id> handling_{};     // who that is
  std::atomic<bool> guest_{false};              // somebody is in receive_until()
  std::atomic<std::int64_t> guest_left_ns_{0};  // when somebody was last
  std::atomic<bool> stop_{false};
  std::thread acceptor_;
  std::thread receiver_;
};

}  // namespace ferry::mail
