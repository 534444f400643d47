#pragma once

#include <cstddef>
#include <memory>

#include "ferry/base/fd.h"

namespace ferry::fabric::shm {

// Maps a segment for reading and writing. Two devices of one process share one mapping of it, so
// that whatever watches memory by address (the thread sanitizer) sees both ends meet. Thread-safe.
Result<std::shared_ptr<const Mapping>> map_segment(const Fd& fd, std::size_t length);

}  // namespace ferry::fabric::shm
