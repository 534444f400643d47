#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "ferry/fabric/frame_socket_internal.h"
#include "ferry/fabric/session_frames_internal.h"

namespace ferry::fabric {

namespace {

// Bytes that peers leave unread. Each session may leave `each` of them, and only `scarce` while all
// sessions of the device together leave more than `all`.
struct UnsentLimit {
  std::size_t each;
  std::size_t all;
  std::size_t scarce;

  bool is_passed(std::size_t own, const Outbox::Total& total) const {
    return own > each || (own > scarce && total.load(std::memory_order_relaxed) > all);
  }
};
// A peer that leaves more of anything is given up.
constexpr UnsentLimit kMaxUnsent{std::size_t{4} << 20, std::size_t{64} << 20, 65536};
// A peer that leaves more answers is not read until it takes them.
constexpr UnsentLimit kMaxAnswers{32768, std::size_t{16} << 20, 4096};
constexpr std::size_t kReadAtOnce = 4096;  // from one session before others are served

}  // namespace

FrameSocket::FrameSocket(Fd socket, Outbox::Total& total, std::string peer, Watch watch)
    : socket_(std::move(socket)),
      total_(total),
      peer_(std::move(peer)),
      watch_(std::move(watch)),
      out_(total) {}

tl::unexpected<Error> FrameSocket::broken(int error, const char* doing) const {
  return tl::unexpected<Error>(Error(Code::kUnavailable,
                                     fmt::format("the connection to peer {} broke while {}: {}",
                                                 peer_, doing, text_of_errno(error)),
                                     error, __FILE__, __LINE__));
}

Status FrameSocket::send(std::uint16_t type, std::uint64_t id, std::span<const std::byte> payload,
                         bool is_answer) {
  LockGuard<Mutex> guard(lock_);
  out_.append(type, id, payload, is_answer);
  return flush();
}

Status FrameSocket::flush() {
  auto sent = out_.flush(socket_.get());
  if (sent && owes_pong_ && out_.empty()) {
    owes_pong_ = false;
    out_.append(static_cast<std::uint16_t>(FrameType::kPong), 0, {}, false);
    sent = out_.flush(socket_.get());
  }
  if (!sent) return broken(sent.error().os_code(), "writing to it");
  if (kMaxUnsent.is_passed(out_.unsent(), total_))
    return fail(Code::kUnavailable, "peer {} does not read its control connection", peer_);
  // A paused session is watched for room even if nothing waits: the loop has yet to resume it.
  const std::uint32_t reads = paused_ ? 0U : EPOLLIN;
  const std::uint32_t writes = paused_ || !out_.empty() ? EPOLLOUT : 0U;
  if (watched_ == (reads | writes)) return {};
  watched_ = reads | writes;
  return watch_(watched_);
}

bool FrameSocket::has_too_many_answers() {
  return kMaxAnswers.is_passed(out_.unsent_answers(), total_);
}

Status FrameSocket::serve_on_loop(std::span<const std::byte> first, const Handle& handle,
                                  bool& heard) {
  bool full = false;
  {
    LockGuard<Mutex> guard(lock_);
    FERRY_TRY(flush());
    full = has_too_many_answers();
  }
  if (!first.empty()) reader_.feed(first);
  if (!full) FERRY_TRY(receive_on_loop(handle, heard));
  return watch_on_loop();
}

Status FrameSocket::receive_on_loop(const Handle& handle, bool& heard) {
  // Left from before a pause, or from the handshake.
  if (!FERRY_TRY(handle_buffered_on_loop(handle))) return {};
  std::byte buffer[kReadAtOnce];
  auto got = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got < 0) return broken(errno, "reading from it");
  if (got == 0)
    return fail(Code::kUnavailable, "peer {} closed the connection: it has ended", peer_);
  heard = true;
  reader_.feed({buffer, static_cast<std::size_t>(got)});
  FERRY_TRY(handle_buffered_on_loop(handle));
  return {};
}

Result<bool> FrameSocket::handle_buffered_on_loop(const Handle& handle) {
  unhandled_ = true;
  for (;;) {
    {
      LockGuard<Mutex> guard(lock_);
      if (has_too_many_answers()) return false;
    }
    auto frame = FERRY_TRY(reader_.next());
    unhandled_ = frame.has_value();
    if (!frame) return true;
    FERRY_TRY(handle(*frame));
  }
}

Status FrameSocket::watch_on_loop() {
  LockGuard<Mutex> guard(lock_);
  owes_pong_ = std::exchange(pinged_, false) || owes_pong_;
  paused_ = unhandled_ || has_too_many_answers();
  return flush();
}

}  // namespace ferry::fabric
