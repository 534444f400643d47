// Data path.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ferry/landing/buffer_pool.h"
#include "ferry/landing/landing.h"
#include "ferry/landing/launch.h"
#include "ferry/mail/mail_record_internal.h"
#include "ferry/mail/mail_room_internal.h"
#include "ferry/mail/mail_tuning_internal.h"
#include "ferry/mail/mailbox.h"

namespace ferry::mail {

// A message to be sent that could not go out at once. Used again and again.
struct MailOutgoing {
  MailOutgoing* next = nullptr;  // in the queue
  std::vector<std::span<const std::byte>> parts;
  Deadline deadline;
  std::uint64_t bytes = 0;
  bool large = false;
  Announcement announcement;         // of a large one
  std::vector<std::size_t> buffers;  // of the pool: one share of each
  std::vector<std::size_t> room_buffers;
  std::vector<fabric::Region> regions;  // registered for this send
  std::optional<Error> error;
  std::uint64_t cost = 0;  // of the bytes that may be kept for sends
  bool queued = false;
  bool on_wire = false;            // announced, and the peer may look at its memory
  bool lost = false;               // it was, when the mailbox broke: the peer may still do so
  bool ending = false;             // its regions are being let go of, then it has ended
  bool held = false;               // by a handle
  std::atomic<bool> ended{false};  // for the handle
};

// One read. It is planned under the lock and posted without it, since posting may copy the bytes.
struct MailChunk {
  enum class Stage : std::uint8_t { kPlanned, kPosting, kPosted };
  MailChunk* next = nullptr;  // in the list of those planned
  Stage stage = Stage::kPosted;
  bool unwanted = false;  // its message has failed meanwhile
  std::span<std::byte> to;
  fabric::RemoteAt from{fabric::RemoteRegion{}};
  fabric::Transfer transfer;
  std::optional<Error> error;
  std::uint64_t end = 0;  // of the message: what has landed once this has
  std::atomic<bool> ended{false};
};

// A slot of the landing, and the batch in it.
struct MailSlot {
  std::uint32_t index = 0;
  std::uint64_t sequence = 0;
};

// A message that has arrived or is arriving. Used again and again.
struct MailParcel {
  enum class Place : std::uint8_t { kSlot, kRoom, kSender };
  enum class State : std::uint8_t {
    kMapping,  // memory of the sender's that was not seen before
    kWaiting,  // for memory
    kReading,
    kAsking,  // a read failed: whether the sender has given the message up
    kWhole,
    kFailed,
  };
  MailParcel* next = nullptr;  // in the inbox
  Place place = Place::kSlot;
  State state = State::kWhole;
  bool handed_out = false;
  bool let_go = false;      // before it was whole
  bool busy = false;        // a thread maps its memory, without the lock
  bool in_reading = false;  // MailCore::reading_ has it
  std::vector<std::span<const std::byte>> parts;
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  // of the message
  MailSlot slot;             // of the batch it came in

  // Of a large one that is read:
  Announcement announcement;
  std::uint64_t span = 0;
  RoomCore::Buffer buffer;
  std::size_t piece = 0;         // the next to be read,
  std::uint32_t first_part = 0;  // its first part,
  std::uint64_t piece_at = 0;    // where it begins in the buffer,
  std::uint64_t piece_done = 0;  // and what was asked for of it
  std::uint64_t posted = 0;      // chunks
  std::uint64_t reaped = 0;
  std::unique_ptr<MailChunk[]> chunks;
  std::uint32_t most_chunks = 0;  // that there are: as many reads may be in flight
  std::optional<Error> error;
  std::optional<Error> asked;  // the failure that made us ask,
  std::uint64_t given_up = 0;  // and the sender's answer: not in the buffer, which holds bytes
  std::atomic<bool> failed{false};
  std::atomic<std::uint64_t> landed{0};  // of `span`
};

template <class T>
class MailList {
 public:
  T* front() const { return head_; }
  bool empty() const { return head_ == nullptr; }
  std::size_t count() const {
    std::size_t items = 0;
    for (const auto* at = head_; at != nullptr; at = at->next) ++items;
    return items;
  }
  void push(T* item) {
    item->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = item;
    tail_ = item;
  }
  T* pop() {
    auto* item = head_;
    head_ = item->next;
    return item;
  }
  void remove(T* item) {
    T* before = nullptr;
    for (auto* at = head_; at != nullptr && at != item; at = at->next) before = at;
    if (before == nullptr) {
      head_ = item->next;
      return;
    }
    before->next = item->next;
    if (tail_ == item) tail_ = before;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

class MailGuard;

// What came of an attempt to send.
struct MailSent {
  MailOutgoing* out = nullptr;  // null: it has gone out
  std::uint64_t lacks = 0;      // not 0: it was not accepted; so many bytes are not free
};

// One mailbox. Everything that changes is under `lock`, held for a few instructions or the copy of
// a small message, never while waiting. What waiters look at without it is atomic. What takes
// longer is noted under the lock and done without it, by MailGuard.
class MailCore {
 public:
  struct Parts {
    MailboxOptions options;
    Tuning tuning;
    TuningSource source = TuningSource::kDefault;
    MailHello peer;
    landing::Landing landing;
    landing::Launch launch;
    fabric::Region staging;  // where the path does not map the peer
    fabric::Region words;
    std::vector<landing::RemoteWord> peer_words;
    landing::RemoteWord closed_word;
  };
  static std::uint64_t batch_body(const Parts& parts);
  MailCore(RoomCore& room, fabric::Device& device, fabric::Channel& channel, Parts parts);
  ~MailCore();
  static Result<std::unique_ptr<MailCore>> open(RoomCore& room, fabric::Device& device,
                                                fabric::Channel& channel,
                                                const MailboxOptions& options,
                                                const MailStart& start, Deadline deadline);

  Result<MailSent> send(MailParts parts, Deadline deadline);
  // Waits until it is accepted. Null: it has gone out.
  Result<MailOutgoing*> send_when_room(MailParts parts, Deadline deadline, fabric::WaitMode mode);
  tl::unexpected<Error> no_room(Code code, std::uint64_t lacks) const;
  bool poll_send(MailOutgoing* out);
  void wait_send(MailOutgoing* out, fabric::WaitMode mode);
  void drop_send(MailOutgoing* out);
  Status drain(Deadline deadline, fabric::WaitMode mode);
  // Nothing: there is no room.
  Result<std::optional<landing::BufferPool::Buffer>> allocate(std::uint64_t bytes);
  // kResourceExhausted at once if the deadline is 0.
  Result<landing::BufferPool::Buffer> allocate_when_room(std::uint64_t bytes, Deadline deadline,
                                                         fabric::WaitMode mode);
  void drop_buffer(std::size_t index);

  // Receiving. Null: nothing is there.
  Result<MailParcel*> take_next(bool begun);
  Result<MailParcel*> wait_next(bool begun, Deadline deadline, fabric::WaitMode mode);
  Status wait_landed(MailParcel& parcel, std::uint64_t span, Deadline deadline,
                     fabric::WaitMode mode);
  Status let_go(MailParcel* parcel);
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  std::uint64_t open_sends() const { return open_sends_.load(std::memory_order_acquire); }

  // Does what can be done without waiting.
  void progress();
  // Whether progress() would do something. Any thread, no lock.
  bool may_be_ready() const;
  // The room's memory may have a place now.
  void turn() { turn_.store(true, std::memory_order_release); }
  // When the next send ends unless it is over by then, or earlier.
  Deadline first_expiry() const {
    return Deadline::at_ns(first_expiry_.load(std::memory_order_relaxed));
  }
  void expire_due();
  MailStats stats();
  const LiveTuning& tuning() const { return tuning_; }
  void retune(const Tuning& tuning, TuningSource source) {
    tuning_.replace(with_options(tuning, options_, device_), source);
  }

  SpinLock lock;
  std::atomic<std::uint32_t> pins{0};  // of RoomCore::progress_others()

 private:
  friend class MailGuard;
  struct Stage {  // a batch on its way, where the path does not map the peer
    std::atomic<bool> writing{false};
    std::optional<Error> error;
    fabric::Transfer transfer;
  };
  struct Batch {  // being put together
    std::span<std::byte> body;
    MailBatch head;
    std::byte* end() const { return body.data() + MailBatch::kBytes + head.bytes; }
    std::uint64_t room() const { return body.size() - MailBatch::kBytes - head.bytes; }
    void add(std::uint64_t bytes) {
      head.bytes += static_cast<std::uint32_t>(bytes);
      ++head.records;
    }
  };
  struct Shared {  // a buffer of the pool
    landing::BufferPool::Buffer buffer;
    std::uint32_t shares = 0;
    std::uint64_t given = 0;  // bytes that allocate() has counted for it
  };
  struct Place {  // of a part of a large message
    enum class How : std::uint8_t { kCopy, kShared, kRegister };
    How how = How::kCopy;
    fabric::RemoteRegion remote;
    std::uint64_t offset = 0;
  };

  // mail_eager.cc
  bool is_eager(MailParts parts, std::uint64_t bytes) const;
  bool slot_free() FERRY_REQUIRES(lock);
  Batch open_batch() FERRY_REQUIRES(lock);
  void close_batch(Batch& batch) FERRY_REQUIRES(lock);
  bool add_to_batch(Batch& batch, MailOutgoing& out) FERRY_REQUIRES(lock);
  void pump() FERRY_REQUIRES(lock);
  bool block_on_slot() FERRY_REQUIRES(lock);
  void check_writes() FERRY_REQUIRES(lock);
  void take_batches() FERRY_REQUIRES(lock);
  Status take_batch() FERRY_REQUIRES(lock);
  Status take_record(const MailHead& head, std::span<const std::byte> body, const MailSlot& slot)
      FERRY_REQUIRES(lock);
  Status hold_slot(const MailSlot& slot, int by) FERRY_REQUIRES(lock);
  void watch_landing() FERRY_REQUIRES(lock);

  // mail_outgoing.cc
  Result<MailSent> send_queued(MailParts parts, std::uint64_t bytes, Deadline deadline)
      FERRY_REQUIRES(lock);
  Result<MailSent> send_large(MailParts parts, std::uint64_t bytes, Deadline deadline)
      FERRY_EXCLUDES(lock);
  MailOutgoing* new_outgoing(MailParts parts, std::uint64_t bytes, Deadline deadline,
                             std::uint64_t cost) FERRY_REQUIRES(lock);
  bool has_room(const std::atomic<std::uint64_t>& kept, std::uint64_t more) const {
    auto now = kept.load(std::memory_order_relaxed);
    return now == 0 || (now <= options_.send_bytes && more <= options_.send_bytes - now);
  }
  void enqueue(MailOutgoing* out) FERRY_REQUIRES(lock);
  std::optional<std::uint32_t> free_index() const FERRY_REQUIRES(lock);
  void settle_words() FERRY_REQUIRES(lock);
  void settle_word(MailOutgoing* waiting, std::uint64_t value) FERRY_REQUIRES(lock);
  std::uint64_t* word_at(std::uint32_t index) const {
    return reinterpret_cast<std::uint64_t*>(words_.data() + index * landing::Layout::kLine);
  }
  void end(MailOutgoing& out, std::optional<Error> error) FERRY_REQUIRES(lock);
  void off_wire(MailOutgoing& out) FERRY_REQUIRES(lock);
  void expire(MailOutgoing& out) FERRY_REQUIRES(lock);
  void mark_ended(MailOutgoing& out) FERRY_REQUIRES(lock);
  void recycle_if_over(MailOutgoing& out) FERRY_REQUIRES(lock);
  void end_rest() FERRY_EXCLUDES(lock);

  // mail_memory.cc
  Status prepare(MailOutgoing& out, std::vector<Place>& places) FERRY_EXCLUDES(lock);
  std::vector<Place> find_places(MailParts parts) FERRY_REQUIRES(lock);
  Status copy_parts(MailOutgoing& out, std::vector<Place>& places) FERRY_EXCLUDES(lock);
  Status name_pieces(MailOutgoing& out, const std::vector<Place>& places) FERRY_EXCLUDES(lock);
  Result<landing::BufferPool::Buffer> share_new(std::uint64_t bytes, MailOutgoing* out)
      FERRY_EXCLUDES(lock);
  void share_all(MailOutgoing& out) FERRY_REQUIRES(lock);
  Shared* shared_at(std::span<const std::byte> bytes) FERRY_REQUIRES(lock);
  std::optional<RoomMemory::Found> find_in_room(std::span<const std::byte> part);
  void unshare(std::size_t index) FERRY_REQUIRES(lock);

  // mail_incoming.cc
  MailParcel* new_parcel() FERRY_REQUIRES(lock);
  void deliver(MailParcel* parcel) FERRY_REQUIRES(lock);
  void recycle(MailParcel* parcel) FERRY_REQUIRES(lock);
  Status take_announcement(const MailHead& head, std::span<const std::byte> body)
      FERRY_REQUIRES(lock);
  Status check_turn(const Announcement& announcement) const FERRY_REQUIRES(lock);
  bool use_in_place(MailParcel& parcel) FERRY_REQUIRES(lock);
  std::optional<std::span<std::byte>> mapped_piece(const Announcement::Piece& piece,
                                                   std::uint64_t bytes) FERRY_REQUIRES(lock);
  std::vector<fabric::RemoteRegion> new_regions(const Announcement& announcement)
      FERRY_REQUIRES(lock);
  void map_regions() FERRY_EXCLUDES(lock);
  void settle_mapping(MailParcel& parcel) FERRY_REQUIRES(lock);
  Status refuse(MailParcel* parcel, Code code) FERRY_REQUIRES(lock);
  Status store_word(const MailParcel& parcel, MailWord::State state, Code code = Code::kOk)
      FERRY_REQUIRES(lock);
  void give_back(MailParcel& parcel) FERRY_REQUIRES(lock);
  void fail_parcel(MailParcel& parcel, const Error& error) FERRY_REQUIRES(lock);
  void drop_parcel(MailParcel& parcel, const Error& error) FERRY_REQUIRES(lock);
  // It is broken, and the next message is not being mapped.
  bool over() const FERRY_REQUIRES(lock) {
    const auto* front = inbox_.front();
    return broken_ && (front == nullptr || front->state != MailParcel::State::kMapping);
  }
  void update_front() FERRY_REQUIRES(lock);

  // mail_reads.cc
  void continue_reads() FERRY_REQUIRES(lock);
  bool step(MailParcel& parcel, bool& in_line) FERRY_REQUIRES(lock);
  bool admit(MailParcel& parcel, bool& in_line) FERRY_REQUIRES(lock);
  void plan_chunks(MailParcel& parcel) FERRY_REQUIRES(lock);
  void plan_read(MailParcel& parcel, std::span<std::byte> to, const fabric::RemoteAt& from,
                 std::uint64_t end) FERRY_REQUIRES(lock);
  void post_planned() FERRY_EXCLUDES(lock);
  void post_read(MailChunk* chunk) FERRY_EXCLUDES(lock);
  void unplan(MailChunk& chunk) FERRY_REQUIRES(lock);
  void reap(MailParcel& parcel) FERRY_REQUIRES(lock);
  void ask_if_given_up(MailParcel& parcel) FERRY_REQUIRES(lock);
  Error refusal(const Error& cause) const;
  void hear_answer(MailParcel& parcel) FERRY_REQUIRES(lock);
  void read_over(MailParcel& parcel) FERRY_REQUIRES(lock);

  // mail_core.cc
  void progress_locked() FERRY_REQUIRES(lock);
  void break_with(const Error& error) FERRY_REQUIRES(lock);
  void hear_closing() FERRY_REQUIRES(lock);
  Error closed_error() const;
  // Whether the peer has said that its mailbox is closed: all that it sent before is there, and its
  // words and slots are not to be touched any more.
  bool peer_closed() const {
    return __atomic_load_n(word_at(0) + kClosedAt, __ATOMIC_ACQUIRE) != 0;
  }
  bool has_rest() FERRY_REQUIRES(lock) {
    return !ending_.empty() || !to_map_.empty() || !planned_.empty();
  }
  void do_rest() FERRY_EXCLUDES(lock);
  void note_more() FERRY_REQUIRES(lock) {
    more_.store(!planned_.empty() || !to_map_.empty(), std::memory_order_release);
  }
  bool slot_came() const;
  bool reached(const MailParcel& parcel, std::uint64_t span) const {
    return parcel.landed.load(std::memory_order_acquire) >= span ||
           parcel.failed.load(std::memory_order_acquire);
  }
  // Waits until done() or something can be done in the room, and does what others need. False: the
  // deadline came first.
  template <class Done>
  bool await(Done done, Deadline deadline, fabric::WaitMode mode);

  // Words of a rendezvous line, beside the answer: the last message that its sender has given up;
  // and, in line 0, whether the other end is closed.
  static constexpr std::size_t kGivenUpAt = 1;
  static constexpr std::size_t kClosedAt = 2;

  static constexpr auto kNoExpiry = std::numeric_limits<std::int64_t>::max();

  RoomCore& room_;
  fabric::Device& device_;
  fabric::Channel& channel_;
  const MailboxOptions options_;
  LiveTuning tuning_;
  const MailHello peer_;
  const bool maps_;
  // What this end uses of the peer's slots, and of how many at once where it needs memory of its
  // own for them: no more than it has itself, whatever the peer says that it has.
  const std::uint64_t batch_body_;
  const std::uint32_t stages_;

  // Out.
  landing::Launch launch_ FERRY_GUARDED_BY(lock);
  fabric::Region staging_;  // bodies of batches, where the path does not map the peer
  std::unique_ptr<Stage[]> staged_;
  std::uint32_t stage_ FERRY_GUARDED_BY(lock) = 0;  // of the next batch
  landing::BufferPool pool_;                        // what the peer may read
  MailList<MailOutgoing> queue_ FERRY_GUARDED_BY(lock);
  std::vector<std::unique_ptr<MailOutgoing>> outgoing_ FERRY_GUARDED_BY(lock);
  std::vector<MailOutgoing*> spare_outgoing_ FERRY_GUARDED_BY(lock);
  std::vector<MailOutgoing*> ending_ FERRY_GUARDED_BY(lock);  // whose regions are to be let go of
  std::vector<Shared> shared_ FERRY_GUARDED_BY(lock);         // by index in the pool
  fabric::Region words_;                                      // the peer's answers, one line each
  std::vector<MailOutgoing*> announced_ FERRY_GUARDED_BY(lock);  // by rendezvous index
  std::unique_ptr<std::atomic<std::uint64_t>[]> seen_;           // the words, by index
  std::uint64_t announcements_ FERRY_GUARDED_BY(lock) = 0;

  // In.
  landing::Landing landing_ FERRY_GUARDED_BY(lock);
  std::vector<std::uint32_t> slot_holds_ FERRY_GUARDED_BY(lock);
  MailList<MailParcel> inbox_ FERRY_GUARDED_BY(lock);
  std::vector<std::unique_ptr<MailParcel>> parcels_ FERRY_GUARDED_BY(lock);
  std::vector<MailParcel*> spare_parcels_ FERRY_GUARDED_BY(lock);
  std::vector<MailParcel*> reading_ FERRY_GUARDED_BY(lock);  // in order of arrival
  std::vector<MailParcel*> to_map_ FERRY_GUARDED_BY(lock);   // of these: nobody maps them yet
  MailList<MailChunk> planned_ FERRY_GUARDED_BY(lock);       // reads that nobody has posted
  std::vector<landing::RemoteWord> peer_words_ FERRY_GUARDED_BY(lock);
  landing::RemoteWord closed_word_ FERRY_GUARDED_BY(lock);  // for our closing, at the peer
  std::vector<bool> index_in_use_ FERRY_GUARDED_BY(lock);   // the peer's
  std::uint64_t heard_ FERRY_GUARDED_BY(lock) = 0;          // announcements
  std::vector<std::byte> scratch_ FERRY_GUARDED_BY(lock);   // an announcement, out of reach
  std::unordered_map<std::uint64_t, std::span<std::byte>> maps_by_key_ FERRY_GUARDED_BY(lock);

  bool taking_ FERRY_GUARDED_BY(lock) = false;  // batches, right now
  std::optional<Error> broken_ FERRY_GUARDED_BY(lock);
  MailStats stats_ FERRY_GUARDED_BY(lock);
  bool changed_ FERRY_GUARDED_BY(lock) = false;  // something that others may wait for

  // What may_be_ready() looks at.
  std::atomic<bool> is_broken_{false};
  std::atomic<const std::uint64_t*> in_word_{nullptr};
  std::atomic<std::uint64_t> in_idle_{0};
  std::atomic<bool> out_blocked_{false};  // the queue waits for a slot
  std::atomic<const std::uint64_t*> out_word_{nullptr};
  std::atomic<std::uint64_t> out_busy_{0};
  std::atomic<Stage*> out_stage_{nullptr};
  std::atomic<std::uint32_t> on_wire_{0};      // announcements
  std::atomic<std::uint32_t> bad_writes_{0};   // that nobody has looked at
  std::atomic<std::uint64_t> reads_ended_{0};  // by callbacks
  std::atomic<std::uint64_t> reads_seen_{0};
  std::atomic<std::uint64_t> writes_ended_{0};
  std::uint64_t reads_posted_ FERRY_GUARDED_BY(lock) = 0;
  std::uint64_t writes_posted_ FERRY_GUARDED_BY(lock) = 0;
  std::atomic<bool> turn_{false};
  std::atomic<bool> more_{false};  // something is noted that nobody has begun to do

  // What waiters wait for.
  std::atomic<bool> ready_{false};  // the next message is whole, or none will come
  std::atomic<bool> begun_{false};  // it has memory, or none will come
  std::atomic<std::uint64_t> open_sends_{0};
  std::atomic<std::int64_t> first_expiry_{kNoExpiry};
  std::atomic<std::uint64_t> kept_bytes_{0};   // of what sends keep until they are over
  std::atomic<std::uint64_t> given_bytes_{0};  // by allocate()
};

template <class Done>
bool MailCore::await(Done done, Deadline deadline, fabric::WaitMode mode) {
  constexpr int kFirstLooks = 64;  // most answers come before it pays to look at everything
  if (maps_ && mode != fabric::WaitMode::kSleep) {
    for (int look = 0; look < kFirstLooks; ++look) {
      if (done() || may_be_ready()) return true;
      cpu_relax();
    }
  }
  if (!room_.wait(done, deadline, mode, tuning_.spin())) return false;
  room_.progress_others(this);
  return done() || !deadline.expired();
}

// Holds the lock; then, without it, does what takes longer and tells those who wait.
class FERRY_SCOPED_CAPABILITY MailGuard {
 public:
  explicit MailGuard(MailCore& core) FERRY_ACQUIRE(core.lock) : core_(core) { core_.lock.lock(); }
  ~MailGuard() FERRY_RELEASE();
  MailGuard(const MailGuard&) = delete;
  MailGuard& operator=(const MailGuard&) = delete;

 private:
  MailCore& core_;
};

}  // namespace ferry::mail
