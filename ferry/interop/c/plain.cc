#include "ferry/interop/c/boxes_internal.h"
#include "ferry/transfer/ticket.h"

namespace ferry::interop {

static_assert(sizeof(ferry_ticket) == transfer::Ticket::kWireBytes);
static_assert(FERRY_UNAUTHENTICATED == static_cast<int>(Code::kUnauthenticated));
static_assert(FERRY_ALL == static_cast<int>(fabric::Rights::kAll));
static_assert(FERRY_BOOL == static_cast<int>(tensor::ElementType::kBool));

fabric::RemoteRegion remote_of(const ferry_remote& remote) {
  return {remote.key, remote.address, remote.length, remote.epoch,
          static_cast<fabric::Rights>(remote.rights & FERRY_ALL)};
}

ferry_remote remote_to_c(const fabric::RemoteRegion& remote) {
  return {remote.key, remote.address, remote.length, remote.epoch,
          static_cast<uint32_t>(remote.rights)};
}

Result<tensor::Spec> spec_of(const ferry_spec& spec) {
  const auto type = FERRY_TRY(tensor::element_type_of(spec.type));
  if (spec.rank > tensor::Shape::kMaxRank)
    return fail(Code::kInvalidArgument, "{} dimensions; {} are the most", spec.rank,
                tensor::Shape::kMaxRank);
  return tensor::Spec{type, FERRY_TRY(tensor::Shape::of(std::span(spec.dims, spec.rank)))};
}

ferry_spec spec_to_c(const tensor::Spec& spec) {
  ferry_spec plain{};
  plain.type = static_cast<uint8_t>(spec.type);
  plain.rank = static_cast<uint8_t>(spec.shape.rank());
  for (std::size_t i = 0; i < spec.shape.rank(); ++i) plain.dims[i] = spec.shape.dim(i);
  return plain;
}

ferry_tensor tensor_to_c(const tensor::Tensor& tensor) {
  return {spec_to_c(tensor.spec()), tensor.data(), tensor.bytes().size()};
}

Result<tensor::Tensor> tensor_of(const ferry_tensor& tensor) {
  return tensor::Tensor::over(FERRY_TRY(spec_of(tensor.spec)), bytes_of(tensor.data, tensor.bytes));
}

fabric::WaitMode mode_of(int mode) {
  if (mode == FERRY_SPIN) return fabric::WaitMode::kSpin;
  return mode == FERRY_SLEEP ? fabric::WaitMode::kSleep : fabric::WaitMode::kAdaptive;
}

}  // namespace ferry::interop

using namespace ferry;           // NOLINT(google-build-using-namespace): entries are outside
using namespace ferry::interop;  // NOLINT(google-build-using-namespace)

ferry_error* ferry_ticket_spec(const ferry_ticket* ticket, ferry_spec* spec) {
  return guard([&]() -> Status {
    FERRY_TRY(check_pointers({ticket, spec}));
    *spec = spec_to_c(
        FERRY_TRY(transfer::Ticket::from_wire(std::as_bytes(std::span(ticket->bytes)))).spec);
    return {};
  });
}
