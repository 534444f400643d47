#include "ferry/models/onnx/wire.h"

#include <bit>
#include <cstring>

namespace ferry::models::onnx {
namespace {

tl::unexpected<Error> wrong_kind(const Field& field, std::string_view expected) {
  return fail(Code::kDataLoss, "byte {}: field {} is not {}", field.at, field.number, expected);
}

// Little-endian, of `size` bytes.
std::uint64_t number_of(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8U | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

template <class T, class Bits>
Status add_fixed(const Field& field, Field::Kind alone, std::vector<float>& to) {
  if (field.kind == alone) {
    to.push_back(static_cast<float>(std::bit_cast<T>(static_cast<Bits>(field.value))));
    return {};
  }
  if (field.kind != Field::Kind::kBytes || field.bytes.size() % sizeof(T) != 0)
    return wrong_kind(field, "a list of floating-point numbers");
  to.reserve(to.size() + field.bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < field.bytes.size(); i += sizeof(T)) {
    const auto bits = static_cast<Bits>(number_of(field.bytes.subspan(i, sizeof(T))));
    to.push_back(static_cast<float>(std::bit_cast<T>(bits)));
  }
  return {};
}

}  // namespace

Result<std::uint64_t> Fields::varint() {
  constexpr unsigned kBits = 64;
  std::uint64_t value = 0;
  const auto begin = at_;
  for (unsigned shift = 0; shift < kBits; shift += 7) {
    const auto byte = number_of(FERRY_TRY(take(1)));
    value |= (byte & 0x7fU) << shift;
    if (byte < 0x80) return value;
  }
  return fail(Code::kDataLoss, "byte {}: a number that does not end", begin);
}

Result<std::span<const std::byte>> Fields::take(std::uint64_t count) {
  if (count > rest_.size())
    return fail(Code::kDataLoss, "byte {}: {} bytes should follow, but only {} are left", at_,
                count, rest_.size());
  const auto taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  at_ += count;
  return taken;
}

Result<std::uint64_t> Fields::fixed(std::size_t size) { return number_of(FERRY_TRY(take(size))); }

Result<std::optional<Field>> Fields::next() {
  if (rest_.empty()) return std::nullopt;
  const auto begin = at_;
  const auto tag = FERRY_TRY(varint());
  Field field{.number = static_cast<std::uint32_t>(tag >> 3U),
              .kind = static_cast<Field::Kind>(tag & 7U),
              .at = at_};
  if (field.number == 0 || tag >> 32U != 0)
    return fail(Code::kDataLoss, "byte {}: there is no field of the number {}", begin, tag >> 3U);
  switch (field.kind) {
    case Field::Kind::kVarint:
      field.value = FERRY_TRY(varint());
      return field;
    case Field::Kind::kFixed64:
      field.value = FERRY_TRY(fixed(8));
      return field;
    case Field::Kind::kFixed32:
      field.value = FERRY_TRY(fixed(4));
      return field;
    case Field::Kind::kBytes: {
      const auto size = FERRY_TRY(varint());
      field.at = at_;
      field.bytes = FERRY_TRY(take(size));
      return field;
    }
  }
  return fail(Code::kDataLoss, "byte {}: field {} is of the unknown kind {}", begin, field.number,
              tag & 7U);
}

Result<Fields> message_in(const Field& field) {
  return Fields(FERRY_TRY(bytes_in(field)), field.at);
}

Result<std::int64_t> int_in(const Field& field) {
  if (field.kind != Field::Kind::kVarint) return wrong_kind(field, "a whole number");
  return static_cast<std::int64_t>(field.value);
}

Result<float> float_in(const Field& field) {
  if (field.kind != Field::Kind::kFixed32) return wrong_kind(field, "a floating-point number");
  return std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
}

Result<std::string> text_in(const Field& field) {
  const auto bytes = FERRY_TRY(bytes_in(field));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::span<const std::byte>> bytes_in(const Field& field) {
  if (field.kind != Field::Kind::kBytes) return wrong_kind(field, "bytes");
  return field.bytes;
}

Status add_ints(const Field& field, std::vector<std::int64_t>& to) {
  if (field.kind == Field::Kind::kVarint) {
    to.push_back(static_cast<std::int64_t>(field.value));
    return {};
  }
  auto list = FERRY_TRY(message_in(field));
  while (!list.empty()) to.push_back(static_cast<std::int64_t>(FERRY_TRY(list.varint())));
  return {};
}

Status add_floats(const Field& field, std::vector<float>& to) {
  return add_fixed<float, std::uint32_t>(field, Field::Kind::kFixed32, to);
}

Status add_doubles(const Field& field, std::vector<float>& to) {
  return add_fixed<double, std::uint64_t>(field, Field::Kind::kFixed64, to);
}

}  // namespace ferry::models::onnx
