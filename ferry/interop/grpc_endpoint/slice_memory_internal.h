#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "ferry/interop/grpc_endpoint/abi_internal.h"
#include "ferry/interop/grpc_endpoint/doorbell_internal.h"

namespace ferry::interop {

// Memory for large slices that gRPC makes (serialized messages, and those of programs that ask gRPC
// for memory): in the mail room, where peers can read, so that they are sent without a copy.
//
// Thread-safe: any thread of the program may make a slice.
class SliceMemory {
 public:
  SliceMemory(PluginDevice& device, const Doorbell& doorbell)
      : device_(device), doorbell_(doorbell) {}

  // Nothing if the slice is small, if there are no connections, or if too much is in use.
  std::optional<grpc_slice> make_slice(std::size_t bytes);
  // A line about slices that found no memory; empty if all did.
  std::string report() const;

 private:
  // Counts slices for which there was no memory, and logs why the first time.
  void note_refused(const Error& why);

  PluginDevice& device_;
  const Doorbell& doorbell_;
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace ferry::interop
