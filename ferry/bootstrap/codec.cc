#include "ferry/bootstrap/codec.h"

#include <limits>

namespace ferry::bootstrap {
namespace {

template <class T>
void append(std::vector<std::byte>& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

template <class T>
T assemble(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return static_cast<T>(value);
}

}  // namespace

Encoder& Encoder::u8(std::uint8_t value) {
  append(out_, value);
  return *this;
}

Encoder& Encoder::u16(std::uint16_t value) {
  append(out_, value);
  return *this;
}

Encoder& Encoder::u32(std::uint32_t value) {
  append(out_, value);
  return *this;
}

Encoder& Encoder::u64(std::uint64_t value) {
  append(out_, value);
  return *this;
}

Encoder& Encoder::raw(std::span<const std::byte> bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  return *this;
}

Encoder& Encoder::bytes(std::span<const std::byte> bytes) {
  FERRY_ASSERT(bytes.size() <= std::numeric_limits<std::uint32_t>::max(),
               "a byte field of a message is below 4 GiB");
  return u32(static_cast<std::uint32_t>(bytes.size())).raw(bytes);
}

Encoder& Encoder::string(std::string_view text) { return bytes(std::as_bytes(std::span(text))); }

bool Decoder::take(std::size_t count, std::span<const std::byte>& out) {
  if (ok() && count > rest_.size()) problem_ = "it ends too early";
  if (!ok()) return false;
  out = rest_.first(count);
  rest_ = rest_.subspan(count);
  return true;
}

std::uint8_t Decoder::u8() { return assemble<std::uint8_t>(raw(1)); }
std::uint16_t Decoder::u16() { return assemble<std::uint16_t>(raw(2)); }
std::uint32_t Decoder::u32() { return assemble<std::uint32_t>(raw(4)); }
std::uint64_t Decoder::u64() { return assemble<std::uint64_t>(raw(8)); }

std::span<const std::byte> Decoder::raw(std::size_t count) {
  std::span<const std::byte> out;
  take(count, out);
  return out;
}

std::span<const std::byte> Decoder::bytes(std::size_t limit) {
  std::size_t count = u32();
  if (ok() && count > limit) problem_ = "a field is longer than allowed";
  return raw(count);
}

std::string_view Decoder::string(std::size_t limit) {
  auto view = bytes(limit);
  return {reinterpret_cast<const char*>(view.data()), view.size()};
}

Status Decoder::finish(std::string_view what) const {
  if (!ok()) return fail(Code::kInvalidArgument, "malformed {}: {}", what, problem_);
  if (!rest_.empty())
    return fail(Code::kInvalidArgument, "malformed {}: {} bytes too many", what, rest_.size());
  return {};
}

}  // namespace ferry::bootstrap
