#pragma once

#include <string>

#include "ferry/base/error.h"

namespace ferry::interop {

// What Session mounts is called that.
inline constexpr const char* kMountType = "fuse.ferry";

// Unmounts what is at `folder` if it is a model's, of this user, and its process was killed:
// nothing can be done with such a folder before. All other mounts are left alone, and so is one
// whose process runs. One process at a time does so in the same folder: others wait, 10 s at most.
Status remove_stale_mounts(const std::string& folder);

}  // namespace ferry::interop
