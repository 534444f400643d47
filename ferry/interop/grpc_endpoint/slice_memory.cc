// Data path.
#include "ferry/base/log.h"
#include "ferry/interop/grpc_endpoint/hand_over_internal.h"
#include "ferry/interop/grpc_endpoint/options_internal.h"
#include "ferry/interop/grpc_endpoint/slice_memory_internal.h"

namespace ferry::interop {

namespace {

constexpr std::size_t kLeastShared = 32 << 10;

void drop_buffer(void* buffer) {
  from_grpc(buffer);
  delete static_cast<mail::RoomBuffer*>(buffer);
}

}  // namespace

std::optional<grpc_slice> SliceMemory::make_slice(std::size_t bytes) {
  if (bytes < kLeastShared || !doorbell_.attached()) return std::nullopt;
  if (!PluginOptions::get().zero_copy) return std::nullopt;
  auto buffer = device_.room().allocate(bytes);
  if (!buffer) {
    note_refused(buffer.error());
    return std::nullopt;
  }
  auto* kept = new mail::RoomBuffer(*std::move(buffer));
  auto* first = kept->bytes().data();
  to_grpc(kept);
  return grpc_slice_new_with_user_data(first, bytes, &drop_buffer, kept);
}

void SliceMemory::note_refused(const Error& why) {
  if (refused_.fetch_add(1, std::memory_order_relaxed) == 0)
    logger().info("gRPC's messages are copied before they are sent: {}", why.message());
}

std::string SliceMemory::report() const {
  const auto slices = refused_.load();
  if (slices == 0) return "";
  return fmt::format(
      "tensorferry grpc memory: {} slices were made where peers cannot read, and copied, because "
      "all {} bytes for them were in use\n",
      slices, PluginOptions::get().memory);
}

}  // namespace ferry::interop
