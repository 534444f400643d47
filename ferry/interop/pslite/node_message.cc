#include <algorithm>

#include "ferry/interop/pslite/node_message_internal.h"

namespace ps {
namespace {

using ferry::bootstrap::Decoder;
using ferry::bootstrap::Encoder;

constexpr std::size_t kMostBody = std::size_t{64} << 20;

}  // namespace

std::vector<std::byte> head_of(MessageKind kind, int sender) {
  std::vector<std::byte> head;
  Encoder(head).u8(static_cast<std::uint8_t>(kind)).u32(static_cast<std::uint32_t>(sender));
  return head;
}

void put_meta(Encoder& out, const Message& message) {
  const auto& meta = message.meta;
  for (const int value : {meta.head, meta.app_id, meta.customer_id, meta.timestamp, meta.priority})
    out.u32(static_cast<std::uint32_t>(value));
  out.u8(static_cast<std::uint8_t>((meta.request ? 1 : 0) | (meta.push ? 2 : 0) |
                                   (meta.pull ? 4 : 0) | (meta.simple_app ? 8 : 0)));
  out.string(meta.body);
  out.u8(static_cast<std::uint8_t>(message.data.size()));
  for (std::size_t each = 0; each < message.data.size(); ++each)
    out.u8(static_cast<std::uint8_t>(each < meta.data_type.size() ? meta.data_type[each] : OTHER));
}

void get_meta(Decoder& in, Meta& meta) {
  for (int* value : {&meta.head, &meta.app_id, &meta.customer_id, &meta.timestamp, &meta.priority})
    *value = static_cast<int>(in.u32());
  const auto flags = in.u8();
  meta.request = (flags & 1) != 0;
  meta.push = (flags & 2) != 0;
  meta.pull = (flags & 4) != 0;
  meta.simple_app = (flags & 8) != 0;
  meta.body = in.string(kMostBody);
  const auto arrays = in.u8();
  for (int each = 0; each < arrays; ++each)
    meta.data_type.push_back(static_cast<DataType>(std::min<int>(in.u8(), OTHER)));
}

}  // namespace ps
