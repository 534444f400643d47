#include <vector>

#include "ferry/interop/grpc_tensor/tensor_wire_internal.h"

namespace ferry::grpc {

namespace {

constexpr std::uint32_t kType = 1;
constexpr std::uint32_t kShape = 2;
constexpr std::uint32_t kData = 3;
enum WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, std::uint32_t field, WireType type) {
  put_varint(out, field << 3 | type);
}

tl::unexpected<Error> cut_off() {
  return fail(Code::kInvalidArgument, "a tensor's message that is cut off");
}

// The bytes of all slices in turn.
class TensorReader {
 public:
  explicit TensorReader(std::span<const ::grpc::Slice> slices) : slices_(slices) {
    for (const auto& slice : slices) bytes_ += slice.size();
  }
  std::uint64_t at() const { return at_; }
  bool over() const { return at_ == bytes_; }

  Status skip(std::uint64_t count) {
    if (count > bytes_ - at_) return cut_off();
    at_ += count;
    offset_ += count;
    while (index_ < slices_.size() && offset_ >= slices_[index_].size())
      offset_ -= slices_[index_++].size();
    return {};
  }

  Result<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = FERRY_TRY(next());
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    return fail(Code::kInvalidArgument, "a tensor's message with a number of more than 64 bits");
  }

 private:
  Result<std::uint8_t> next() {
    if (over()) return cut_off();
    while (slices_[index_].size() == offset_) {
      ++index_;
      offset_ = 0;
    }
    const auto byte = slices_[index_].begin()[offset_];
    FERRY_TRY(skip(1));
    return byte;
  }

  std::span<const ::grpc::Slice> slices_;
  std::uint64_t bytes_ = 0;
  std::uint64_t at_ = 0;
  std::size_t index_ = 0;     // of the slice,
  std::uint64_t offset_ = 0;  // and in it
};

// What was read of a message so far.
struct Fields {
  std::uint64_t type = 0;
  std::vector<std::int64_t> dims;
  TensorLayout layout;
};

Status read_dim(TensorReader& in, Fields& fields) {
  if (fields.dims.size() == tensor::Shape::kMaxRank)
    return fail(Code::kInvalidArgument, "a tensor with more than {} dimensions",
                tensor::Shape::kMaxRank);
  const auto dim = static_cast<std::int64_t>(FERRY_TRY(in.varint()));
  if (dim < 0) return fail(Code::kInvalidArgument, "a tensor with a dimension of {}", dim);
  fields.dims.push_back(dim);
  return {};
}

Status read_bytes(TensorReader& in, std::uint64_t field, Fields& fields) {
  const auto bytes = FERRY_TRY(in.varint());
  if (field == kShape) {
    const auto begin = in.at();
    while (in.at() - begin < bytes) FERRY_TRY(read_dim(in, fields));
    if (in.at() - begin != bytes) return cut_off();
    return {};
  }
  if (field == kData) {
    fields.layout.data_at = in.at();
    fields.layout.data_bytes = bytes;
  }
  return in.skip(bytes);
}

Status read_field(TensorReader& in, Fields& fields) {
  const auto key = FERRY_TRY(in.varint());
  const auto field = key >> 3;
  if (field == 0) return fail(Code::kInvalidArgument, "a tensor's message with a field 0");
  switch (key & 7) {
    case kVarint:
      if (field == kShape) return read_dim(in, fields);
      if (const auto value = FERRY_TRY(in.varint()); field == kType) fields.type = value;
      return {};
    case kBytes:
      return read_bytes(in, field, fields);
    case kFixed64:
      return in.skip(8);
    case kFixed32:
      return in.skip(4);
    default:
      return fail(Code::kInvalidArgument, "a tensor's message with a field of wire type {}",
                  key & 7);
  }
}

}  // namespace

std::string encode_tensor_head(const tensor::Spec& spec, std::uint64_t data_bytes) {
  std::string dims;
  for (const auto dim : spec.shape.dims()) put_varint(dims, static_cast<std::uint64_t>(dim));
  std::string head;
  put_key(head, kType, kVarint);
  put_varint(head, static_cast<std::uint64_t>(spec.type));
  if (!dims.empty()) {
    put_key(head, kShape, kBytes);
    put_varint(head, dims.size());
    head += dims;
  }
  if (data_bytes != 0) {
    put_key(head, kData, kBytes);
    put_varint(head, data_bytes);
  }
  return head;
}

Result<TensorLayout> find_tensor(std::span<const ::grpc::Slice> message) {
  TensorReader in(message);
  Fields fields;
  while (!in.over()) FERRY_TRY(read_field(in, fields));
  if (fields.type > 0xff)
    return fail(Code::kInvalidArgument, "a tensor of an element type {}", fields.type);
  auto& spec = fields.layout.spec;
  const auto type = tensor::element_type_of(static_cast<std::uint8_t>(fields.type));
  const auto shape = tensor::Shape::of(fields.dims);
  if (!type || !shape)
    return fail(Code::kInvalidArgument, "{}", (type ? shape.error() : type.error()).message());
  spec = {*type, *shape};
  const auto bytes = spec.bytes();
  if (!bytes || *bytes != fields.layout.data_bytes)
    return fail(Code::kInvalidArgument, "a tensor {} with {} bytes of data", spec.to_string(),
                fields.layout.data_bytes);
  return fields.layout;
}

}  // namespace ferry::grpc
