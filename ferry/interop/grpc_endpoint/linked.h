#pragma once

#include <cstdint>
#include <string>

#include "ferry/base/error.h"

namespace ferry::interop {

// What a program that links the plug-in has to do with it (docs/design/grpc-endpoint.md). Others,
// into which it is loaded, know nothing of it.

// The channel argument that leaves one channel or server alone if it is 0.
inline constexpr const char* kEnableArgument = "tensorferry.enable";

// Channel arguments, of a channel or of a server, that set a threshold of its connections: an
// integer, above the environment's setting and above what is measured (docs/design/tuning.md).
inline constexpr const char* kEagerArgument = "tensorferry.eager_threshold";
inline constexpr const char* kCopyArgument = "tensorferry.copy_up_to";
inline constexpr const char* kChunkArgument = "tensorferry.chunk_bytes";
inline constexpr const char* kChunksArgument = "tensorferry.chunks_in_flight";

// Whether gRPC of this process is served; kFailedPrecondition says why not.
Status plugin_status();

// What takes the place of the environment's settings of the same names. Before gRPC is used.
struct PluginSetting {
  std::string provider;
  std::string secret;  // or the file that holds it
  std::string secret_file;
  double patience = 1;
};
void set_plugin(const PluginSetting& setting);

// What has gone over all connections of this process so far.
struct PluginTraffic {
  std::uint64_t dialled = 0;      // connections that this process has made
  std::uint64_t sent_bytes = 0;   // handed to us by gRPC
  std::uint64_t taken_bytes = 0;  // received
  std::uint64_t lent_bytes = 0;   // of these, handed to gRPC where they lie
  PluginTraffic& operator+=(const PluginTraffic& other);
};
PluginTraffic plugin_traffic();

}  // namespace ferry::interop
