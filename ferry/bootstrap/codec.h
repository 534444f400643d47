#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ferry/base/error.h"

namespace ferry::bootstrap {

// Appends little-endian values to a vector that stays the caller's.
class Encoder {
 public:
  explicit Encoder(std::vector<std::byte>& out) : out_(out) {}

  Encoder& u8(std::uint8_t value);
  Encoder& u16(std::uint16_t value);
  Encoder& u32(std::uint32_t value);
  Encoder& u64(std::uint64_t value);
  // Bytes as they are; the reader knows how many.
  Encoder& raw(std::span<const std::byte> bytes);
  // A u32 length, then the bytes. Below 4 GiB.
  Encoder& bytes(std::span<const std::byte> bytes);
  Encoder& string(std::string_view text);

 private:
  std::vector<std::byte>& out_;
};

// Reads what an Encoder wrote, from bytes that cannot be trusted.
//
// Never reads out of bounds. After the first failure every value is 0 or empty, so a caller may
// read a whole message and ask once, with finish(). Do not act on a value before finish() or ok()
// said yes. The views point into the bytes given.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::uint8_t u8();
  std::uint16_t u16();
  std::uint32_t u32();
  std::uint64_t u64();
  std::span<const std::byte> raw(std::size_t count);
  // What Encoder::bytes wrote, refused when longer than `limit`.
  std::span<const std::byte> bytes(std::size_t limit);
  std::string_view string(std::size_t limit);

  bool ok() const { return problem_ == nullptr; }
  std::size_t remaining() const { return rest_.size(); }

  // kInvalidArgument, naming `what`, unless every read succeeded and every byte was read.
  Status finish(std::string_view what) const;

 private:
  bool take(std::size_t count, std::span<const std::byte>& out);

  std::span<const std::byte> rest_;
  const char* problem_ = nullptr;
};

}  // namespace ferry::bootstrap
