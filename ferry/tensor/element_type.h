#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ferry/base/error.h"

namespace ferry::tensor {

// The values travel on the wire: they never change.
enum class ElementType : std::uint8_t {
  kF16 = 1,
  kBf16 = 2,
  kF32 = 3,
  kF64 = 4,
  kI8 = 5,
  kI16 = 6,
  kI32 = 7,
  kI64 = 8,
  kU8 = 9,
  kBool = 10,  // one byte, 0 or 1
};

constexpr std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::kI8:
    case ElementType::kU8:
    case ElementType::kBool:
      return 1;
    case ElementType::kF16:
    case ElementType::kBf16:
    case ElementType::kI16:
      return 2;
    case ElementType::kF32:
    case ElementType::kI32:
      return 4;
    case ElementType::kF64:
    case ElementType::kI64:
      return 8;
  }
  return 0;
}

// "f32" and the like; "?" for a value that is none.
std::string_view name_of(ElementType type);
// From a name, or from a byte of a peer's.
Result<ElementType> element_type_named(std::string_view name);
Result<ElementType> element_type_of(std::uint8_t value);

}  // namespace ferry::tensor
