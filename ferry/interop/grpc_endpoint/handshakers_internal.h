#pragma once

#include <memory>

#include "ferry/interop/grpc_endpoint/abi_internal.h"
#include "ferry/interop/grpc_endpoint/hand_over_internal.h"
#include "ferry/interop/grpc_endpoint/options_internal.h"

namespace ferry::interop {

class Hub;

// What the arguments of a channel or server set, above the environment.
LinkThresholds thresholds_of(const grpc_core::ChannelArgs& args);

// What gRPC asks for each new connection, after TCP and before TLS: whether the plug-in takes part.
// The hub outlives them.
std::unique_ptr<grpc_core::HandshakerFactory> client_factory(Hub& hub);
std::unique_ptr<grpc_core::HandshakerFactory> server_factory(Hub& hub);

// The same for both sides: gRPC owns the handshaker; ends the handshake.
inline void add_handshaker(grpc_core::HandshakeManager& manager,
                           grpc_core::Handshaker* handshaker) {
  to_grpc(handshaker);
  manager.Add(grpc_core::RefCountedPtr<grpc_core::Handshaker>(handshaker));
}
inline void finish_handshake(grpc_closure* done, const absl::Status& status) {
  grpc_core::ExecCtx::Run(grpc_core::DebugLocation(), done, status);
}

// A handshake that has failed or was given up: gRPC is left without endpoint and buffer, and
// whoever took them destroys them.
struct HandshakeRemains {
  grpc_endpoint* endpoint = nullptr;
  grpc_slice_buffer* read_buffer = nullptr;

  static HandshakeRemains take(grpc_core::HandshakerArgs& args);
  void destroy();
};

}  // namespace ferry::interop
