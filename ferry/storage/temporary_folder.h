#pragma once

#include <string>
#include <string_view>

#include "ferry/base/error.h"

namespace ferry::storage {

// A new, empty folder of this user alone, where this machine keeps temporary files (TMPDIR, else
// /tmp): its path. The caller removes it. kFailedPrecondition if there is no such place.
Result<std::string> make_temporary_folder(std::string_view prefix);

}  // namespace ferry::storage
