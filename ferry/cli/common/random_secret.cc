#include "ferry/cli/common/random_secret.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "ferry/bootstrap/secret.h"

namespace ferry::cli {

Result<std::string> random_secret() {
  std::array<std::byte, 24> bytes{};
  FERRY_TRY(bootstrap::random_bytes(bytes));
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

}  // namespace ferry::cli
