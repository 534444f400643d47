// Data path.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ferry/base/clock.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/grant_table_internal.h"
#include "ferry/fabric/operation_internal.h"
#include "ferry/fabric/tcp/frame_batch_internal.h"
#include "ferry/fabric/tcp/frame_internal.h"
#include "ferry/fabric/tcp/inbox_internal.h"
#include "ferry/fabric/tcp/send_queue_internal.h"
#include "ferry/fabric/tcp/window_internal.h"

namespace ferry::fabric::tcp {

// The sending half of a lane: moves what waits in the queue into the batch, the batch into the
// socket, and acknowledgements of what was placed and taken along with it.
//
// Any thread may queue and kick. One thread at a time sends: the first to kick; whoever kicks
// meanwhile leaves a mark, and the one at it looks again, so nobody ever waits.
class Sender {
 public:
  enum class Outcome : std::uint8_t {
    kIdle,     // there was nothing that could be sent now
    kSent,     // all of it was sent
    kBlocked,  // the socket is full
    kMore,     // enough for one call: the loop is to go on
    kBusy,     // another thread is at it
    kDead,     // the socket is broken; the receiving half learns it too
  };

  Sender(const GrantTable& grants, Window& window, const Inbox& inbox);

  void attach(int fd) { fd_ = fd; }

  // Any thread. False when the lane is closed: the operation stays the caller's. One that is
  // `late` need not be sent before something else is.
  bool queue(Operation* op, bool late = false) { return queue_.add(op, late); }
  // Sends what can be sent. `blocked_too` false leaves a full socket alone.
  Outcome kick(bool blocked_too);

  // The rest is for the token's holder.

  // False when the peer has more requests open than it may.
  bool queue(Answer&& answer) { return queue_.add(std::move(answer)); }
  // The peer's requests up to this one are placed or answered.
  void placed(std::uint64_t id) { placed_.store(id, std::memory_order_release); }
  // The peer has taken so many of our messages.
  void peer_took(std::uint32_t taken) { queue_.peer_took(taken); }
  // How many of the peer's requests and messages were placed or taken without an acknowledgement.
  std::uint64_t debt() const;
  // Any thread. Whether the peer may be waiting to hear that messages were taken.
  bool starves_peer() const;
  // Sends the acknowledgements that are owed, in a frame of their own if nothing else is to be
  // sent. Any thread.
  Outcome pay_debt();
  // Whether our answers tend to follow soon enough for acknowledgements to ride on them.
  bool rides() const { return rides_.load(std::memory_order_relaxed); }
  bool blocked() const { return blocked_.load(std::memory_order_relaxed); }
  bool has_backlog() const { return !queue_.empty(); }
  // The same, without what may leave late.
  bool has_prompt_backlog() const { return queue_.has_prompt(); }
  // How many requests wait for something to leave with.
  std::uint32_t late() const { return queue_.late(); }
  // The peer knows that its requests up to this one are done.
  std::uint64_t told() const { return told_.load(std::memory_order_relaxed); }
  // Whether the request was sent to its last byte; waits while another thread is about to say so.
  bool was_sent(std::uint64_t id) const;

  // Takes out of the queue what has expired or was cancelled; true if one of them is half sent, so
  // that only breaking the lane ends it.
  bool collect_expired(std::int64_t now, Chain& out);
  // Refuses newcomers and gives out everything that is not done. Says goodbye if `goodbye`, and
  // after which silence the peer was given up, if it was.
  void close(bool goodbye, Nanos given_up_after, Chain& out);
  // Returns when no other thread reads the memory of a grant removed before.
  void wait_until_quiet();

 private:
  using Frame = FrameBatch::Frame;
  static constexpr std::uint64_t kBudget = std::uint64_t{16} << 20;

  // All but lock_sending() are for the one who sends. `placed` is placed_, read before the answers
  // in the queue are looked at: the answer to any request up to it is in the queue by then, or has
  // left.

  // Fills the batch and sends it until nothing is left, the socket is full, or kBudget bytes have
  // left.
  Outcome pump();
  // Moves requests and answers in turn from the queue into the batch while it has room; only if it
  // stays empty, adds an acknowledgement that somebody has asked for.
  void fill_batch();
  // Moves the next request into the batch. False: none may leave now, or the window is full.
  bool add_request(std::uint64_t placed) FERRY_REQUIRES(queue_.lock);
  // Adds the next frame of the first answer. False: there is no answer.
  bool add_answer(std::uint64_t placed) FERRY_REQUIRES(queue_.lock);
  // Adds a frame that only acknowledges.
  void add_ack(std::uint64_t placed) FERRY_REQUIRES(queue_.lock);
  // Completes the last frame of an answer, or its only one.
  void end_answer(Answer& answer, Frame& last);
  // Acknowledges in this header the messages that were taken, and the requests that were placed
  // before the first one whose answer has yet to leave. The peer counts as told from now on.
  void stamp(Header& header, std::uint64_t placed) FERRY_REQUIRES(queue_.lock);
  // A request leaves: notes whether an acknowledgement leaves with it, or could have.
  void update_rides(std::uint64_t placed);
  // Tells the peer that the lane ends, if the socket takes a header at once.
  void say_goodbye(Nanos given_up_after) FERRY_REQUIRES(queue_.lock);
  // Makes the caller the one who sends; spins while another thread is.
  void lock_sending();
  // Ends that, and sends for whoever kicked meanwhile.
  void unlock_sending();
  // Ends the operation of a frame of the batch. False: half of the frame has left, so that only the
  // end of the lane lets go of its bytes.
  bool give_up_frame(std::size_t index, Chain& out);

  const GrantTable& grants_;
  Window& window_;
  const Inbox& inbox_;
  int fd_ = -1;

  // 0: nobody sends. Else somebody does, and was asked to look again if it is above what it saw.
  std::atomic<std::uint32_t> kicks_{0};
  std::atomic<bool> blocked_{false};
  std::atomic<bool> dead_{false};
  std::atomic<bool> ack_wanted_{false};
  std::atomic<bool> rides_{true};

  SendQueue queue_;

  std::atomic<std::uint64_t> placed_{0};  // of the peer's requests
  std::atomic<std::uint64_t> told_{0};    // and how much of that the peer knows
  std::atomic<std::uint32_t> told_taken_{0};

  // Of the one who sends.
  FrameBatch batch_;
  std::int64_t ack_sent_at_ = 0;  // of add_ack(), until the next request
  bool answers_first_ = true;
};

}  // namespace ferry::fabric::tcp
