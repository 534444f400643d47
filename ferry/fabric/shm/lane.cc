// Data path.
#include <cstring>

#include "ferry/base/log_limit.h"
#include "ferry/base/stall.h"
#include "ferry/fabric/shm/alias_internal.h"
#include "ferry/fabric/shm/in_flight_internal.h"
#include "ferry/fabric/shm/lane_internal.h"

namespace ferry::fabric::shm {

namespace {

constexpr int kAttempts = 3;
// A flagged write that must follow others through the ring takes its bytes along up to this size.
constexpr std::uint64_t kThroughRing = 16 * 1024;

}  // namespace

Transfer ShmLane::post(Request& request) {
  if (!up_.load(std::memory_order_acquire)) return Transfer::failed(cause());
  switch (request.verb) {
    case Verb::kWrite:
      return post_write(request);
    case Verb::kRead:
      return post_read(request);
    case Verb::kMessage:
      return post_message(request);
    default:
      return post_atomic(request);
  }
}

[[gnu::always_inline]] inline ShmLane::Reach ShmLane::aim(
    const RemoteRegion& remote, std::uint64_t offset, std::uint64_t length,
    const RemoteRegion* flag, std::uint64_t flag_offset, Aim& out) const {
  auto how = peer_->reach(remote, offset, length, Rights::kWrite, out.payload);
  if (how != Reach::kReady || flag == nullptr || wires_->sender.busy()) return how;
  std::byte* word = nullptr;
  how = peer_->reach(*flag, flag_offset, sizeof *out.flag, Rights::kWrite, word);
  out.flag = reinterpret_cast<std::uint64_t*>(word);
  return how == Reach::kNotMapped ? Reach::kReady : how;
}

bool ShmLane::write_now(std::span<const std::byte> local, const RemoteAt& remote,
                        const RemoteAt* flag, std::uint64_t value, bool notify) {
  if (local.size() > kThroughRing || !up()) return false;
  {
    InFlight::Section section(InFlight::Memory::kPeers);
    Aim where;
    auto aimed =
        aim(remote.region, remote.offset, local.size(), flag == nullptr ? nullptr : &flag->region,
            flag == nullptr ? 0 : flag->offset, where);
    if (aimed != Reach::kReady || (flag != nullptr && where.flag == nullptr)) return false;
    if (!local.empty()) std::memcpy(where.payload, local.data(), local.size());
    if (flag == nullptr) return true;
    raise_flag(where.flag, flag->region.address + flag->offset, value);
  }
  if (notify) peer_->wake_flag_sleepers();
  return true;
}

ShmLane::Attempt ShmLane::try_write(Request& request, std::optional<Error>& error) {
  const Flag* flag = request.flag;
  InFlight::Section section(InFlight::Memory::kPeers);
  Aim where;
  auto aimed =
      aim(request.remote, request.offset, request.length, flag == nullptr ? nullptr : &flag->region,
          flag == nullptr ? 0 : flag->offset, where);
  if (aimed != Reach::kReady) return attempt_of(aimed);
  bool through_ring = flag != nullptr && where.flag == nullptr;
  if (through_ring && request.length <= kThroughRing) return Attempt::kNotMapped;
  if (auto copied = check(wires_->copies.copy_in(request, where.payload)); !copied) {
    error = copied.error();
    return Attempt::kFailed;
  }
  if (through_ring) {
    request.length = 0;  // only the flag is left
    return Attempt::kNotMapped;
  }
  if (flag != nullptr) raise_flag(where.flag, flag->region.address + flag->offset, flag->value);
  return Attempt::kDone;
}

Transfer ShmLane::post_write(Request& request) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::optional<Error> error;
    switch (try_write(request, error)) {
      case Attempt::kDone:
        if (request.flag != nullptr && request.flag->notify) peer_->wake_flag_sleepers();
        return Transfer::done();
      case Attempt::kNotMapped:
        return post_stream(request);
      case Attempt::kRefused:
        return why_refused(request, Rights::kWrite);
      case Attempt::kFailed:
        return Transfer::failed(*error);
      default:
        auto known = resolve(request);
        if (!known) return Transfer::failed(known.error());
        if (!*known) return post_stream(request);
    }
  }
  return post_stream(request);  // the cache is fought over; the peer can always do it
}

ShmLane::Attempt ShmLane::try_read(const Request& request) {
  InFlight::Section section(InFlight::Memory::kPeers);
  std::byte* from = nullptr;
  auto how = peer_->reach(request.remote, request.offset, request.length, Rights::kRead, from);
  if (how != Reach::kReady) return attempt_of(how);
  stall_for_tests(StallPoint::kReadMapped);
  wires_->copies.copy_out(request, from);
  // An owner that could not wait for this section may use the memory by now.
  return peer_->is_still_valid(request.remote) ? Attempt::kDone : Attempt::kRefused;
}

Transfer ShmLane::post_read(Request& request) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto how = try_read(request);
    if (how == Attempt::kDone) return Transfer::done();
    if (how == Attempt::kNotMapped) return post_own_read(request);
    if (how == Attempt::kRefused) return why_refused(request, Rights::kRead);
    auto known = resolve(request);
    if (!known) return Transfer::failed(known.error());
    if (!*known) break;
  }
  return post_stream(request);
}

ShmLane::Attempt ShmLane::try_atomic(const Request& request, std::uint64_t& found) {
  InFlight::Section section(InFlight::Memory::kPeers);
  std::byte* at = nullptr;
  auto how = peer_->reach(request.remote, request.offset, sizeof found, Rights::kAtomic, at);
  if (how != Reach::kReady) return attempt_of(how);
  auto* word = reinterpret_cast<std::uint64_t*>(at);
  about_to_store(request.remote.address + request.offset);
  if (request.verb == Verb::kFetchAdd) {
    found = __atomic_fetch_add(word, request.operand, __ATOMIC_SEQ_CST);
  } else {
    found = request.compare;
    __atomic_compare_exchange_n(word, &found, request.operand, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
  }
  have_loaded(request.remote.address + request.offset);
  return Attempt::kDone;
}

Transfer ShmLane::post_atomic(Request& request) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::uint64_t found = 0;
    auto how = try_atomic(request, found);
    if (how == Attempt::kDone) return Transfer::done(found);
    if (how == Attempt::kNotMapped) break;
    if (how == Attempt::kRefused) return why_refused(request, Rights::kAtomic);
    auto known = resolve(request);
    if (!known) return Transfer::failed(known.error());
    if (!*known) break;
  }
  return post_stream(request);
}

Transfer ShmLane::post_stream(Request& request) {
  Operation* op = shared_->context->operations->make(request, loop());
  if (!wires_->sender.add(op, request)) {
    op->finish(tl::unexpected<Error>(cause()));
    return Transfer::pending(op);
  }
  source_.activate(index_);
  auto put = wires_->sender.pump();
  if (!put) {
    broken(put.error());
  } else if (*put > 0) {
    peer_->ring_doorbell(wires_->peer_loop, wires_->peer_index);
  }
  return Transfer::pending(op);
}

// False: the peer has yet to hand over what it has granted. It may be stopped, and a post waits for
// nobody: the request goes through the ring, as with memory that nobody can map.
Result<bool> ShmLane::resolve(const Request& request) {
  auto known = peer_->resolve(request.remote, Deadline());
  if (known && request.flag != nullptr) known = peer_->resolve(request.flag->region, Deadline());
  if (!known && known.error().code() == Code::kDeadlineExceeded) return false;
  if (!known) return tl::unexpected<Error>(known.error());
  return true;
}

Transfer ShmLane::why_refused(const Request& request, Rights need) const {
  std::byte* at = nullptr;
  bool payload =
      peer_->reach(request.remote, request.offset, request.length, need, at) == Reach::kReady;
  if (!payload || request.flag == nullptr)
    return Transfer::failed(peer_->why_not(request.remote, request.offset, request.length, need));
  return Transfer::failed(
      peer_->why_not(request.flag->region, request.flag->offset, 8, Rights::kWrite));
}

Result<std::span<std::byte>> ShmLane::map(const RemoteRegion& remote, Deadline deadline) {
  if (!up()) return tl::unexpected<Error>(cause());
  auto memory = FERRY_TRY(peer_->resolve(remote, deadline));
  if (memory.data() == nullptr)
    return fail(Code::kUnimplemented,
                "the peer's region is memory of its own, which nobody can map; it must come from "
                "Device::allocate()");
  LockGuard<Mutex> guard(lock_);
  // A revocation that comes from now on waits for us; one that came before is seen here.
  peer_->hold(remote.key);
  if (!peer_->stands(remote)) {
    peer_->let_go(remote.key);
    return tl::unexpected<Error>(peer_->why_not(remote, 0, remote.length, Rights::kNone));
  }
  mapped_.push_back(remote.key);
  return memory;
}

Status ShmLane::check(LargeCopies::Outcome outcome) {
  switch (outcome) {
    case LargeCopies::Outcome::kCopied:
      return {};
    case LargeCopies::Outcome::kLaneDown:
      return tl::unexpected<Error>(cause());
    case LargeCopies::Outcome::kHelperLate:
      break;
  }
  auto error = fail(Code::kDeadlineExceeded, "the peer stopped in the middle of helping");
  up_.store(false, std::memory_order_release);
  if (auto session = peer_->session()) session->lane_broken(*this, error.value());
  return error;
}

Transfer ShmLane::post_message(Request& request) {
  const MessageSender::Message message{request.local, request.length, wires_->sender.issued()};
  auto put = wires_->messages_out.try_put(message);
  if (!put) {
    broken(put.error());
    return Transfer::failed(put.error());
  }
  if (*put) {
    peer_->wake_flag_sleepers(wires_->peer_loop);
    return Transfer::done();
  }
  Operation* op = shared_->context->operations->make(request, loop());
  if (wires_->messages_out.add(op, message)) {
    heavy_fence();  // the word is seen by whoever takes a message from now on
    source_.activate(index_);
    put_waiting_messages();
  } else {
    op->finish(tl::unexpected<Error>(cause()));
  }
  return Transfer::pending(op);
}

int ShmLane::put_waiting_messages() {
  auto sent = wires_->messages_out.put_waiting();
  if (sent.error) broken(*sent.error);
  if (sent.count > 0) peer_->wake_flag_sleepers(wires_->peer_loop);
  sent.finish();
  return sent.count;
}

bool ShmLane::has_message() const { return wires_ != nullptr && wires_->messages_in.has_message(); }

Result<std::size_t> ShmLane::take_message(std::span<std::byte> into) {
  if (wires_ == nullptr) return tl::unexpected<Error>(cause());
  auto size = wires_->messages_in.take(into);
  if (!size) {
    if (size.error().code() == Code::kDataLoss) broken(size.error());
    return size;
  }
  light_fence();
  if (wires_->inward.wants_room.load(std::memory_order_relaxed) != 0)
    peer_->wake_any(wires_->peer_loop);
  return size;
}

int ShmLane::progress_on_loop() {
  if (!up_.load(std::memory_order_acquire)) return 0;
  int work = 0;
  auto served = wires_->server.progress();
  if (!served) {
    broken(served.error());
    return 0;
  }
  if (*served > 0) peer_->wake_any(wires_->peer_loop);
  if (wires_->sender.busy()) {
    auto sent = wires_->sender.progress();
    if (!sent) {
      broken(sent.error());
      return 0;
    }
    if (*sent > 0) peer_->ring_doorbell(wires_->peer_loop, wires_->peer_index);
    work += *sent;
  }
  if (wires_->messages_out.waits()) work += put_waiting_messages();
  return work + *served + wires_->copies.help_on_loop();
}

bool ShmLane::wants_progress() const {
  if (!up_.load(std::memory_order_acquire)) return false;
  return wires_->sender.busy() || wires_->server.stalled() || wires_->copies.is_helping() ||
         wires_->messages_out.waits();
}

void ShmLane::tick_on_loop(std::int64_t now) {
  if (!up_.load(std::memory_order_acquire)) return;
  if (wires_->sender.busy()) wires_->sender.expire(now);
  if (wires_->messages_out.waits()) wires_->messages_out.expire(now);
}

void ShmLane::broken(const Error& cause) {
  static LogLimit limit("peers that broke the protocol of shared memory");
  limit.warn("session {} broke the protocol of shared memory: {}", peer_->number(),
             cause.to_string());
  up_.store(false, std::memory_order_release);
  peer_->lost(cause);
}

Error ShmLane::cause() const {
  LockGuard<Mutex> guard(lock_);
  if (cause_) return *cause_;
  return fail(Code::kUnavailable, "the shared-memory lane is not up").value();
}

template class DoorbellSource<ShmLane>;

}  // namespace ferry::fabric::shm
