#pragma once

#include <cstdint>
#include <string_view>

namespace ferry {

// FNV-1a: tells things apart that nobody makes look alike on purpose.
class Hash {
 public:
  Hash& take(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x100000001b3;
    return *this;
  }
  Hash& take(std::string_view text) {
    for (const char letter : text) take(std::uint64_t{static_cast<unsigned char>(letter)});
    return *this;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace ferry
