#include <algorithm>
#include <cstring>

#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/interop/grpc_endpoint/endpoint_internal.h"
#include "ferry/interop/grpc_endpoint/hub_internal.h"

namespace ferry::interop {

namespace {

constexpr std::size_t kMostParts = 1000;  // of one message
constexpr std::size_t kMostLarge = 30;    // of these, worth being named on their own
constexpr std::size_t kLarge = 32 << 10;
constexpr int kMostMessages = 64;  // taken in for one read
// Bytes of the peer's memory that slices here may hold; the peer has twice as many for messages.
constexpr std::uint64_t kMostLent = std::uint64_t{128} << 20;
constexpr std::uint64_t kLeastLent = 16 << 10;  // smaller messages are copied
constexpr std::uint32_t kMostLentMessages = Link::kRendezvous * 3 / 4;

std::span<const std::byte> bytes_of(const grpc_slice& slice) {
  return {reinterpret_cast<const std::byte*>(GRPC_SLICE_START_PTR(slice)),
          GRPC_SLICE_LENGTH(slice)};
}

// As gRPC's own endpoint says it, so that calls end with this status.
absl::Status unavailable(const char* text) {
  auto status = absl::UnknownError(text);
  grpc_core::StatusSetInt(&status, grpc_core::StatusIntProperty::kRpcStatus,
                          GRPC_STATUS_UNAVAILABLE);
  return status;
}

void run(grpc_closure* closure, const absl::Status& status) {
  grpc_core::ExecCtx::Run(grpc_core::DebugLocation(), closure, status);
}

// A message that slices show. The last of them lets go of it.
struct Lent {
  std::shared_ptr<Link> link;
  transfer::Message message;
  std::atomic<std::size_t> slices;

  static void release(void* raw) {
    auto* lent = static_cast<Lent*>(raw);
    from_grpc(lent);
    if (lent->slices.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    lent->link->lent.fetch_sub(lent->message.bytes(), std::memory_order_relaxed);
    lent->link->lent_messages.fetch_sub(1, std::memory_order_relaxed);
    delete lent;
  }
};

}  // namespace

const grpc_endpoint_vtable FerryEndpoint::kVtable = {
    [](grpc_endpoint* self, grpc_slice_buffer* into, grpc_closure* done, bool, int) {
      of(self).read(into, done);
    },
    [](grpc_endpoint* self, grpc_slice_buffer* from, grpc_closure* done, void*, int) {
      of(self).write(from, done);
    },
    [](grpc_endpoint* self, grpc_pollset* pollset) {
      grpc_pollset_add_fd(pollset, of(self).wire_->descriptor());
      Hub::get().watch(pollset);
    },
    [](grpc_endpoint* self, grpc_pollset_set* set) {
      grpc_pollset_set_add_fd(set, of(self).wire_->descriptor());
      Hub::get().watch(set, true);
    },
    [](grpc_endpoint* self, grpc_pollset_set* set) {
      grpc_pollset_set_del_fd(set, of(self).wire_->descriptor());
      Hub::get().watch(set, false);
    },
    [](grpc_endpoint* self, absl::Status why) { of(self).shutdown(why); },
    [](grpc_endpoint* self) { of(self).destroy(); },
    [](grpc_endpoint* self) { return absl::string_view(of(self).names_.peer); },
    [](grpc_endpoint* self) { return absl::string_view(of(self).names_.local); },
    [](grpc_endpoint* self) { return of(self).wire_->socket(); },
    [](grpc_endpoint*) { return false; },
};

grpc_endpoint* FerryEndpoint::make(std::shared_ptr<Link> link, std::shared_ptr<Wire> wire,
                                   grpc_endpoint* under, Names names) {
  link->peer = names.peer;
  link->client = under == nullptr;
  std::shared_ptr<FerryEndpoint> made(
      new FerryEndpoint(std::move(link), std::move(wire), under, std::move(names)));
  made->grpcs_ = made;
  Hub::get().attach();
  Hub::get().add(made);
  made->wire_->listen([weak = made->weak_from_this()](bool stray) {
    if (auto self = weak.lock()) self->wire_down(stray);
  });
  to_grpc(made.get());
  return made.get();
}

FerryEndpoint::FerryEndpoint(std::shared_ptr<Link> link, std::shared_ptr<Wire> wire,
                             grpc_endpoint* under, Names names)
    : grpc_endpoint{&kVtable},
      link_(std::move(link)),
      wire_(std::move(wire)),
      under_(under),
      names_(std::move(names)) {
  grpc_slice_buffer_init(&held_);
}

FerryEndpoint::~FerryEndpoint() {
  if (sends_.empty()) {
    grpc_slice_buffer_destroy(&held_);
    return;
  }
  sends_.clear();
  auto* left = new grpc_slice_buffer;
  grpc_slice_buffer_init(left);
  grpc_slice_buffer_swap(left, &held_);
  grpc_slice_buffer_destroy(&held_);
  link_->afterwards = [left] {
    grpc_slice_buffer_destroy(left);
    delete left;
  };
}

void FerryEndpoint::read(grpc_slice_buffer* into, grpc_closure* done) {
  LockGuard<Mutex> guard(lock_);
  grpc_slice_buffer_reset_and_unref(into);
  into_ = into;
  read_done_ = done;
  reading_.store(true, std::memory_order_release);
  fill();
}

void FerryEndpoint::write(grpc_slice_buffer* from, grpc_closure* done) {
  LockGuard<Mutex> guard(lock_);
  write_done_ = done;
  if (ended_) {
    finish_write(why_);
    return;
  }
  link_->counts.writes.fetch_add(1, std::memory_order_relaxed);
  link_->counts.sent_bytes.fetch_add(from->length, std::memory_order_relaxed);
  grpc_slice_buffer_swap(from, &held_);
  next_slice_ = 0;
  push();
  if (write_done_ == nullptr) return;
  // A thread that went to sleep before this saw nobody wait for what may have come meanwhile.
  writing_.store(true, std::memory_order_seq_cst);
  if (has_news()) Hub::get().tell_grpc();
}

void FerryEndpoint::pump() {
  if (!reading_.load(std::memory_order_acquire) && !writing_.load(std::memory_order_acquire))
    return;
  LockGuard<Mutex> guard(lock_);
  const bool retry = drained_at_ != 0 || blocked_.load(std::memory_order_relaxed);
  if (!retry && !has_news()) return;
  if (write_done_ != nullptr) push();
  if (read_done_ != nullptr) fill();
}

// Completes the read if anything is there. After the end of the connection, what it brought comes
// first.
void FerryEndpoint::fill() {
  if (ended_) {
    finish_read(why_);
    return;
  }
  for (int taken = 0; taken < kMostMessages; ++taken) {
    auto message = link_->mailbox().poll();
    if (!message) {
      if (into_->length == 0) end(message.error());
      break;
    }
    if (!*message) break;
    if (!take(**std::move(message))) return;
  }
  if (read_done_ == nullptr) return;
  if (into_->length != 0) {
    finish_read(absl::OkStatus());
  } else if (drained_at_ != 0 && (link_->maps() || now_ns() >= drained_at_)) {
    end(unavailable("Socket closed"));
  }
}

// False: the peer broke the protocol, and all is over.
bool FerryEndpoint::take(transfer::Message message) {
  const auto bytes = message.bytes();
  if (bytes == 0) {
    logger().warn("gRPC peer {} sent an empty message; the connection is closed", names_.peer);
    end(unavailable("the peer broke the protocol"));
    return false;
  }
  auto& counts = link_->counts;
  counts.taken_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const bool large = bytes >= kLeastLent;
  const bool room = link_->lent.load(std::memory_order_relaxed) + bytes <= kMostLent &&
                    link_->lent_messages.load(std::memory_order_relaxed) < kMostLentMessages;
  if (large && !room && counts.over_budget.fetch_add(1, std::memory_order_relaxed) == 0)
    logger().info("the program holds {} messages of {} bytes from {}: further ones are copied",
                  link_->lent_messages.load(), link_->lent.load(), names_.peer);
  if (large && room) {
    lend(std::move(message));
  } else {
    copy(message);
  }
  return true;
}

void FerryEndpoint::lend(transfer::Message message) {
  link_->counts.lent_bytes.fetch_add(message.bytes(), std::memory_order_relaxed);
  link_->lent.fetch_add(message.bytes(), std::memory_order_relaxed);
  link_->lent_messages.fetch_add(1, std::memory_order_relaxed);
  const auto parts = message.parts();
  auto* lent = new Lent{link_, std::move(message), {parts.size() + 1}};
  to_grpc(lent);
  std::size_t shown = 0;
  for (const auto& part : parts) {
    if (part.empty()) continue;
    const auto* data = reinterpret_cast<const char*>(part.data());
    if (part.size() <= GRPC_SLICE_INLINED_SIZE) {
      grpc_slice_buffer_add(into_, grpc_slice_from_copied_buffer(data, part.size()));
      continue;
    }
    ++shown;
    // Not merged with its neighbours: a slice of its own.
    grpc_slice_buffer_add_indexed(
        into_,
        grpc_slice_new_with_user_data(const_cast<char*>(data), part.size(), &Lent::release, lent));
  }
  for (std::size_t unused = parts.size() + 1 - shown; unused > 0; --unused) Lent::release(lent);
}

void FerryEndpoint::copy(const transfer::Message& message) {
  link_->counts.copied_bytes.fetch_add(message.bytes(), std::memory_order_relaxed);
  grpc_slice slice = grpc_slice_malloc_large(message.bytes());
  auto* to = GRPC_SLICE_START_PTR(slice);
  for (const auto& part : message.parts()) {
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  grpc_slice_buffer_add(into_, slice);
}

// Sends what is left of the write, and completes it if the peer has everything, or is gone. As with
// TCP, it is the reads that fail then: what the peer has said before is heard first.
void FerryEndpoint::push() {
  while (next_slice_ < held_.count)
    if (!send_next()) break;
  bool lost = false;
  std::erase_if(sends_, [&lost](auto& send) {
    if (!send.poll()) return false;
    lost = lost || !send.wait();
    return true;
  });
  if (lost) next_slice_ = held_.count;
  if (sends_.empty() && next_slice_ == held_.count) finish_write(absl::OkStatus());
}

// False: nothing more for now. A peer that holds much of this end's memory lets go of it in time.
bool FerryEndpoint::send_next() {
  parts_.clear();
  std::size_t last = next_slice_;
  for (std::size_t large = 0;
       last < held_.count && parts_.size() < kMostParts && large < kMostLarge; ++last) {
    const auto bytes = bytes_of(held_.slices[last]);
    if (!bytes.empty()) parts_.push_back(bytes);
    large += bytes.size() >= kLarge ? 1 : 0;
  }
  if (!parts_.empty()) {
    auto send = link_->mailbox().send(parts_, Deadline::after(Nanos::max()));
    if (!send.poll()) {
      sends_.push_back(std::move(send));
    } else if (auto status = send.wait(); !status) {
      if (status.error().code() == Code::kResourceExhausted) {
        blocked_.store(true, std::memory_order_relaxed);
        Hub::get().ring_soon();
        return false;
      }
      last = held_.count;
    }
  }
  blocked_.store(false, std::memory_order_relaxed);
  next_slice_ = last;
  return true;
}

void FerryEndpoint::end(const Error& error) {
  logger().debug("gRPC's connection with {} ends: {}", names_.peer, error.to_string());
  end(unavailable("Socket closed"));
}

void FerryEndpoint::end(const absl::Status& why) {
  if (ended_) return;
  ended_ = true;
  why_ = why;
  if (read_done_ != nullptr) finish_read(why);
  if (write_done_ != nullptr) finish_write(why);
}

void FerryEndpoint::finish_read(const absl::Status& status) {
  reading_.store(false, std::memory_order_relaxed);
  run(std::exchange(read_done_, nullptr), status);
}

// After a failure the mailbox may still look at the slices: they stay until it is closed.
void FerryEndpoint::finish_write(const absl::Status& status) {
  writing_.store(false, std::memory_order_relaxed);
  blocked_.store(false, std::memory_order_relaxed);
  if (sends_.empty()) grpc_slice_buffer_reset_and_unref(&held_);
  run(std::exchange(write_done_, nullptr), status);
}

void FerryEndpoint::shutdown(const absl::Status& why) {
  {
    LockGuard<Mutex> guard(lock_);
    end(why);
  }
  wire_->shutdown(why);
  if (under_ != nullptr) grpc_endpoint_shutdown(under_, why);
}

void FerryEndpoint::destroy() {
  shutdown(unavailable("endpoint destroyed"));
  auto& hub = Hub::get();
  hub.remove(this);
  wire_->close();
  if (under_ != nullptr) grpc_endpoint_destroy(under_);
  const auto last = std::move(grpcs_);
  hub.detach();
}

void FerryEndpoint::wire_down(bool stray) {
  LockGuard<Mutex> guard(lock_);
  if (ended_) return;
  if (stray) {
    logger().warn("gRPC peer {} sent bytes where none belong; the connection is closed",
                  names_.peer);
    end(unavailable("the peer broke the protocol"));
    return;
  }
  auto& hub = Hub::get();
  drained_at_ = Deadline::after(hub.scaled(kDrain)).ns();
  if (write_done_ != nullptr) finish_write(absl::OkStatus());
  if (read_done_ != nullptr) fill();
  if (!ended_ && !link_->maps()) hub.ring_soon();
}

}  // namespace ferry::interop
