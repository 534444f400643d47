#pragma once

#include <cstdint>

namespace ferry {

// The least multiple of `to` that is not less than `value`.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace ferry
