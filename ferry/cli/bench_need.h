#pragma once

#include <array>
#include <string>

#include "bench/limits/link.h"
#include "ferry/base/error.h"
#include "ferry/bootstrap/secret.h"

// For programs that measure: what fails ends the run with its sentence.
namespace ferry::cli {

template <class T>
T need(Result<T> result) {
  if (!result) throw bench::Failure(result.error().to_string());
  return *std::move(result);
}
inline void need(const Status& status) {
  if (!status) throw bench::Failure(status.error().to_string());
}

// For the devices of one measurement; made before their processes are forked, so that all know it.
inline std::string fresh_secret() {
  std::array<std::byte, 16> random{};
  need(bootstrap::random_bytes(random));
  std::string text;
  for (auto byte : random) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

}  // namespace ferry::cli
