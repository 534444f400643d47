#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ferry/bootstrap/codec.h"

// The sizes and types of docs/wire/bootstrap.md.
namespace ferry::bootstrap {

inline constexpr std::string_view kMagic = "FRRY";
inline constexpr std::size_t kOpeningSize = 40;
inline constexpr std::size_t kHeaderSize = 8;
inline constexpr std::size_t kHelloFixed = 32;

inline constexpr std::uint8_t kProofFrame = 1;
inline constexpr std::uint8_t kHelloFrame = 2;
inline constexpr std::uint8_t kRefusalFrame = 3;
inline constexpr std::uint8_t kDenialFrame = 4;

// A frame whose length counts `more` bytes that the caller appends.
inline std::vector<std::byte> handshake_frame(std::uint8_t type, std::span<const std::byte> body,
                                              std::size_t more) {
  std::vector<std::byte> frame;
  auto length = static_cast<std::uint32_t>(body.size() + more);
  Encoder(frame).u8(type).u8(0).u16(0).u32(length).raw(body);
  return frame;
}

}  // namespace ferry::bootstrap
