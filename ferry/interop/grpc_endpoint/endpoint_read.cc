#include <cstring>

#include "ferry/base/log.h"
#include "ferry/base/stall.h"
#include "ferry/interop/grpc_endpoint/endpoint_internal.h"

// What the endpoint does with messages that have come.

namespace ferry::interop {

namespace {

constexpr int kMostMessages = 64;  // taken in for one read
// Smaller messages are copied, and so are those in slots, whatever the eager threshold.
constexpr std::uint64_t kLeastLent = 16 << 10;

// A message that slices show. The last of them lets go of it.
struct Lent {
  FerryEndpoint::Around around;  // the endpoint may be gone before the slices
  std::shared_ptr<Link> link;
  mail::Message message;
  std::atomic<std::size_t> slices;

  static void release(void* raw) {
    auto* lent = static_cast<Lent*>(raw);
    from_grpc(lent);
    if (lent->slices.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    lent->link->take_back(lent->message.bytes());
    const auto around = lent->around;
    delete lent;
    // What this thread saw in the mailbox, or the memory that is free now, is worth a look.
    if (around.waker.armed() && around.endpoints.any_ready()) around.waker.wake();
  }
};

}  // namespace

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
    end(unavailable_status("Socket closed"));
  }
}

bool FerryEndpoint::take(mail::Message message) {
  const auto bytes = message.bytes();
  if (bytes == 0) {
    logger().warn("gRPC peer {} sent an empty message; the connection is closed", names_.peer);
    end(unavailable_status("the peer broke the protocol"));
    return false;
  }
  auto& counts = link_->counts;
  counts.taken_sizes.add(bytes);
  counts.taken_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const bool lendable = bytes >= kLeastLent && !message.in_slot();
  if (lendable && PluginOptions::get().zero_copy && link_->lend(bytes)) {
    lend(std::move(message));
  } else {
    copy(message);
  }
  return true;
}

void FerryEndpoint::lend(mail::Message message) {
  link_->counts.lent_bytes.fetch_add(message.bytes(), std::memory_order_relaxed);
  const auto parts = message.parts();
  auto* lent = new Lent{around_, link_, std::move(message), {parts.size() + 1}};
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

void FerryEndpoint::copy(const mail::Message& message) {
  link_->counts.copied_bytes.fetch_add(message.bytes(), std::memory_order_relaxed);
  grpc_slice slice = grpc_slice_malloc_large(message.bytes());
  auto* to = GRPC_SLICE_START_PTR(slice);
  if (!message.in_slot()) stall_for_tests(StallPoint::kCopyLent);
  for (const auto& part : message.parts()) {
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  grpc_slice_buffer_add(into_, slice);
}

}  // namespace ferry::interop
