// Data path.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "ferry/base/error.h"
#include "ferry/base/spin.h"
#include "ferry/fabric/grant_table_internal.h"
#include "ferry/fabric/operation_internal.h"
#include "ferry/fabric/tcp/frame_internal.h"
#include "ferry/fabric/tcp/inbox_internal.h"
#include "ferry/fabric/tcp/window_internal.h"

namespace ferry::fabric::tcp {

// What a request of the peer is answered with.
struct Answer {
  FrameType type = FrameType::kRefusal;
  std::uint64_t id = 0;
  const std::byte* from = nullptr;  // kReadPart: the bytes, if the grant still stands
  std::uint64_t length = 0;
  std::uint64_t sent = 0;
  std::uint64_t key = 0;
  std::uint32_t epoch = 0;
  std::uint64_t value = 0;        // kFound
  std::optional<Error> reason{};  // kRefusal
};

// A chain of operations linked by Operation::next.
struct Chain {
  Operation* head = nullptr;
  Operation* tail = nullptr;
  void push(Operation* op) {
    op->next = nullptr;
    (tail == nullptr ? head : tail->next) = op;
    tail = op;
  }
  Operation* pop() {
    Operation* op = head;
    if (op != nullptr && (head = op->next) == nullptr) tail = nullptr;
    return op;
  }
};

// The sending half of a lane: queues of our requests and of answers to the peer's, and the socket.
//
// Any thread may queue and kick. One thread at a time sends: the first to kick; whoever kicks
// meanwhile leaves a mark, and the one at it looks again, so nobody ever waits. Bytes leave
// straight from the user's memory.
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
  ~Sender();

  void attach(int fd) { fd_ = fd; }

  // Any thread. False when the lane is closed: the operation stays the caller's. One that is
  // `late` need not be sent before something else is.
  bool queue(Operation* op, bool late = false);
  // Sends what can be sent. `blocked_too` false leaves a full socket alone.
  Outcome kick(bool blocked_too);

  // The rest is for the token's holder.

  // False when the peer has more requests open than it may.
  bool queue(Answer&& answer);
  // The peer's requests up to this one are placed or answered.
  void placed(std::uint64_t id) { placed_.store(id, std::memory_order_release); }
  // The peer has taken so many of our messages.
  void peer_took(std::uint32_t taken) { peer_taken_.store(taken, std::memory_order_release); }
  // Whether the peer is owed word of what was placed and taken.
  std::uint64_t debt() const;
  // Any thread. Whether the peer may be waiting to hear that messages were taken.
  bool starves_peer() const;
  // Sends that word, alone if nothing else is to be sent. Any thread.
  Outcome pay_debt();
  // Whether our answers tend to follow soon enough for acknowledgements to ride on them.
  bool rides() const { return rides_.load(std::memory_order_relaxed); }
  bool blocked() const { return blocked_.load(std::memory_order_relaxed); }
  bool has_backlog() const { return backlog_.load(std::memory_order_relaxed) != 0; }
  // The same, without what may leave late.
  bool has_prompt_backlog() const { return backlog_.load(std::memory_order_relaxed) > late(); }
  // How many requests wait for something to leave with.
  std::uint32_t late() const { return late_.load(std::memory_order_relaxed); }
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
  struct Frame {
    Header header;
    const std::byte* payload = nullptr;
    std::uint64_t length = 0;
    Operation* op = nullptr;
    std::optional<Error> reason{};
    std::uint64_t total() const { return kHeaderBytes + length; }
  };
  static constexpr std::size_t kBatch = 16;
  static constexpr std::size_t kFlat = 512;
  static constexpr std::uint64_t kBurst = std::uint64_t{4} << 20;
  static constexpr std::uint64_t kBudget = std::uint64_t{16} << 20;

  Outcome pump();
  // One system call; `bytes` is what it was given.
  ssize_t transmit(std::uint64_t& bytes);
  bool has_read_part();
  void fill();
  Operation* next_request() FERRY_REQUIRES(lock_);
  bool has_credit(Operation* op) const;
  bool fill_request(std::uint64_t placed) FERRY_REQUIRES(lock_);
  bool fill_answer(std::uint64_t placed) FERRY_REQUIRES(lock_);
  void fill_word(std::uint64_t placed) FERRY_REQUIRES(lock_);
  Frame& add_frame(FrameType type, std::uint64_t placed) FERRY_REQUIRES(lock_);
  void stamp(Header& header, std::uint64_t placed) FERRY_REQUIRES(lock_);
  void note_ride(std::uint64_t placed);
  std::size_t gather(std::array<iovec, 2 * kBatch>& out, std::uint64_t& bytes);
  void withdraw_revoked(std::size_t index);
  void advance(std::uint64_t bytes);
  Frame& frame(std::size_t index) { return batch_[(first_ + index) % kBatch]; }
  void say_goodbye(Nanos given_up_after) FERRY_REQUIRES(lock_);
  void take_over();
  void hand_back();
  bool give_up_frame(std::size_t index, Chain& out);

  const GrantTable& grants_;
  Window& window_;
  const Inbox& inbox_;
  int fd_ = -1;

  // 0: nobody sends. Else somebody does, and was asked to look again if it is above what it saw.
  std::atomic<std::uint32_t> kicks_{0};
  std::atomic<bool> blocked_{false};
  std::atomic<bool> dead_{false};
  std::atomic<bool> word_wanted_{false};
  std::atomic<bool> rides_{true};

  SpinLock lock_;
  Chain requests_ FERRY_GUARDED_BY(lock_);
  // A message for which the peer has no room, and the messages and flagged writes behind it, which
  // it must not be overtaken by. All else goes on.
  Chain held_ FERRY_GUARDED_BY(lock_);
  std::uint64_t last_queued_ FERRY_GUARDED_BY(lock_) = 0;
  std::unique_ptr<Answer[]> answers_ FERRY_GUARDED_BY(lock_);
  std::uint32_t answers_head_ FERRY_GUARDED_BY(lock_) = 0;
  std::uint32_t answers_tail_ FERRY_GUARDED_BY(lock_) = 0;
  bool closed_ FERRY_GUARDED_BY(lock_) = false;
  std::atomic<std::uint32_t> backlog_{0};
  std::atomic<std::uint32_t> late_{0};  // of the backlog; written under the lock

  std::atomic<std::uint64_t> placed_{0};  // of the peer's requests
  std::atomic<std::uint64_t> told_{0};    // and how much of that the peer knows
  std::atomic<std::uint32_t> told_taken_{0};
  std::atomic<std::uint32_t> peer_taken_{0};

  // Of the one who sends.
  std::array<Frame, kBatch> batch_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t batched_ = 0;  // bytes of the batch
  std::uint64_t offset_ = 0;   // bytes of the first frame that were sent
  std::uint32_t messages_ = 0;
  std::int64_t word_at_ = 0;  // when word was sent alone, until the next request
  bool answers_first_ = true;
};

}  // namespace ferry::fabric::tcp
