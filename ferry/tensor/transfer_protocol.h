#pragma once

#include <cstdint>
#include <string_view>

namespace ferry::tensor {

// How tensors get from one process to another (docs/design/dataflow.md). The numbers are those of
// tickets on the wire (docs/wire/transfer.md).
enum class TransferProtocol : std::uint8_t {
  kStatic = 1,   // one shape for ever: the payload lands in a slot
  kDynamic = 2,  // the shape comes with each tensor
  kShared = 3,   // one producer, several readers of one buffer on one host
};

constexpr std::string_view name_of(TransferProtocol protocol) {
  switch (protocol) {
    case TransferProtocol::kStatic:
      return "static";
    case TransferProtocol::kDynamic:
      return "dynamic";
    case TransferProtocol::kShared:
      return "shared";
  }
  return "?";
}

}  // namespace ferry::tensor
