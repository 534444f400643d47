#include "ferry/interop/grpc_tensor/tensor_buffer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "ferry/interop/grpc_endpoint/hand_over_internal.h"
#include "ferry/interop/grpc_tensor/tensor_wire_internal.h"

namespace ferry::grpc {

namespace {

constexpr std::size_t kTensorAlign = 64;

std::atomic<std::uint64_t> tensor_copies{0};

std::span<const std::byte> slice_bytes(const ::grpc::Slice& slice) {
  return {reinterpret_cast<const std::byte*>(slice.begin()), slice.size()};
}

// Small slices have no memory beside themselves: it moves with them.
bool holds_itself(const ::grpc::Slice& slice) {
  const auto* self = reinterpret_cast<const std::byte*>(&slice);
  const auto* first = slice_bytes(slice).data();
  return first >= self && first < self + sizeof slice;
}

Result<std::uint64_t> sendable_bytes(const tensor::Spec& spec) {
  const auto bytes = FERRY_TRY(spec.bytes());
  if (bytes > TensorBuffer::kMostBytes)
    return fail(Code::kOutOfRange, "a tensor {} of {} bytes; a message has {} at most",
                spec.to_string(), bytes, TensorBuffer::kMostBytes);
  return bytes;
}

void drop_share(void* raw) {
  interop::from_grpc(raw);
  delete static_cast<std::shared_ptr<void>*>(raw);
}

}  // namespace

TensorBuffer::TensorBuffer() : spec_{tensor::ElementType::kU8, *tensor::Shape::of({0})} {}

Result<TensorBuffer> TensorBuffer::allocate(const tensor::Spec& spec) {
  const auto bytes = FERRY_TRY(sendable_bytes(spec));
  TensorBuffer made;
  made.spec_ = spec;
  made.ours_ = true;
  if (bytes == 0) return made;
  // Large enough for an aligned place, and not to hold its bytes itself.
  const auto& slice = made.slices_.emplace_back(::grpc::Slice(bytes + kTensorAlign));
  const auto first = reinterpret_cast<std::uintptr_t>(slice.begin());
  made.bytes_ =
      slice_bytes(slice).subspan((kTensorAlign - first % kTensorAlign) % kTensorAlign, bytes);
  return made;
}

Result<TensorBuffer> TensorBuffer::over(const tensor::Tensor& tensor) {
  const auto bytes = FERRY_TRY(sendable_bytes(tensor.spec()));
  TensorBuffer made;
  made.spec_ = tensor.spec();
  if (bytes == 0) return made;
  auto* share = new std::shared_ptr<void>(tensor.share());
  interop::to_grpc(share);
  made.slices_.emplace_back(::grpc::Slice(tensor.data(), bytes, &drop_share, share));
  made.bytes_ = tensor.bytes();
  return made;
}

std::span<std::byte> TensorBuffer::fill() const {
  if (!ours_) return {};
  return {const_cast<std::byte*>(bytes_.data()), bytes_.size()};
}

std::vector<::grpc::Slice> TensorBuffer::to_message() const {
  std::vector<::grpc::Slice> message;
  message.emplace_back(encode_tensor_head(spec_, bytes_.size()));
  const auto* const end = bytes_.data() + bytes_.size();
  for (const auto& slice : slices_) {
    const auto all = slice_bytes(slice);
    const auto* from = std::max(all.data(), bytes_.data());
    const auto* to = std::min(all.data() + all.size(), end);
    if (from >= to) continue;
    message.push_back(slice.sub(static_cast<std::size_t>(from - all.data()),
                                static_cast<std::size_t>(to - all.data())));
  }
  return message;
}

Result<TensorBuffer> TensorBuffer::from_message(std::vector<::grpc::Slice> message) {
  const auto layout = FERRY_TRY(find_tensor(message));
  FERRY_TRY(sendable_bytes(layout.spec));
  TensorBuffer made;
  made.spec_ = layout.spec;
  if (layout.data_bytes == 0) return made;
  made.slices_ = std::move(message);
  made.gather(layout.data_at, layout.data_bytes);
  return made;
}

std::uint64_t TensorBuffer::copies() { return tensor_copies.load(std::memory_order_relaxed); }

// Keeps those of the slices that have the bytes; or a copy, if these are not in one piece.
void TensorBuffer::gather(std::uint64_t at, std::uint64_t bytes) {
  std::vector<std::span<const std::byte>> parts;
  std::vector<::grpc::Slice> kept;
  bool whole = true;
  auto left = bytes;
  for (const auto& slice : slices_) {
    const auto all = slice_bytes(slice);
    if (left == 0) break;
    if (at >= all.size()) {
      at -= all.size();
      continue;
    }
    const auto part = all.subspan(at, std::min(left, all.size() - at));
    whole = whole && !holds_itself(slice) &&
            (parts.empty() || parts.back().data() + parts.back().size() == part.data());
    parts.push_back(part);
    kept.push_back(slice);
    left -= part.size();
    at = 0;
  }
  const auto first = reinterpret_cast<std::uintptr_t>(parts.front().data());
  if (whole && first % size_of(spec_.type) == 0) {
    bytes_ = {parts.front().data(), bytes};
    slices_ = std::move(kept);
    return;
  }
  tensor_copies.fetch_add(1, std::memory_order_relaxed);
  auto copy = *allocate(spec_);  // its size was looked at before
  auto* to = copy.fill().data();
  for (const auto& part : parts) to = std::copy(part.begin(), part.end(), to);
  copy.ours_ = false;
  *this = std::move(copy);
}

}  // namespace ferry::grpc

namespace grpc {

Status SerializationTraits<ferry::grpc::TensorBuffer, void>::Serialize(
    const ferry::grpc::TensorBuffer& tensor, ByteBuffer* message, bool* own) {
  const auto slices = tensor.to_message();
  ByteBuffer made(slices.data(), slices.size());
  message->Swap(&made);
  *own = true;
  return Status::OK;
}

Status SerializationTraits<ferry::grpc::TensorBuffer, void>::Deserialize(
    ByteBuffer* message, ferry::grpc::TensorBuffer* tensor) {
  std::vector<Slice> slices;
  const bool there = message != nullptr && message->Valid();
  if (there) {
    if (auto status = message->Dump(&slices); !status.ok()) return status;
    message->Clear();
  }
  auto made = ferry::grpc::TensorBuffer::from_message(std::move(slices));
  if (!made) return {StatusCode::INVALID_ARGUMENT, made.error().message()};
  *tensor = *std::move(made);
  return Status::OK;
}

}  // namespace grpc
