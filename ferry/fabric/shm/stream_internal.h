// Data path.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/fabric/grant_table_internal.h"
#include "ferry/fabric/operation_internal.h"
#include "ferry/fabric/shm/copy_methods_internal.h"
#include "ferry/memory/ring.h"

// Operations on a peer's own memory, which cannot be mapped: requests and their bytes go through a
// ring that both processes see, piece by piece, so that one end copies in while the other copies
// out. The peer's loop serves them; docs/wire/shm.md gives the records.
//
//   stream ring:  request [bytes]  data [bytes] ...  abort     sender -> server
//   reply ring:   data [bytes] | value | error                 server -> sender
//   done word:    number of the last request that has ended    server -> sender
//
// The sender always takes replies, whatever its own requests wait for; so a server that waits for
// room for replies waits for a living peer only, and two ends that stream at once do not deadlock.

namespace ferry::fabric::shm {

// How many bytes one record carries: a quarter of what is to cross, so that the two ends overlap
// also where that is little.
constexpr std::uint64_t piece_of(std::uint64_t length) {
  constexpr std::uint64_t kLeast = 4096;
  constexpr std::uint64_t kMost = 64 * 1024;
  std::uint64_t quarter = (length / 4 + 63) / 64 * 64;
  return quarter < kLeast ? kLeast : quarter > kMost ? kMost : quarter;
}

struct RecordHeader {
  enum class Kind : std::uint8_t {
    kRequest = 1,
    kData = 2,   // bytes of the request before (stream), or of a read (reply)
    kAbort = 3,  // no more bytes come for this request, or it never comes
    kValue = 4,  // reply: what an atomic found
    kError = 5,  // reply: value is the code, the bytes are the text
  };
  Kind kind = Kind::kData;
  std::uint8_t verb = 0;
  std::uint8_t flagged = 0;
  std::uint8_t zero[5] = {};
  std::uint64_t number = 0;
  std::uint64_t value = 0;
};
static_assert(sizeof(RecordHeader) == 24);

struct RequestRecord {
  RecordHeader header;  // value: the operand of an atomic, or the flag's value
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint32_t epoch = 0;
  std::uint32_t flag_epoch = 0;
  std::uint64_t flag_key = 0;  // compare-swap: the expected value
  std::uint64_t flag_offset = 0;
};
static_assert(sizeof(RequestRecord) == 72);

// The asking end. Thread-safe.
class StreamSender {
 public:
  StreamSender(memory::RingWriter stream, memory::RingReader replies,
               const std::atomic<std::uint64_t>& done)
      : stream_(stream), replies_(replies), done_(done) {}

  // Takes the operation on; false once closed (then it is the caller's to end).
  bool add(Operation* op, const Request& request);
  // Puts what fits into the stream. Any thread; if another one is at it, that one does it. Returns
  // how many records were put.
  Result<int> pump();
  // The same, then takes replies and ends operations. On the loop.
  Result<int> progress();
  // Ends expired and cancelled operations. Whatever was not yet copied out of their bytes never is.
  void expire(std::int64_t now);
  // Ends all with `cause`; later ones are refused.
  void close(const Error& cause);

  // Whether requests are not known to have been served: an ordered store must then go the same way.
  bool busy() const {
    return issued_.load(std::memory_order_relaxed) != served_.load(std::memory_order_relaxed);
  }
  // How long requests took, and what is faster.
  CopyMethods& methods() { return methods_; }
  // The number of the last request taken on.
  std::uint64_t issued() const { return issued_.load(std::memory_order_acquire); }

 private:
  struct Scratch;
  struct List {
    Operation* first = nullptr;
    Operation* last = nullptr;
    void push(Operation* op);
    Operation* pop();
    void remove(Operation* op);
  };
  // Operations to end once the token is given back.
  struct Ended {
    List well;
    std::vector<std::pair<Operation*, Error>> badly;
    void finish();
  };

  void take_added() FERRY_REQUIRES(token_);
  Result<int> put() FERRY_REQUIRES(token_);
  // How many records of the operation fitted; it is whole if Scratch says so.
  Result<int> put_some(Operation* op) FERRY_REQUIRES(token_);
  Result<bool> put_request(Scratch& op, Verb verb) FERRY_REQUIRES(token_);
  Result<bool> put_data(Scratch& op) FERRY_REQUIRES(token_);
  Result<bool> put_abort(std::uint64_t number) FERRY_REQUIRES(token_);
  Result<int> take_replies(Ended& ended) FERRY_REQUIRES(token_);
  Status take_reply(std::span<const std::byte> record, Ended& ended) FERRY_REQUIRES(token_);
  Status end_served(std::uint64_t done, Ended& ended) FERRY_REQUIRES(token_);
  Operation* find_sent(std::uint64_t number) FERRY_REQUIRES(token_);
  void expire_in(List& list, std::int64_t now, Ended& ended) FERRY_REQUIRES(token_);

  Token token_;
  memory::RingWriter stream_ FERRY_GUARDED_BY(token_);
  memory::RingReader replies_ FERRY_GUARDED_BY(token_);
  const std::atomic<std::uint64_t>& done_;
  List to_send_ FERRY_GUARDED_BY(token_);
  List sent_ FERRY_GUARDED_BY(token_);
  bool half_put_ FERRY_GUARDED_BY(token_) = false;    // request put_ was given up half-way
  std::uint64_t put_ FERRY_GUARDED_BY(token_) = 0;    // the last request put, or given up
  std::uint64_t taken_ FERRY_GUARDED_BY(token_) = 0;  // the last request that came to to_send_
  std::atomic<std::uint64_t> served_{0};  // the last that the peer has ended, as far as we saw
  std::atomic<std::uint64_t> issued_{0};
  CopyMethods methods_;

  SpinLock lock_;
  bool closed_ FERRY_GUARDED_BY(lock_) = false;
  List added_ FERRY_GUARDED_BY(lock_);
  std::atomic<bool> has_added_{false};
};

// The serving end: only the token's holder of its loop uses it, except served().
class StreamServer {
 public:
  StreamServer(memory::RingReader stream, memory::RingWriter replies,
               std::atomic<std::uint64_t>& done, const GrantTable& grants, std::uint32_t session)
      : stream_(stream), replies_(replies), done_(done), grants_(grants), session_(session) {}

  // Serves what has arrived, a bounded burst; how many records were taken or put. An error is the
  // peer's: it broke the protocol.
  Result<int> progress();
  // The last request that has ended here. Any thread.
  std::uint64_t served() const { return served_.load(std::memory_order_acquire); }
  // A reply waits for room.
  bool stalled() const { return stalled_; }

 private:
  struct Current {
    RecordHeader header;
    RemoteRegion remote;
    std::byte* at = nullptr;
    std::uint64_t length = 0;
    std::uint64_t moved = 0;
    RemoteRegion flag;
    std::byte* flag_at = nullptr;
    std::uint64_t compare = 0;
    std::optional<Error> error;
  };
  Status take(std::span<const std::byte> record);
  Status begin(std::span<const std::byte> record);
  Status check(const RequestRecord& request);
  // Whether a grant that was checked at the beginning still stands; notes the error if not. Within
  // an InFlight::Section.
  bool stands(const RemoteRegion& remote, Rights need);
  Status place(std::span<const std::byte> bytes);
  Result<bool> reply();
  Result<bool> reply_data();
  Result<bool> reply_value();
  Result<bool> reply_error();
  void store_flag();
  void end();

  memory::RingReader stream_;
  memory::RingWriter replies_;
  std::atomic<std::uint64_t>& done_;
  const GrantTable& grants_;
  const std::uint32_t session_;
  bool open_ = false;  // current_ is a request that has not ended
  bool stalled_ = false;
  Current current_;
  std::atomic<std::uint64_t> served_{0};
};

}  // namespace ferry::fabric::shm
