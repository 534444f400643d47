// Data path.
#pragma once

#include <atomic>

namespace ferry::fabric {

// Orders a store before a later load against a thread that calls heavy_fence(): on the fast side
// this is only a compiler barrier where the kernel has expedited membarrier, else a full fence.
extern const bool kHasMembarrier;
inline void light_fence() {
  if (kHasMembarrier) {
    asm volatile("" ::: "memory");
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}
// The slow side of the pair: makes every light_fence() of every registered process a full one.
void heavy_fence();

// A full fence of this thread alone, cheaper than mfence.
inline void full_fence() {
#if defined(__x86_64__)
  asm volatile("lock; addq $0, (%%rsp)" ::: "memory", "cc");
#else
  __sync_synchronize();
#endif
}

}  // namespace ferry::fabric
