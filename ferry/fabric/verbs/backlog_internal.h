// Data path.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "ferry/fabric/verbs/completion_queue_internal.h"
#include "ferry/fabric/verbs/expiry_internal.h"
#include "ferry/fabric/verbs/peer_grants_internal.h"
#include "ferry/fabric/verbs/send_queue_internal.h"
#include "ferry/fabric/verbs/work_internal.h"

namespace ferry::fabric::verbs {

// The operations of one lane on their way to the send queue. Most go through at once, posted by the
// thread that adds them; the others wait here, in order, for what they lack: the owner's answer
// about a grant, room on the send queue, credits, or binds that go first.
//
// Owns the lane's lock, the send queue and the state: nothing is posted but under this lock and
// while the state is kUp, so that after close() nobody uses the queue pair. Thread-safe; methods
// that end in _on_loop are for the token's holder. Operations that fail are handed back, for the
// caller to end when the lock is gone.
//
// Between calls, until the lane is down: what waits is in `waits_`, `held_` or `binds_`. If
// anything is there, `waiting_` is true, and the loop was asked for an event.
class Backlog {
 public:
  enum class State : std::uint8_t {
    kNew,   // the queue pair is not connected
    kUp,    // to kDown when the lane is taken down or closed
    kDown,  // for good
  };
  // What to ask the owner of grants for that were not known.
  struct Asks {
    RemoteRegion regions[2];
    int count = 0;
  };

  Backlog(CompletionQueue& completions, const SendQueue::Parts& parts);

  bool up() const { return state_.load(std::memory_order_acquire) == State::kUp; }
  bool closed() const { return state_.load(std::memory_order_acquire) == State::kDown; }
  // The queue pair is connected, and the peer takes so many messages. False when the lane was
  // closed meanwhile.
  bool open(std::uint32_t credits);
  // Nothing is posted any more. Gives out what waited, those that lacked credits first.
  std::array<OperationList, 2> close_on_loop();

  // Takes the operation on, for the grants that the request names. False when the lane is not up.
  bool add(Operation* op, const Request& request, Asks& asks, Failures& failures);
  // Binds go before operations that have not begun. False when the lane is not up.
  bool add_bind(const Bind& bind, Failures& failures);
  void post_hello();
  // Gives the peer its credits back by a message of their own, if they are due.
  void return_credits();

  // Whether something waits that room or credits help.
  bool wants_pump() const { return waiting_.load(std::memory_order_seq_cst); }
  // Credits are due: the loop is to pump.
  void ask_for_pump() { waiting_.store(true, std::memory_order_relaxed); }
  // Room or credits have come: posts what waited for them.
  void pump_on_loop(Failures& failures);
  // Takes out the waiting operations that are to end, unless a poster has the lock.
  void expire_on_loop(Expiry& expiry);

  // The owner's answer about a grant. False if nobody waits for it. A grant that the owner refuses
  // goes to `unknown`, until its users have ended.
  bool resolve(const Notice& notice, std::unique_ptr<PeerGrant>& unknown, Failures& failures);
  // The owner revokes a grant: what has not begun fails. True when nothing uses it any more.
  bool forget(const RemoteRegion& region, Failures& failures);
  // An operation that used the grant of this region has ended. True when the owner, who has revoked
  // it, waits to hear that it was the last. The grant may be gone then.
  bool drop_user(PeerGrant& grant, const RemoteRegion& region);

 private:
  enum class Step : std::uint8_t {
    kPosted,
    kWait,  // for room, for a grant or for a bind
    kHold,  // for credits
    kFailed,
  };

  // The grant, with one user more, whom drop_user() takes back. One that is not known is put into
  // `asks`, which has room for the two of one request.
  PeerGrant* use_grant(const RemoteRegion& region, Asks& asks) FERRY_REQUIRES(lock_);
  // Tries to post an operation that is on no list. When this says kPosted, the operation may have
  // ended, and be another one's. kFailed: it is in `failures`. Else the caller puts it back: at the
  // front of its list, or for kHold into `held_`.
  Step advance(Operation* op, Failures& failures) FERRY_REQUIRES(lock_);
  // The steps of one pass: post what can go, the oldest first.
  void pump_binds() FERRY_REQUIRES(lock_);
  void pump_held(Failures& failures) FERRY_REQUIRES(lock_);
  // One pass over `binds_`, `held_` and `waits_`, in this order.
  void pump_once(Failures& failures) FERRY_REQUIRES(lock_);
  // Passes until nothing more can go. Afterwards `waiting_` says whether something waits, and if so
  // the loop was asked for an event.
  void pump(Failures& failures) FERRY_REQUIRES(lock_);
  // From both lists. The condition hands out what it removes.
  template <class F>
  void remove_waiting_if(F&& condition) FERRY_REQUIRES(lock_);
  // Whoever posts holds the lock while the device takes the request, which is a long system call on
  // software devices. The loop does not wait for it, unless it was sent away often. False: later.
  bool lock_soon() FERRY_TRY_ACQUIRE(true, lock_) FERRY_NO_THREAD_SAFETY_ANALYSIS;
  // For PeerGrants::drop_user(), which needs no lock.
  PeerGrants& grants_unlocked() FERRY_NO_THREAD_SAFETY_ANALYSIS { return grants_; }

  CompletionQueue& completions_;
  const PeerLink& peer_;
  std::atomic<State> state_{State::kNew};  // written under the lock
  std::atomic<bool> waiting_{false};       // something waits for room or credits
  int locks_missed_ = 0;                   // loop only

  SpinLock lock_;
  SendQueue send_queue_ FERRY_GUARDED_BY(lock_);
  Credits& credits_ FERRY_GUARDED_BY(lock_);
  PeerGrants grants_ FERRY_GUARDED_BY(lock_);
  OperationList waits_ FERRY_GUARDED_BY(lock_);  // for room, or for the owner's answer
  // Messages and flags for which there are no credits, and those behind them. All that was posted
  // before them is on the send queue; what is posted after them may overtake, unless it is a
  // message or a flag itself.
  OperationList held_ FERRY_GUARDED_BY(lock_);
  std::vector<Bind> binds_ FERRY_GUARDED_BY(lock_);  // that wait: operations wait for them
  // The send queue was full when the last operation was posted to it, in this pass.
  bool no_room_ FERRY_GUARDED_BY(lock_) = false;
};

}  // namespace ferry::fabric::verbs
