#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ferry/base/fd.h"
#include "ferry/base/spin.h"
#include "ferry/fabric/verbs/adapter_internal.h"
#include "ferry/memory/block.h"
#include "ferry/memory/registration_cache.h"

namespace ferry::fabric::verbs {

// Registers bytes, and says what to do when that fails.
Result<Handle<ibv_mr>> register_bytes(const Adapter& adapter, std::span<std::byte> bytes,
                                      int access);

// A small registered buffer: a receive buffer, the source of a small send, an atomic's result.
struct Buffer {
  std::byte* data = nullptr;
  std::uint32_t lkey = 0;
  std::uint32_t length = 0;  // bytes used
  Buffer* next = nullptr;
};

// Buffers of kMaxMessage bytes, made by the chunk and never given back to the system before the
// end. Thread-safe. One per device, so that pinned memory does not grow with the number of peers.
class Buffers {
 public:
  explicit Buffers(const Adapter& adapter) : adapter_(adapter) {}
  // Registers a chunk when none is free.
  Result<Buffer*> take();
  void give(Buffer* buffer);

 private:
  struct Chunk {
    Mapping bytes;
    Handle<ibv_mr> mr;
  };
  Status grow();

  const Adapter& adapter_;
  SpinLock lock_;
  Buffer* free_ FERRY_GUARDED_BY(lock_) = nullptr;
  Mutex growing_;
  std::deque<Buffer> buffers_ FERRY_GUARDED_BY(growing_);
  std::vector<Chunk> chunks_ FERRY_GUARDED_BY(growing_);
};

// The registrations of the blocks (arenas and registered user memory). Thread-safe.
class BlockKeys {
 public:
  explicit BlockKeys(const Adapter& adapter) : adapter_(adapter) {}
  Status attach(const memory::Block& block);
  void detach(const memory::Block& block);
  // The block's registration, or nullptr. Valid while the block is attached.
  ibv_mr* find(std::uint32_t id);

 private:
  const Adapter& adapter_;
  SpinLock lock_;
  std::unordered_map<std::uint32_t, Handle<ibv_mr>> keys_ FERRY_GUARDED_BY(lock_);
};

// A cache for the user's memory outside of every block. `rights` 1: the device writes into it.
std::unique_ptr<memory::RegistrationCache> make_cache(const Adapter& adapter);

}  // namespace ferry::fabric::verbs
