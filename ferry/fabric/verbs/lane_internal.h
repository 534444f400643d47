// Data path.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/verbs/completion_queue_internal.h"
#include "ferry/fabric/verbs/peer_grants_internal.h"
#include "ferry/fabric/verbs/send_ring_internal.h"
#include "ferry/fabric/verbs/wire_internal.h"

namespace ferry::fabric::verbs {

// What a lane remembers of an operation, in Operation::scratch().
struct Work {
  std::byte* local = nullptr;
  std::uint64_t length = 0;
  std::uint64_t posted = 0;  // bytes of the payload
  std::uint64_t offset = 0;
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;
  std::uint64_t flag_offset = 0;
  std::uint64_t flag_value = 0;
  PeerGrant* target = nullptr;       // none for messages
  PeerGrant* flag_target = nullptr;  // flagged writes
  Buffer* bounce = nullptr;          // what the device sees of a small unregistered payload
  std::int64_t cancel_seen = 0;
  std::uint32_t lkey = 0;
  bool notify = false;
  bool payload_posted = false;
  bool checked = false;  // against what the owner said of the grants
  bool leased = false;
  alignas(
      memory::RegistrationCache::Lease) std::byte lease[sizeof(memory::RegistrationCache::Lease)];

  bool started() const { return posted != 0 || payload_posted; }
  // Where the device finds the local bytes.
  std::uint64_t source() const {
    return reinterpret_cast<std::uint64_t>(bounce != nullptr ? bounce->data : local);
  }
};

// Operations that wait, oldest first.
struct OperationList {
  Operation* head = nullptr;
  Operation* tail = nullptr;

  bool empty() const { return head == nullptr; }
  void push(Operation* op) {
    op->next = nullptr;
    (tail == nullptr ? head : tail->next) = op;
    tail = op;
  }
  void push_front(Operation* op) {
    op->next = head;
    head = op;
    if (tail == nullptr) tail = op;
  }
  Operation* pop() {
    Operation* op = std::exchange(head, head->next);
    if (head == nullptr) tail = nullptr;
    return op;
  }
  template <class F>
  void remove_if(F& condition) {
    Operation* op = std::exchange(head, nullptr);
    tail = nullptr;
    while (op != nullptr) {
      Operation* after = op->next;
      if (!condition(*op)) push(op);
      op = after;
    }
  }
};

// The loop's source that hands completions to their lanes, as a lane sees it. With the token.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  // Handles what has completed; returns how much.
  virtual int progress_on_loop() = 0;
  // Completions of this queue pair are dropped from now on.
  virtual void remove_on_loop(std::uint32_t qpn) = 0;
};

// One queue pair. Operations go straight onto its send queue from the thread that posts them; what
// does not fit (queue full, grant not known yet, no credits) waits in the lane.
//
// A work request cannot be called back. So an operation that must end early takes the queue pair
// down: it is destroyed, after which the device touches no buffer of it, then every operation on it
// fails, then the device connects the lane anew.
class VerbsLane final : public Lane,
                        public GrantHolder,
                        public std::enable_shared_from_this<VerbsLane> {
 public:
  static Result<std::shared_ptr<VerbsLane>> make(Shared& shared, CompletionQueue& completions,
                                                 Dispatcher& dispatcher,
                                                 std::shared_ptr<PeerSession> peer);
  ~VerbsLane() override;

  // Connecting: this end's half, then the other's.
  LaneHello hello() const;
  Status meet(const LaneHello& peer);
  // Sends an empty message and waits for the peer's device to acknowledge it: the path works.
  Status greet(Deadline deadline);
  // From now on the device is told when the lane breaks.
  void establish() { established_.store(true, std::memory_order_release); }

  Transfer post(Request& request) override;
  Result<std::size_t> take_message(std::span<std::byte> into) override;
  bool has_message() const override { return messages_.load(std::memory_order_acquire) != 0; }
  void close(const Error& cause) override;
  const Capabilities& capabilities() const override { return capabilities_; }
  bool up() const override { return state_.load(std::memory_order_acquire) == State::kUp; }

  // Grants, as the requester: what the owner says. Any thread.
  void resolved(const Notice& notice);
  void forget(const RemoteRegion& region);
  // Grants, as the owner. Any thread.
  void bind(const Bind& bind) override;
  void tell(Notice notice) override;
  void fail_soon(Error cause) override;
  std::uint32_t session_number() const override { return session_number_; }

  // For the queue.
  enum class Received { kDone, kHeld };  // held: the lane keeps the buffer
  void sent_on_loop(const ibv_wc& completion);
  Received received_on_loop(const ibv_wc& completion, Buffer* buffer);
  void pump_on_loop();
  void tick_on_loop(std::int64_t now);
  void take_down_on_loop();
  bool nothing_posted() const { return ring_.empty(); }
  bool wants_pump() const { return waiting_.load(std::memory_order_seq_cst); }
  bool failing() const { return failing_.load(std::memory_order_acquire); }
  std::uint32_t qpn() const { return qpn_; }

 private:
  enum class State : std::uint8_t { kNew, kUp, kDown };
  // kWait: no room, or a grant not known yet; kHold: no credits.
  enum class Step : std::uint8_t { kMore, kPosted, kWait, kHold, kFailed };
  struct Burst;
  struct Failure {
    Operation* op;
    Error error;
  };
  using Failures = std::vector<Failure>;
  struct Asks {
    RemoteRegion regions[2];
    int count = 0;
  };

  VerbsLane(Shared& shared, CompletionQueue& completions, Dispatcher& dispatcher,
            std::shared_ptr<PeerSession> peer);
  Status create_queue_pair();
  Status to_init();
  Status to_ready_to_receive(const LaneHello& peer);
  Status to_ready_to_send(const LaneHello& peer);
  Error down_error();
  Error deadline_error() const;
  Error cancelled_error() const;
  // For PeerGrants::drop_user(), which needs no lock.
  PeerGrants& grants_unlocked() FERRY_NO_THREAD_SAFETY_ANALYSIS { return grants_; }

  // lane_local.cc: the local bytes of an operation, and its end.
  Status map_local(Operation& op, const Request& request);
  void end(Operation* op, Status status, std::uint64_t value = 0);
  void end_all(const Failures& failures);
  void drop_user(PeerGrant* grant);

  // lane_send.cc: onto the send queue.
  Asks use_grants(Work& work, const Request& request) FERRY_REQUIRES(lock_);
  bool can_bind() const FERRY_REQUIRES(lock_);
  void pump_held(Failures& failures) FERRY_REQUIRES(lock_);
  void pump_once(Failures& failures) FERRY_REQUIRES(lock_);
  void pump(Failures& failures) FERRY_REQUIRES(lock_);
  Step advance(Operation* op, Failures& failures) FERRY_REQUIRES(lock_);
  Result<Step> ready(Operation& op) FERRY_REQUIRES(lock_);
  Step add_next(Operation* op, Burst& burst) FERRY_REQUIRES(lock_);
  Step add_payload(Operation* op, Burst& burst) FERRY_REQUIRES(lock_);
  Step add_flag(Operation* op, Burst& burst) FERRY_REQUIRES(lock_);
  Step add_atomic(Operation* op, Burst& burst) FERRY_REQUIRES(lock_);
  Step add_message(Operation* op, Burst& burst) FERRY_REQUIRES(lock_);
  void post_notice(Immediate::Kind kind, SendSlot::Kind slot) FERRY_REQUIRES(lock_);
  void post_bind(const Bind& bind) FERRY_REQUIRES(lock_);
  ibv_send_wr& begin(Burst& burst, ibv_wr_opcode opcode) FERRY_REQUIRES(lock_);
  void number(ibv_send_wr& request, const SendSlot& slot, bool signal) FERRY_REQUIRES(lock_);
  bool flush(Burst& burst) FERRY_REQUIRES(lock_);
  void return_credits() FERRY_REQUIRES(lock_);
  std::uint32_t immediate(Immediate::Kind kind) FERRY_REQUIRES(lock_);

  // Whoever posts holds the lock while the device takes the request, which is a long system call on
  // software devices. The loop does not wait for it, unless it was sent away often. False: later.
  bool lock_soon() FERRY_TRY_ACQUIRE(true, lock_) FERRY_NO_THREAD_SAFETY_ANALYSIS;

  // lane_grants.cc: takes the operations that `condition` holds for out of those that wait.
  template <class F>
  void unqueue_if(F&& condition) FERRY_REQUIRES(lock_);

  // lane_end.cc
  enum class Ending { kBroken, kClosed };
  void complete(const SendSlot& slot, std::uint64_t number);
  void protocol_broken(const Error& cause);
  void take_down(const Error& cause, Ending ending);

  Shared& shared_;
  CompletionQueue& completions_;
  Dispatcher& dispatcher_;
  const Adapter& adapter_;
  Capabilities capabilities_;
  std::uint32_t session_number_ = 0;
  std::string peer_name_;
  Handle<ibv_qp> qp_;
  std::uint32_t qpn_ = 0;
  std::uint32_t psn_ = 0;
  std::uint32_t peer_qpn_ = 0;
  std::uint32_t inline_bytes_ = 0;
  SendRing ring_;
  Buffer* words_ = nullptr;  // where atomics return what they found, one word per slot of the ring

  std::atomic<State> state_{State::kNew};
  std::atomic<bool> failing_{false};
  std::atomic<bool> waiting_{false};  // something waits for room or credits
  std::atomic<bool> greeted_{false};
  std::atomic<bool> established_{false};  // the device knows it: it hears when the lane breaks
  std::atomic<std::uint32_t> owed_{0};    // credits to give back
  std::atomic<std::uint32_t> credits_back_{0};  // that the peer has returned
  Operation* culprit_ = nullptr;                // whose failure takes the lane down; loop only
  int locks_missed_ = 0;                        // loop only

  SpinLock failure_lock_;
  std::shared_ptr<const Error> failure_ FERRY_GUARDED_BY(failure_lock_);

  SpinLock lock_;
  std::shared_ptr<PeerSession> session_ FERRY_GUARDED_BY(lock_);  // until close
  std::shared_ptr<const Error> cause_ FERRY_GUARDED_BY(lock_);    // of the end
  PeerGrants grants_ FERRY_GUARDED_BY(lock_);
  OperationList waits_ FERRY_GUARDED_BY(lock_);  // for room, or for the owner's answer
  // Messages and flags for which there are no credits, and those behind them. All that was posted
  // before them is on the send queue; what is posted after them may overtake, unless it is a
  // message or a flag itself.
  OperationList held_ FERRY_GUARDED_BY(lock_);
  std::vector<Bind> binds_ FERRY_GUARDED_BY(lock_);  // that wait: operations wait for them
  std::uint32_t credits_ FERRY_GUARDED_BY(lock_) = 0;
  bool no_room_ FERRY_GUARDED_BY(lock_) = false;  // why the oldest in waits_ waits

  SpinLock inbox_lock_;
  Buffer* oldest_ FERRY_GUARDED_BY(inbox_lock_) = nullptr;
  Buffer* newest_ FERRY_GUARDED_BY(inbox_lock_) = nullptr;
  std::atomic<std::uint32_t> messages_{0};
};

}  // namespace ferry::fabric::verbs
