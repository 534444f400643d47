#pragma once

#include <grpcpp/support/slice.h>

#include <span>
#include <string>

#include "ferry/tensor/shape.h"

// The bytes of tensor.proto's message, as protobuf lays them out (docs/wire/grpc.md).

namespace ferry::grpc {

struct TensorLayout {
  tensor::Spec spec;
  std::uint64_t data_at = 0;  // in the message
  std::uint64_t data_bytes = 0;
};

// What comes before the data.
std::string encode_tensor_head(const tensor::Spec& spec, std::uint64_t data_bytes);

// Fields in any order, and unknown ones, as any protobuf may write them. kInvalidArgument says what
// is wrong: cut off, no element type, a shape that is none, data that are not the shape's.
Result<TensorLayout> find_tensor(std::span<const ::grpc::Slice> message);

}  // namespace ferry::grpc
