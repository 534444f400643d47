// Data path.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ferry/base/log_limit.h"
#include "ferry/base/waiting.h"
#include "ferry/fabric/peer_watch_internal.h"
#include "ferry/fabric/tcp/lane_internal.h"

namespace ferry::fabric::tcp {

namespace {

// Bytes that one lane may receive before the others get their turn.
constexpr std::size_t kReceiveBudget = std::size_t{1} << 20;
constexpr std::uint64_t kWakeAtMost = 128 * 1024;
// Requests that wait for another to leave with.
constexpr std::uint32_t kMostLate = 4;

Header header_of(const Request& request) {
  Header header;
  header.key = request.remote.key;
  header.epoch = request.remote.epoch;
  header.offset = request.offset;
  header.length = request.length;
  header.value = request.operand;
  switch (request.verb) {
    case Verb::kWrite:
      header.type = static_cast<std::uint8_t>(FrameType::kWrite);
      if (request.pace != Pace::kPrompt) header.bits |= kPatient;
      if (request.flag == nullptr) break;
      header.bits |= request.flag->notify ? kFlagged | kNotify : kFlagged;
      header.flag_key = request.flag->region.key;
      header.flag_epoch = request.flag->region.epoch;
      header.flag_offset = request.flag->offset;
      header.value = request.flag->value;
      break;
    case Verb::kRead:
      header.type = static_cast<std::uint8_t>(FrameType::kRead);
      break;
    case Verb::kFetchAdd:
      header.type = static_cast<std::uint8_t>(FrameType::kFetchAdd);
      header.length = 0;
      break;
    case Verb::kCompareSwap:
      header.type = static_cast<std::uint8_t>(FrameType::kCompareSwap);
      header.length = 0;
      header.flag_key = request.compare;
      break;
    case Verb::kMessage:
      header.type = static_cast<std::uint8_t>(FrameType::kMessage);
      break;
  }
  return header;
}

}  // namespace

const Capabilities& TcpLane::what_it_can() {
  static const Capabilities can{.one_sided = false,
                                .maps_peer = false,
                                .tail_flag = false,
                                .atomics = true,
                                .max_message = kMaxMessage};
  return can;
}

TcpLane::TcpLane(TcpSource& source, ProviderContext& context, std::shared_ptr<PeerSession> peer,
                 std::uint32_t number)
    : Lane(source.loop()),
      source_(source),
      operations_(*context.operations),
      peer_(std::move(peer)),
      number_(number),
      sender_(*context.grants, window_, inbox_),
      frames_(*context.grants, peer_->number(), sender_, window_, inbox_, source.pending()),
      receiver_(frames_, source.dump()) {}

TcpLane::~TcpLane() = default;

Status TcpLane::start(Fd socket, std::span<const std::byte> rest) {
  return loop().with_token([&]() -> Status {
    if (shut_) return fail(Code::kUnavailable, "lane {} was closed before it was up", number_);
    socket_ = std::move(socket);
    sender_.attach(socket_.get());
    FERRY_TRY(source_.add(shared_from_this()));
    readable_ = true;
    up_.store(true, std::memory_order_release);
    auto status = take_rest_on_loop(rest);
    if (!status) lose_peer_on_loop(status.error());
    return status;
  });
}

Status TcpLane::take_rest_on_loop(std::span<const std::byte> rest) {
  while (!rest.empty()) {
    std::array<iovec, 2> gaps;
    receiver_.gaps(gaps);
    auto count = std::min(rest.size(), gaps[0].iov_len);
    std::memcpy(gaps[0].iov_base, rest.data(), count);
    rest = rest.subspan(count);
    FERRY_TRY(receiver_.filled(count));
  }
  return {};
}

Transfer TcpLane::post(Request& request) {
  if (!up()) return Transfer::failed(cause());
  Job job{header_of(request), request.local, 0};
  Operation* op = operations_.make(request, loop());
  op->scratch<Job>() = job;
  source_.pending().fetch_add(1, std::memory_order_relaxed);
  bool late = request.verb == Verb::kWrite && request.pace == Pace::kLate;
  if (!sender_.queue(op, late)) {
    frames_.finish(op, tl::unexpected<Error>(cause()));
    return Transfer::pending(op);
  }
  if (late && may_leave_late()) return Transfer::pending(op);
  auto outcome = sender_.kick(false);
  bool go_on = outcome == Sender::Outcome::kMore;
  if (go_on || !in_source_.hot.load(std::memory_order_relaxed)) source_.call(*this);
  // A socket that is not full sends no event: the loop has to be told to go on.
  if (go_on) loop().notify();
  return Transfer::pending(op);
}

bool TcpLane::may_leave_late() {
  if (sender_.late() >= kMostLate) return false;
  if (!in_source_.hot.load(std::memory_order_relaxed)) source_.call(*this);
  return !loop().anybody_asleep();
}

Error TcpLane::cause() {
  LockGuard<SpinLock> guard(cause_lock_);
  if (cause_) return *cause_;
  return fail(Code::kUnavailable, "lane {} to {} is not up yet", number_,
              peer_->identity().endpoint)
      .value();
}

Result<std::size_t> TcpLane::take_message(std::span<std::byte> into) {
  auto taken = inbox_.take(into);
  if (taken && sender_.starves_peer()) sender_.pay_debt();
  return taken;
}

void TcpLane::close(const Error& cause) {
  auto self = shared_from_this();
  loop().with_token([&] {
    // A peer that has just left may have sent word of what it did before.
    if (!shut_ && socket_) receive_on_loop();
    if (!shut_ && socket_ && sender_.late() != 0) sender_.kick(false);
    if (shut_) {
      // Why the session ended says more than how this lane did.
      LockGuard<SpinLock> guard(cause_lock_);
      cause_ = cause;
    }
    shut_on_loop(cause, true);
  });
}

void TcpLane::abandon(const Error& cause) {
  auto self = shared_from_this();
  loop().with_token([&] { shut_on_loop(cause, false); });
}

void TcpLane::shut_on_loop(const Error& cause, bool goodbye, Chain first) {
  if (std::exchange(shut_, true)) return;
  {
    LockGuard<SpinLock> guard(cause_lock_);
    cause_ = cause;
  }
  up_.store(false, std::memory_order_release);
  Chain ended;
  sender_.close(goodbye, peer_->given_up_after(), ended);
  auto self = shared_from_this();
  if (socket_) {
    source_.remove(*this);
    socket_.reset();
  }
  while (Operation* op = first.pop())
    frames_.finish(op, op->cancel_asked()
                           ? Status(fail(Code::kCancelled, "the operation was cancelled"))
                           : Status(fail(Code::kDeadlineExceeded,
                                         "lane {} to {} did not carry the bytes in time", number_,
                                         peer_->identity().endpoint)));
  while (Operation* op = ended.pop()) frames_.finish(op, tl::unexpected<Error>(cause));
}

void TcpLane::break_on_loop(const Error& cause) {
  if (shut_) return;
  auto self = shared_from_this();
  shut_on_loop(cause, false);
  peer_->lane_broken(*this, cause);
}

void TcpLane::lose_peer_on_loop(const Error& cause) {
  if (shut_) return;
  auto self = shared_from_this();
  static LogLimit limit("peers that broke the protocol of tcp lanes");
  limit.warn("peer {} broke the protocol on lane {}: {}", peer_->identity().endpoint, number_,
             cause.to_string());
  shut_on_loop(cause, false);
  peer_->peer_lost(cause);
}

bool TcpLane::has_work_on_loop() const {
  return readable_ || sender_.debt() != 0 || (sender_.has_backlog() && !sender_.blocked());
}

void TcpLane::ready_on_loop(std::uint32_t epoll_events) {
  if ((epoll_events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) ended_ = true;
  if ((epoll_events & ~EPOLLOUT) != 0) readable_ = true;
}

void TcpLane::arm_on_loop() {
  if (shut_) return;
  if (sender_.debt() != 0 || sender_.late() != 0) sender_.pay_debt();
  wake_at_on_loop(receiver_.remaining());
}

void TcpLane::wake_at_on_loop(std::uint64_t bytes) {
  auto least = static_cast<int>(std::clamp<std::uint64_t>(bytes, 1, kWakeAtMost));
  if (least == wake_at_) return;
  wake_at_ = least;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
}

int TcpLane::progress_on_loop(bool try_socket) {
  if (shut_) return 0;
  int work = try_socket || readable_ ? receive_on_loop() : 0;
  if (shut_) return 1;
  if (sender_.blocked() || sender_.has_prompt_backlog()) {
    auto outcome = sender_.kick(true);
    if (outcome == Sender::Outcome::kSent || outcome == Sender::Outcome::kMore) ++work;
  }
  // Acknowledgements ride on what the user sends next; if nothing comes, they go alone: soon if
  // somebody waits for them, else late.
  bool urgent = frames_.take_urgent();
  if (sender_.debt() == 0 && sender_.late() == 0) {
    looks_ = 0;
    return work;
  }
  looks_ += work == 0 ? 1 : waiting::kLateLooksFruitful;
  if (urgent || looks_ >= waiting::kLateLooks || (work == 0 && frames_.is_waited_for())) {
    looks_ = 0;
    sender_.pay_debt();
  }
  return work;
}

int TcpLane::receive_on_loop() {
  int work = 0;
  std::size_t total = 0;
  readable_ = false;
  while (total < kReceiveBudget) {
    std::array<iovec, 2> gaps;
    int count = receiver_.gaps(gaps);
    std::size_t wanted = gaps[0].iov_len + (count == 2 ? gaps[1].iov_len : 0);
    msghdr message{};
    message.msg_iov = gaps.data();
    message.msg_iovlen = 2;
    auto got = count == 1 ? ::recv(socket_.get(), gaps[0].iov_base, gaps[0].iov_len, MSG_DONTWAIT)
                          : ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return work;
      // Also if the kernel has waited for acknowledgements in vain: ETIMEDOUT.
      break_on_loop(Error(Code::kUnavailable,
                          fmt::format("lane {} to {} broke: {}", number_,
                                      peer_->identity().endpoint, text_of_errno(errno)),
                          errno, __FILE__, __LINE__));
      return 1;
    }
    if (got == 0) {
      break_on_loop(
          fail(Code::kUnavailable, "{} closed lane {}", peer_->identity().endpoint, number_)
              .value());
      return 1;
    }
    ++work;
    total += static_cast<std::size_t>(got);
    if (auto status = receiver_.filled(static_cast<std::size_t>(got)); !status) {
      lose_peer_on_loop(status.error());
      return 1;
    }
    if (wake_at_ > 1 && receiver_.remaining() < static_cast<std::uint64_t>(wake_at_))
      wake_at_on_loop(receiver_.remaining());
    if (frames_.said_goodbye()) {
      shut_on_loop(goodbye_error(), false);
      return 1;
    }
    // Less than was asked for: the socket is empty, unless its end is there to be seen.
    if (static_cast<std::size_t>(got) < wanted && !ended_) return work;
  }
  readable_ = true;
  return work;
}

Error TcpLane::goodbye_error() const {
  const auto& name = peer_->identity().endpoint;
  if (const auto silence = frames_.gave_up_after(); silence != Nanos(0))
    return given_up_by(name, silence);
  return fail(Code::kUnavailable, "{} closed the channel", name).value();
}

void TcpLane::tick_on_loop(std::int64_t now) {
  if (shut_) return;
  Chain over;
  bool must_break = sender_.collect_expired(now, over);
  if (must_break) {
    auto cause = fail(Code::kUnavailable,
                      "lane {} to {} was reset because a write had to be given up half sent",
                      number_, peer_->identity().endpoint)
                     .value();
    auto self = shared_from_this();
    shut_on_loop(cause, false, over);
    peer_->lane_broken(*this, cause);
    return;
  }
  while (Operation* op = over.pop())
    frames_.finish(
        op, op->cancel_asked()
                ? Status(fail(Code::kCancelled, "the operation was cancelled"))
                : Status(fail(Code::kDeadlineExceeded, "{} did not answer on lane {} in time",
                              peer_->identity().endpoint, number_)));
}

template class SocketSource<TcpLane>;

}  // namespace ferry::fabric::tcp
