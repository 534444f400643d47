#pragma once

#include <optional>
#include <string>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/base/waiting.h"
#include "ferry/bootstrap/secret.h"

namespace ferry::interop {

// What the user has set of a connection's thresholds, in bytes and chunks; the rest is kept,
// measured or default (docs/design/tuning.md). Plain data.
struct LinkThresholds {
  std::optional<std::uint64_t> eager_threshold{};
  std::optional<std::uint64_t> copy_up_to{};
  std::optional<std::uint64_t> chunk_bytes{};
  std::optional<std::uint32_t> chunks_in_flight{};

  bool sets_all() const { return eager_threshold && copy_up_to && chunk_bytes && chunks_in_flight; }
};

// What the environment says of the plug-in, read when it is loaded, or the program (set_plugin()).
struct PluginOptions {
  bool on = true;        // FERRY_GRPC=off: gRPC is left alone
  std::string provider;  // FERRY_GRPC_PROVIDER: as fabric::Options::provider
  std::string listen;  // FERRY_GRPC_LISTEN: where this process's device is reached; else see there
  std::string secret;  // FERRY_SECRET
  std::string secret_file;  // FERRY_SECRET_FILE
  // FERRY_GRPC_SPIN_US: threads of gRPC's that wait look so long first, always. Else they do for a
  // little while, and less often if that is in vain.
  Nanos spin = waiting::kGrpcSpin;
  bool spins_always = false;
  // FERRY_GRPC_MEMORY, in MiB: most bytes of large messages that lie in registered memory, for each
  // of: messages received, memory that gRPC's slices are made in, copies for one connection. What
  // does not fit is copied through ordinary memory or in small pieces.
  std::uint64_t memory = std::uint64_t{256} << 20;
  // FERRY_GRPC_WITHOUT: some of these, with commas between, to measure what each gives. Without
  // pipelining a large message is read in one go; without coalescing each slice of gRPC's is a
  // message; without zero-copy every message is copied where it is sent and where it is taken.
  bool pipelining = true;
  bool coalescing = true;
  bool zero_copy = true;
  // FERRY_GRPC_EAGER, FERRY_GRPC_COPY_UP_TO, FERRY_GRPC_CHUNK, FERRY_GRPC_CHUNKS_IN_FLIGHT. The
  // arguments of a channel or server are above them.
  LinkThresholds thresholds;
  std::string stats;    // FERRY_GRPC_STATS: "1" for standard error, else a file to append to
  double patience = 1;  // FERRY_GRPC_PATIENCE: scales waits on slow hosts
  // FERRY_GRPC_GIVE_UP, in seconds: a process that is stopped or gets no processor keeps its
  // connections for so long.
  Nanos give_up = std::chrono::seconds(60);

  static const PluginOptions& get();
  // A wait, made longer for slow hosts.
  Nanos scaled(Nanos span) const { return std::chrono::duration_cast<Nanos>(span * patience); }
};

// Where the cluster's secret is: what the user has given, or else a file that processes of this
// user on this host share, in memory. kPermissionDenied if somebody else has put a file there.
struct SecretSource {
  std::string text;
  std::string file;

  static Result<SecretSource> find(const PluginOptions& options);
  Result<bootstrap::Secret> read() const;
};

}  // namespace ferry::interop
