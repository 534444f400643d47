// Data path.
#include <dlfcn.h>

#include "ferry/interop/grpc_endpoint/hand_over_internal.h"
#include "ferry/interop/grpc_endpoint/hub_internal.h"

// Large slices that gRPC makes (serialized messages, and those of programs that ask gRPC for
// memory) are made in memory that peers can read: they are sent without a copy. grpc_slice_malloc()
// is replaced for that.

namespace ferry::interop {

namespace {

constexpr std::size_t kLeastShared = 32 << 10;

void drop_buffer(void* buffer) {
  from_grpc(buffer);
  delete static_cast<mail::RoomBuffer*>(buffer);
}

using Malloc = grpc_slice (*)(size_t);

// gRPC's own. A program may have loaded gRPC where only those see it who ask for it by name; it
// calls the function that replaces this one all the same.
Malloc find_malloc() {
  constexpr const char* kName = "grpc_slice_malloc";
  void* found = ::dlsym(RTLD_NEXT, kName);
  if (found != nullptr) return reinterpret_cast<Malloc>(found);
  void* grpc = ::dlopen("libgrpc.so.29", RTLD_LAZY | RTLD_NOLOAD);
  if (grpc != nullptr) found = ::dlsym(grpc, kName);  // without a handle it would be our own
  return reinterpret_cast<Malloc>(found);
}

}  // namespace

std::optional<grpc_slice> Hub::shared_slice(std::size_t bytes) {
  if (bytes < kLeastShared || !belled_.load(std::memory_order_relaxed)) return std::nullopt;
  if (!PluginOptions::get().zero_copy) return std::nullopt;
  auto buffer = room_->allocate(bytes);
  if (!buffer) {
    note_unshared(buffer.error());
    return std::nullopt;
  }
  auto* kept = new mail::RoomBuffer(*std::move(buffer));
  auto* first = kept->bytes().data();
  to_grpc(kept);
  return grpc_slice_new_with_user_data(first, bytes, &drop_buffer, kept);
}

}  // namespace ferry::interop

extern "C" __attribute__((visibility("default"))) grpc_slice grpc_slice_malloc(size_t length) {
  using namespace ferry::interop;
  static const auto plain = find_malloc();
  const auto shared = Hub::get().shared_slice(length);
  return shared ? *shared : plain(length);
}
