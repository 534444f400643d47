#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace ferry::interop {

// What is written to an object before gRPC gets it (as a closure, as what a slice stands for, as an
// endpoint) is seen by the thread that gets it from gRPC. gRPC sees to that with locks and atomics
// that the thread sanitizer does not know of, since gRPC was not compiled with it: these say it.
// Nothing in other builds.
inline void to_grpc([[maybe_unused]] void* object) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(object);
#endif
}
inline void from_grpc([[maybe_unused]] void* object) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(object);
#endif
}

}  // namespace ferry::interop
