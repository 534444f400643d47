#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "ferry/base/fd.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/bootstrap/frame.h"
#include "ferry/fabric/outbox_internal.h"

namespace ferry::fabric {

// The control connection of one session: frames in and out, with backpressure. A peer that does not
// take the answers that it asked for is not read until it does (the connection is paused); one that
// leaves too much of anything is given up. However many pings have come, one pong is owed.
//
// send() is thread-safe; the *_on_loop methods belong to the control loop, which alone pauses and
// resumes.
class FrameSocket {
 public:
  // Which events of the socket the loop is to look for. Called with the lock held.
  using Watch = std::function<Status(std::uint32_t epoll_events)>;
  using Handle = std::function<Status(const bootstrap::Frame&)>;

  // `total` counts what all sockets of the device have not sent; `peer` is for error texts.
  FrameSocket(Fd socket, Outbox::Total& total, std::string peer, Watch watch);

  // Sends the frame, or queues it behind what the socket does not take. Fails if the connection is
  // broken, or if the peer leaves too much unread.
  Status send(std::uint16_t type, std::uint64_t id, std::span<const std::byte> payload,
              bool is_answer);

  // What the socket is ready for: sends, hands whole frames to `handle`, and reads once. That is
  // little, so that a peer that never stops talking takes no more of the loop than others: epoll
  // tells of what is left, behind the sessions that wait by then. `first`: bytes that were read
  // with the handshake. `heard` is set if bytes were read.
  Status serve_on_loop(std::span<const std::byte> first, const Handle& handle, bool& heard);
  // The reading part alone.
  Status receive_on_loop(const Handle& handle, bool& heard);
  // Decides whether the connection pauses, and has the loop watch it. Also begins the watching.
  Status watch_on_loop();
  void owe_pong_on_loop() { pinged_ = true; }
  int fd() const { return socket_.get(); }

 private:
  // Whether every whole frame is handled. Stops early where the peer does not take its answers:
  // watch_on_loop() then pauses the connection.
  Result<bool> handle_buffered_on_loop(const Handle& handle);
  // The connection failed: always kUnavailable, also if the kernel gave up sending.
  tl::unexpected<Error> broken(int error, const char* doing) const;
  // Sends what the socket takes, a pong that is owed last, and watches for room if something is
  // left. Fails if the peer leaves more unread than may be kept for it.
  Status flush() FERRY_REQUIRES(lock_);
  // Whether the peer takes so few of its answers that nothing more is read from it.
  bool has_too_many_answers() FERRY_REQUIRES(lock_);

  Fd socket_;
  const Outbox::Total& total_;
  const std::string peer_;
  const Watch watch_;
  bootstrap::FrameReader reader_;  // on the loop
  bool pinged_ = false;            // on the loop: since the last watch_on_loop()
  bool unhandled_ = false;         // on the loop: whole frames may be left in reader_
  Mutex lock_;
  Outbox out_ FERRY_GUARDED_BY(lock_);
  bool owes_pong_ FERRY_GUARDED_BY(lock_) = false;
  bool paused_ FERRY_GUARDED_BY(lock_) = false;
  std::uint32_t watched_ FERRY_GUARDED_BY(lock_) = 0;
};

}  // namespace ferry::fabric
