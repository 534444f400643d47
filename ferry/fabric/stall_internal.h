// Data path.
#pragma once

#include <atomic>
#include <cstdint>

namespace ferry::fabric {

// A place between a look at a grant and the copy that follows it. Tests stop a thread there, as the
// scheduler may at any time, and let the owner of the memory take it back meanwhile.
enum class StallPoint : std::uint8_t {
  kReadByKernel,  // shm: before process_vm_readv
  kReadMapped,    // shm: before a copy from a peer's arena
  kServeWrite,    // shm and tcp: before the owner's process places bytes of a peer
};

// Null but in tests.
inline constinit std::atomic<void (*)(StallPoint)> stall_hook{nullptr};

inline void stall_for_tests(StallPoint at) {
  if (auto* hook = stall_hook.load(std::memory_order_relaxed); hook != nullptr) [[unlikely]]
    hook(at);
}

}  // namespace ferry::fabric
