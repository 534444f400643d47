#include "ferry/tensor/element_type.h"

#include <array>

namespace ferry::tensor {

namespace {
// By value; there is no type 0.
constexpr std::array<std::string_view, 11> kTypeNames = {"?",   "f16", "bf16", "f32", "f64", "i8",
                                                         "i16", "i32", "i64",  "u8",  "bool"};
}  // namespace

std::string_view name_of(ElementType type) {
  auto value = static_cast<std::size_t>(type);
  return value < kTypeNames.size() ? kTypeNames[value] : "?";
}

Result<ElementType> element_type_named(std::string_view name) {
  for (std::size_t value = 1; value < kTypeNames.size(); ++value)
    if (kTypeNames[value] == name) return static_cast<ElementType>(value);
  return fail(Code::kInvalidArgument,
              "there is no element type '{}'; it is one of f16, bf16, f32, f64, i8, i16, i32, i64, "
              "u8, bool",
              name);
}

Result<ElementType> element_type_of(std::uint8_t value) {
  if (value == 0 || value >= kTypeNames.size())
    return fail(Code::kInvalidArgument, "there is no element type {}", value);
  return static_cast<ElementType>(value);
}

}  // namespace ferry::tensor
