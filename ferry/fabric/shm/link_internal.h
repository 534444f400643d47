#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ferry/base/fd.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/shm/local_socket_internal.h"
#include "ferry/fabric/shm/wire_internal.h"

namespace ferry::fabric::shm {

class Peer;

// One local socket to a peer after its hello. Kept from then on: its end is how we learn that the
// peer's process is gone, or has unmapped all that was ours. Thread-safe.
class Link {
 public:
  // `waker` is an eventfd that is written to when the service thread should look at the link.
  Link(Fd socket, std::uint32_t session, std::weak_ptr<Peer> peer, std::shared_ptr<const Fd> waker)
      : socket_(std::move(socket)),
        session_(session),
        peer_(std::move(peer)),
        waker_(std::move(waker)) {}
  ~Link();

  // Sends now, or queues behind what waits for room. Never blocks. The descriptors are duplicated
  // where they have to wait. A dead socket swallows it: its end is seen elsewhere. A peer that
  // leaves too much waiting is sent nothing any more.
  void send(const Packet& packet, std::span<const int> fds = {});
  // Sends what waited. True while something still waits.
  bool flush();
  // kBroken: the peer broke the protocol, or a packet was lost here. What it says does not count
  // any more, but it may still have our memory mapped: only kEnded says that it has not. kUnread:
  // the same of a peer that does not read what it is told.
  enum class State : std::uint8_t { kUp, kBroken, kUnread, kEnded };
  // Memory that packets take while they wait for room: of one link, of all links of this process,
  // and of one link while all together hold more than that.
  static constexpr std::size_t kMostUnsent = std::size_t{4} << 20;
  static constexpr std::size_t kMostUnsentOfAll = std::size_t{64} << 20;
  static constexpr std::size_t kUnsentWhenScarce = 65536;
  // A peer may send without end: what one call reads, and what waits for the service thread.
  static constexpr int kPacketsPerTake = 64;
  static constexpr std::size_t kMostWaiting = 1024;
  // Takes some of what has arrived: blocks go to the peer, revocations wait for the service thread.
  // What is left keeps the socket readable.
  State take();
  // What to poll the socket for. Of a broken link only its end counts.
  short poll_events();
  // The revocations and answers that have arrived, in order.
  std::deque<Packet> revocations();

  // Nothing of the peer's is mapped here any more.
  void say_goodbye();

  // What waits in all links of this process.
  static std::size_t unsent_of_all() { return unsent_of_all_.load(std::memory_order_relaxed); }

  int fd() const { return socket_.get(); }
  std::uint32_t session() const { return session_; }
  std::shared_ptr<Peer> peer() const { return peer_.lock(); }

 private:
  struct Waiting {
    std::vector<std::byte> bytes;
    std::vector<Fd> fds;
    std::optional<std::uint32_t> block;  // whose news this is

    std::size_t cost() const { return sizeof *this + bytes.size() + fds.size() * sizeof(Fd); }
  };
  // False: too much waits, and all of it was dropped.
  bool queue(const Packet& packet, std::span<const int> fds) FERRY_REQUIRES(out_lock_);
  // A block that is gone before the peer was told of it. Its memory is not to wait for the peer.
  bool drop_news_of(std::uint32_t block) FERRY_REQUIRES(out_lock_);
  void pop(std::deque<Waiting>::iterator waiting) FERRY_REQUIRES(out_lock_);
  void drop_all() FERRY_REQUIRES(out_lock_);
  Status take_one(Received got) FERRY_REQUIRES(in_lock_);
  void break_off(const Error& why, State state = State::kBroken) FERRY_REQUIRES(in_lock_);
  void wake() const;
  bool flush_locked() FERRY_REQUIRES(out_lock_);

  const Fd socket_;
  const std::uint32_t session_;
  const std::weak_ptr<Peer> peer_;
  const std::shared_ptr<const Fd> waker_;
  Mutex in_lock_;
  State state_ FERRY_GUARDED_BY(in_lock_) = State::kUp;
  std::deque<Packet> revocations_ FERRY_GUARDED_BY(in_lock_);
  Mutex out_lock_;
  bool goodbye_ FERRY_GUARDED_BY(out_lock_) = false;
  bool silenced_ FERRY_GUARDED_BY(out_lock_) = false;  // too much waited
  std::deque<Waiting> out_ FERRY_GUARDED_BY(out_lock_);
  std::size_t unsent_ FERRY_GUARDED_BY(out_lock_) = 0;
  static inline std::atomic<std::size_t> unsent_of_all_{0};
};

}  // namespace ferry::fabric::shm
