#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/base/error.h"

namespace ferry {

// RFC 4648, with padding.
std::string to_base64(std::span<const std::byte> bytes);
// kInvalidArgument unless the text is what to_base64() gives.
Result<std::vector<std::byte>> from_base64(std::string_view text);

}  // namespace ferry
