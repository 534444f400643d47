#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ferry/ps/worker/membership_internal.h"
#include "ferry/tensor/tensor.h"

namespace ferry::ps {

// Memory from allocate(), and which of a server's memories it is, if the server maps it.
struct Memory {
  fabric::Region region;
  std::vector<std::optional<std::uint32_t>> at;  // by server
};

// Memory that gradients may be read from where they are: by servers of this host, and by the worker
// that merges for it. Memory stays until the worker ends. Used by the thread that calls the worker.
class MemoryTable {
 public:
  MemoryTable(WorkerContext& context, Membership& members) : context_(context), members_(members) {}

  // From now on other workers of the host find all memory under name_of().
  void publish_all() { published_ = true; }
  static std::string name_of(std::size_t index);

  Result<tensor::Tensor> allocate(const tensor::Spec& spec, Deadline deadline);
  // Memory that only other workers of the host read; its index.
  Result<std::size_t> allocate_for_neighbours(std::uint64_t bytes);
  // The memory that all of these bytes are in; null: they are in the program's own.
  const Memory* find(std::span<const std::byte> bytes) const;
  const Memory& operator[](std::size_t index) const { return memories_[index]; }
  std::size_t index_of(const Memory& memory) const {
    return static_cast<std::size_t>(&memory - memories_.data());
  }
  // Grants all memory to a server that has come.
  Status register_with(std::uint32_t server, Deadline deadline);

 private:
  // Lets a server read the memory, and asks it to map that. Returns the number of the memory among
  // those that the server maps, which both ends count; none: it does not map it, or is gone.
  Result<std::optional<std::uint32_t>> grant(std::uint32_t server, const fabric::Region& region,
                                             Deadline deadline);
  // Puts the memory under its name for neighbours, once any memory was asked to be published.
  Status publish(const fabric::Region& region);

  WorkerContext& context_;
  Membership& members_;
  std::vector<Memory> memories_;
  std::vector<std::uint32_t> mapped_;  // by server: how many it has mapped
  bool published_ = false;
};

}  // namespace ferry::ps
