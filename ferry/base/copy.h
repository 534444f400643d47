// Data path.
#pragma once

#include <cstddef>
#include <cstring>

namespace ferry {

// memcpy with non-temporal stores, which leave the destination out of the caches: worth it when it
// is larger than they are. Everything is visible to others before whatever the caller stores next
// (it ends with sfence, which a release store alone would not give).
void copy_streaming(std::byte* to, const std::byte* from, std::size_t length);

// Each variant that this machine can run, for tests: all copy as copy_streaming does.
struct CopyVariant {
  const char* name;
  void (*copy)(std::byte* to, const std::byte* from, std::size_t length);
};
const CopyVariant* copy_variants(std::size_t& count);

inline void copy_with(std::byte* to, const std::byte* from, std::size_t length, bool streaming) {
  if (streaming) {
    copy_streaming(to, from, length);
  } else {
    std::memcpy(to, from, length);
  }
}

}  // namespace ferry
