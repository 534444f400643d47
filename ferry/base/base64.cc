#include "ferry/base/base64.h"

#include <array>
#include <cstdint>

namespace ferry {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNoDigit = 64;

constexpr std::array<std::uint8_t, 256> kValues = [] {
  std::array<std::uint8_t, 256> values{};
  for (auto& value : values) value = kNoDigit;
  for (std::size_t value = 0; value < kDigits.size(); ++value)
    values.at(static_cast<std::uint8_t>(kDigits[value])) = static_cast<std::uint8_t>(value);
  return values;
}();

// Four digits, of which `pads` at the end are '=', as 24 bits; -1 if they are none.
std::int32_t bits_of(std::string_view four, std::size_t pads) {
  std::int32_t bits = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto value = i + pads >= 4 ? 0 : kValues.at(static_cast<std::uint8_t>(four[i]));
    if (value == kNoDigit) return -1;
    bits = bits * 64 + value;
  }
  const std::int32_t unused = pads == 0 ? 1 : pads == 1 ? 0x100 : 0x10000;
  return bits % unused == 0 ? bits : -1;
}

}  // namespace

std::string to_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const auto byte = [&](std::size_t i) {
      return at + i < bytes.size() ? static_cast<std::uint32_t>(bytes[at + i]) : 0U;
    };
    const auto bits = byte(0) << 16U | byte(1) << 8U | byte(2);
    text += kDigits[bits >> 18U];
    text += kDigits[bits >> 12U & 63U];
    text += at + 1 < bytes.size() ? kDigits[bits >> 6U & 63U] : '=';
    text += at + 2 < bytes.size() ? kDigits[bits & 63U] : '=';
  }
  return text;
}

Result<std::vector<std::byte>> from_base64(std::string_view text) {
  if (text.size() % 4 != 0)
    return fail(Code::kInvalidArgument, "base64 of {} digits, which is no multiple of 4",
                text.size());
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const auto four = text.substr(at, 4);
    const bool last = at + 4 == text.size();
    const std::size_t pads = !last ? 0 : four.substr(2) == "==" ? 2 : four[3] == '=' ? 1 : 0;
    const auto bits = bits_of(four, pads);
    if (bits < 0)
      return fail(Code::kInvalidArgument, "'{}' is no base64, {} digits into the text", four, at);
    for (std::size_t i = 0; i + pads < 3; ++i)
      bytes.push_back(static_cast<std::byte>(bits >> (16 - 8 * i) & 0xff));
  }
  return bytes;
}

}  // namespace ferry
