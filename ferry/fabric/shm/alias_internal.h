#pragma once

#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#define FERRY_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FERRY_TSAN 1
#endif
#endif
#ifdef FERRY_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace ferry::fabric::shm {

// The thread sanitizer knows memory by its address. A word that two devices of one process meet at
// has one in the owner and another here, so it is told of the owner's; nothing in other builds.
inline void about_to_store([[maybe_unused]] std::uint64_t address_in_owner) {
#ifdef FERRY_TSAN
  __tsan_release(reinterpret_cast<void*>(address_in_owner));
#endif
}
inline void have_loaded([[maybe_unused]] std::uint64_t address_in_owner) {
#ifdef FERRY_TSAN
  __tsan_acquire(reinterpret_cast<void*>(address_in_owner));
#endif
}

// The last store of a flagged write: whoever sees it sees all before it.
inline void raise_flag(std::uint64_t* word, std::uint64_t address_in_owner, std::uint64_t value) {
  about_to_store(address_in_owner);
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

}  // namespace ferry::fabric::shm
