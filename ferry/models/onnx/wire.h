#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/base/error.h"

// The wire format of protocol buffers, as far as model files need it: a message is a row of
// numbered fields, each a number or bytes, and the bytes may be a message again.

namespace ferry::models::onnx {

struct Field {
  enum class Kind : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  std::uint32_t number = 0;
  Kind kind = Kind::kVarint;
  std::uint64_t value = 0;                // of numbers: their bits
  std::span<const std::byte> bytes = {};  // of bytes: a part of the file
  std::size_t at = 0;                     // where in the file what is in it begins
};

// Goes over the fields of one message, in bytes that cannot be trusted.
class Fields {
 public:
  // `at`: where in the file the bytes are, for messages to people.
  Fields(std::span<const std::byte> bytes, std::size_t at) : rest_(bytes), at_(at) {}

  // The next one; none at the end. kDataLoss says at which byte the file is broken.
  Result<std::optional<Field>> next();
  // For bytes that are a list of numbers, not a message.
  bool empty() const { return rest_.empty(); }
  Result<std::uint64_t> varint();

 private:
  Result<std::span<const std::byte>> take(std::uint64_t count);
  Result<std::uint64_t> fixed(std::size_t size);

  std::span<const std::byte> rest_;
  std::size_t at_;
};

// What is in a field; kDataLoss if it is of another kind.
Result<Fields> message_in(const Field& field);
Result<std::int64_t> int_in(const Field& field);
Result<float> float_in(const Field& field);
Result<std::string> text_in(const Field& field);
Result<std::span<const std::byte>> bytes_in(const Field& field);
// Repeated numbers come one by one, or many in one field.
Status add_ints(const Field& field, std::vector<std::int64_t>& to);
Status add_floats(const Field& field, std::vector<float>& to);
Status add_doubles(const Field& field, std::vector<float>& to);

}  // namespace ferry::models::onnx
