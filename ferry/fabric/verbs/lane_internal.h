// Data path.
#pragma once

#include <atomic>
#include <memory>

#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/verbs/backlog_internal.h"
#include "ferry/fabric/verbs/completion_queue_internal.h"
#include "ferry/fabric/verbs/credits_internal.h"
#include "ferry/fabric/verbs/exposures_internal.h"
#include "ferry/fabric/verbs/inbox_internal.h"
#include "ferry/fabric/verbs/peer_link_internal.h"
#include "ferry/fabric/verbs/queue_pair_internal.h"
#include "ferry/fabric/verbs/send_ring_internal.h"
#include "ferry/fabric/verbs/slot_words_internal.h"
#include "ferry/fabric/verbs/teardown_internal.h"

namespace ferry::fabric::verbs {

// The loop's source that hands completions to their lanes, as a lane sees it. With the token.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  // Handles what has completed; returns how much.
  virtual int progress_on_loop() = 0;
  // Completions of this queue pair are dropped from now on.
  virtual void remove_on_loop(std::uint32_t qpn) = 0;
};

// One queue pair and what is under way on it. Operations go through the backlog onto the send queue
// from the thread that posts them; completions come from the loop.
//
// A work request cannot be called back. So an operation that must end early takes the queue pair
// down: it is destroyed, after which the device touches no buffer of it, then every operation on it
// fails, then the device connects the lane anew.
//
// Between calls every operation that has not ended is in the backlog or in the ring. Thread-safe;
// methods that end in _on_loop are for the token's holder.
class VerbsLane final : public Lane,
                        public GrantHolder,
                        public std::enable_shared_from_this<VerbsLane> {
 public:
  static Result<std::shared_ptr<VerbsLane>> make(Shared& shared, CompletionQueue& completions,
                                                 Dispatcher& dispatcher,
                                                 std::shared_ptr<PeerSession> session);
  ~VerbsLane() override;

  // Connecting: this end's half, then the other's.
  LaneHello hello() const { return pair_.hello(); }
  Status meet(const LaneHello& peer);
  // Sends an empty message and waits for the peer's device to acknowledge it: the path works.
  Status greet(Deadline deadline);
  // From now on the device is told when the lane breaks.
  void establish() { established_.store(true, std::memory_order_release); }

  Transfer post(Request& request) override;
  Result<std::size_t> take_message(std::span<std::byte> into) override;
  bool has_message() const override { return !inbox_.empty(); }
  void close(const Error& cause) override;
  const Capabilities& capabilities() const override { return capabilities_; }
  bool up() const override { return backlog_.up(); }

  // Grants, as the requester: what the owner says.
  void resolved(const Notice& notice);
  void forget(const RemoteRegion& region);
  // Grants, as the owner.
  void bind(const Bind& bind) override;
  void tell(Notice notice) override { peer_.tell(std::move(notice)); }
  void fail_soon(Error cause) override { teardown_.request(std::move(cause)); }
  std::uint32_t session_number() const override { return peer_.session_number(); }

  // For the queue.
  enum class Received { kDone, kHeld };  // held: the lane keeps the buffer
  void sent_on_loop(const ibv_wc& completion);
  Received received_on_loop(const ibv_wc& completion, Buffer* buffer);
  void pump_on_loop();
  void tick_on_loop(std::int64_t now);
  void take_down_on_loop();
  bool nothing_posted() const { return ring_.empty(); }
  bool wants_pump() const { return backlog_.wants_pump(); }
  bool failing() const { return teardown_.requested(); }
  std::uint32_t qpn() const { return pair_.number(); }

 private:
  enum class Ending { kBroken, kClosed };

  VerbsLane(Shared& shared, CompletionQueue& completions, Dispatcher& dispatcher,
            std::shared_ptr<PeerSession> session, QueuePair pair, Buffer* words);

  // Ends one operation, without a lock: its callback may post.
  void end(Operation* op, Status status, std::uint64_t value = 0);
  void end_all(const Failures& failures);
  void drop_user(PeerGrant* grant);
  // Tells the owner of a grant to resolve it, or that this end has forgotten it.
  void tell_owner(Notice::Kind kind, const RemoteRegion& region);

  void complete_on_loop(const SendSlot& slot, std::uint64_t number);
  void protocol_broken(const Error& cause);
  // `culprit`: the operation that is itself what failed, if it is one.
  void take_down_on_loop(const Error& cause, Ending ending, const Operation* culprit = nullptr);
  // What each operation that has not ended fails with when the lane is down.
  Failures fail_rest_on_loop(std::array<OperationList, 2> waiting, const Error& cause,
                             const Error& others, Ending ending, const Operation* culprit);

  Shared& shared_;
  CompletionQueue& completions_;
  Dispatcher& dispatcher_;
  const Adapter& adapter_;
  PeerLink peer_;
  QueuePair pair_;
  Capabilities capabilities_;
  SendRing ring_;
  Credits credits_;
  SlotWords words_;
  Teardown teardown_;
  Backlog backlog_;
  Inbox inbox_;
  std::atomic<bool> greeted_{false};
  std::atomic<bool> established_{false};  // the device knows it: it hears when the lane breaks
};

}  // namespace ferry::fabric::verbs
