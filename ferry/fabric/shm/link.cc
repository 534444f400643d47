#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "ferry/base/log_limit.h"
#include "ferry/base/spin.h"
#include "ferry/fabric/shm/link_internal.h"
#include "ferry/fabric/shm/peer_internal.h"

namespace ferry::fabric::shm {

Link::~Link() {
  LockGuard<Mutex> guard(out_lock_);
  drop_all();
}

void Link::send(const Packet& packet, std::span<const int> fds) {
  {
    LockGuard<Mutex> guard(out_lock_);
    if (goodbye_ || silenced_ || queue(packet, fds)) return;
    silenced_ = true;
  }
  LockGuard<Mutex> guard(in_lock_);
  break_off(fail(Code::kUnavailable, "the peer does not read it").value(), State::kUnread);
}

bool Link::queue(const Packet& packet, std::span<const int> fds) {
  const bool waits = flush_locked();
  if (const auto* drop = std::get_if<DropPacket>(&packet);
      drop != nullptr && drop_news_of(drop->id))
    return true;
  Waiting waiting{encode(packet), {}, {}};
  if (!waits) {
    auto sent = send_packet(socket_.get(), waiting.bytes, fds);
    if (!sent || *sent) return true;
  }
  for (int fd : fds) {
    Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) {
      logger().error("session {} does not get a block: duplicating a descriptor: {}", session_,
                     text_of_errno(errno));
      return true;
    }
    waiting.fds.push_back(std::move(copy));
  }
  if (const auto* block = std::get_if<BlockPacket>(&packet)) waiting.block = block->id;
  unsent_ += waiting.cost();
  const auto all = unsent_of_all_.fetch_add(waiting.cost()) + waiting.cost();
  out_.push_back(std::move(waiting));
  if (unsent_ > kMostUnsent || (unsent_ > kUnsentWhenScarce && all > kMostUnsentOfAll)) {
    drop_all();
    return false;
  }
  wake();
  return true;
}

bool Link::drop_news_of(std::uint32_t block) {
  const auto news = std::find_if(out_.begin(), out_.end(),
                                 [&](const Waiting& each) { return each.block == block; });
  if (news == out_.end()) return false;
  pop(news);
  return true;
}

void Link::pop(std::deque<Waiting>::iterator waiting) {
  unsent_ -= waiting->cost();
  unsent_of_all_.fetch_sub(waiting->cost());
  out_.erase(waiting);
}

void Link::drop_all() {
  while (!out_.empty()) pop(out_.begin());
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
    pop(out_.begin());
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

void Link::break_off(const Error& why, State state) {
  if (state_ != State::kUp) return;
  static LogLimit limit("local sockets of sessions");
  limit.warn("the local socket of session {}: {}", session_, why.to_string());
  state_ = state;
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
  drop_all();
  ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace ferry::fabric::shm
