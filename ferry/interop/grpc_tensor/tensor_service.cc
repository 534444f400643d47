#include "ferry/interop/grpc_tensor/tensor_service.h"

namespace ferry::grpc {

namespace {

// Less than HTTP/2's most by so much that a tensor of a round size, with what comes before its
// bytes, does not leave a few of them for a frame of their own.
constexpr int kMostFrame = (1 << 24) - 100'000;
constexpr int kAhead = 64 << 20;

}  // namespace

// gRPC's own estimate of how much may be under way would cut tensors at its limits.
void prepare_for_tensors(::grpc::ChannelArguments& arguments) {
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMostFrame);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kAhead);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetMaxReceiveMessageSize(-1);
}

void prepare_for_tensors(::grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMostFrame);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kAhead);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.SetMaxReceiveMessageSize(-1);
}

}  // namespace ferry::grpc
