#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ferry/base/log_limit.h"
#include "ferry/base/spin.h"
#include "ferry/fabric/shm/link_internal.h"
#include "ferry/fabric/shm/peer_internal.h"

namespace ferry::fabric::shm {

void Link::send(const Packet& packet, std::span<const int> fds) {
  auto bytes = encode(packet);
  LockGuard<Mutex> guard(out_lock_);
  if (goodbye_) return;
  if (!flush_locked()) {
    auto sent = send_packet(socket_.get(), bytes, fds);
    if (!sent || *sent) return;
  }
  Waiting waiting{std::move(bytes), {}};
  for (int fd : fds) {
    Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) {
      logger().error("session {} does not get a block: duplicating a descriptor: {}", session_,
                     text_of_errno(errno));
      return;
    }
    waiting.fds.push_back(std::move(copy));
  }
  out_.push_back(std::move(waiting));
  wake();
}

bool Link::flush() {
  LockGuard<Mutex> guard(out_lock_);
  return flush_locked();
}

bool Link::flush_locked() {
  while (!out_.empty()) {
    std::vector<int> fds;
    for (const auto& fd : out_.front().fds) fds.push_back(fd.get());
    auto sent = send_packet(socket_.get(), out_.front().bytes, fds);
    if (sent && !*sent) return true;
    out_.pop_front();
  }
  return false;
}

Link::State Link::take() {
  LockGuard<Mutex> guard(in_lock_);
  for (int i = 0; i < kPacketsPerTake; ++i) {
    if (state_ == State::kEnded || revocations_.size() >= kMostWaiting) break;
    auto got = receive_packet(socket_.get());
    if (!got) {
      break_off(got.error());
      break;
    }
    if (got->what == Received::What::kNothing) break;
    if (got->what == Received::What::kEnd) {
      state_ = State::kEnded;
    } else if (state_ == State::kUp) {
      if (auto taken = take_one(std::move(*got)); !taken) break_off(taken.error());
    }
  }
  return state_;
}

short Link::poll_events() {
  LockGuard<Mutex> guard(in_lock_);
  return state_ == State::kUp ? POLLIN : POLLRDHUP;
}

void Link::break_off(const Error& why) {
  if (state_ != State::kUp) return;
  static LogLimit limit("local sockets of sessions");
  limit.warn("the local socket of session {}: {}", session_, why.to_string());
  state_ = State::kBroken;
  revocations_.clear();
  wake();
}

Status Link::take_one(Received got) {
  auto packet = FERRY_TRY(decode(got.bytes));
  auto peer = peer_.lock();
  if (auto* block = std::get_if<BlockPacket>(&packet)) {
    if (got.fds.size() != 2)
      return fail(Code::kInvalidArgument, "a block with {} descriptors", got.fds.size());
    return peer == nullptr ? Status()
                           : peer->take_block(block->id, block->length, std::move(got.fds));
  }
  if (auto* drop = std::get_if<DropPacket>(&packet)) {
    if (peer != nullptr) peer->drop_block(drop->id);
    return {};
  }
  if (std::holds_alternative<RevokePacket>(packet)) {
    if (peer == nullptr) return {};  // our goodbye answers it
    FERRY_TRY(peer->take_question());
  }
  if (std::holds_alternative<RevokePacket>(packet) ||
      std::holds_alternative<RevokedPacket>(packet)) {
    revocations_.push_back(std::move(packet));
    wake();
    return {};
  }
  return fail(Code::kInvalidArgument, "a hello after the hello");
}

std::deque<Packet> Link::revocations() {
  LockGuard<Mutex> guard(in_lock_);
  return std::exchange(revocations_, {});
}

void Link::wake() const {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(waker_->get(), &one, sizeof one);
}

void Link::say_goodbye() {
  LockGuard<Mutex> guard(out_lock_);
  goodbye_ = true;
  out_.clear();
  ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace ferry::fabric::shm
