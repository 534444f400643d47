// Data path.
#pragma once

#include <atomic>
#include <cstdint>

namespace ferry {

// A place between a look at a grant or a lease and the copy that follows it. Tests stop a thread or
// a process there, as the scheduler may at any time, and let the owner of the memory take it back
// meanwhile. See docs/design/late-readers.md.
enum class StallPoint : std::uint8_t {
  kReadByKernel,    // shm: before process_vm_readv
  kReadMapped,      // shm: before a copy from a peer's arena
  kServeWrite,      // shm and tcp: before the owner's process places bytes of a peer
  kCopyVersion,     // shared versions: before a reader copies the version that its seat names
  kCopyBlock,       // parameter server: before a worker copies a block under its lease
  kEndLookAtLease,  // parameter server: before a worker says up to when its lease has seen blocks
  kReadBlocks,      // parameter server: between a read of heads and that of the blocks
  kCopyLent,        // gRPC: before a message that lies in the sender's memory is copied
};

// Null but in tests.
inline constinit std::atomic<void (*)(StallPoint)> stall_hook{nullptr};

inline void stall_for_tests(StallPoint at) {
  if (auto* hook = stall_hook.load(std::memory_order_relaxed); hook != nullptr) [[unlikely]]
    hook(at);
}

}  // namespace ferry
