#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <span>
#include <vector>

#include "ferry/tensor/tensor.h"

namespace ferry::grpc {

// A tensor that gRPC carries without a copy of ours: what is sent are slices over its memory, what
// is received are gRPC's slices, used where they lie. On the wire it is tensor.proto's message, so
// the other end may be any program that uses protobuf's class for it. How services and stubs use
// it: tensor_service.h.
//
// Copies share the bytes. Not thread-safe itself.
class TensorBuffer {
 public:
  // Most bytes: protobuf parses no larger messages.
  static constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31) - (64 << 10);

  TensorBuffer();  // of no elements

  // Memory for a tensor to be filled, 64-aligned. Where the plug-in serves gRPC, and once there is
  // a connection, it is memory that peers can read: then the bytes are not copied on their way.
  // kFailedPrecondition while a dimension is unknown, kOutOfRange beyond kMostBytes.
  static Result<TensorBuffer> allocate(const tensor::Spec& spec);
  // Over a tensor's memory. It is kept alive by the tensor's share until gRPC has let go of it, and
  // does not change meanwhile.
  static Result<TensorBuffer> over(const tensor::Tensor& tensor);

  const tensor::Spec& spec() const { return spec_; }
  tensor::ElementType type() const { return spec_.type; }
  const tensor::Shape& shape() const { return spec_.shape; }

  // Those of a received tensor may be memory of the sender's. Aligned to the elements.
  std::span<const std::byte> bytes() const { return bytes_; }
  // The elements as T, whose size must be the element's: the caller knows what T stands for.
  template <class T>
  std::span<const T> elements() const {
    FERRY_ASSERT(sizeof(T) == size_of(spec_.type), "T has the size of an element");
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  // To be filled, before the tensor is first sent: only of one from allocate(), else nothing.
  std::span<std::byte> fill() const;
  template <class T>
  std::span<T> fill_elements() const {
    FERRY_ASSERT(sizeof(T) == size_of(spec_.type), "T has the size of an element");
    const auto bytes = fill();
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  // The message: what comes before the bytes, and slices over these.
  std::vector<::grpc::Slice> to_message() const;
  // kInvalidArgument says what is wrong with the message.
  static Result<TensorBuffer> from_message(std::vector<::grpc::Slice> message);
  // How many tensors were copied when they were received in this process, because their bytes did
  // not lie in one piece, or not aligned.
  static std::uint64_t copies();

 private:
  void gather(std::uint64_t at, std::uint64_t bytes);

  tensor::Spec spec_;
  // The bytes are in these, one after the other; none of them holds its bytes itself.
  std::vector<::grpc::Slice> slices_;
  std::span<const std::byte> bytes_;
  bool ours_ = false;  // from allocate()
};

}  // namespace ferry::grpc

// What makes it a message of gRPC's. A tensor that is none is INVALID_ARGUMENT.
template <>
class grpc::SerializationTraits<ferry::grpc::TensorBuffer, void> {
 public:
  static Status Serialize(const ferry::grpc::TensorBuffer& tensor, ByteBuffer* message, bool* own);
  static Status Deserialize(ByteBuffer* message, ferry::grpc::TensorBuffer* tensor);
};
