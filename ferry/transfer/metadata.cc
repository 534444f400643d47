#include <algorithm>
#include <cstring>

#include "ferry/transfer/metadata_internal.h"

namespace ferry::transfer {

namespace {

constexpr std::size_t kMetadataBytesAt = 72;
constexpr std::size_t kWhereAt = 80;
constexpr std::size_t kMovesAt = 84;
constexpr std::size_t kMetadataRegionAt = 96;
constexpr std::size_t kOfferBodyAt = 32;

Status same(std::span<const std::byte> wire, std::span<const std::byte> canonical,
            const char* what) {
  if (std::equal(wire.begin(), wire.end(), canonical.begin(), canonical.end())) return {};
  return fail(Code::kInvalidArgument, "{} with bits that mean nothing", what);
}

}  // namespace

Metadata::Wire Metadata::to_wire() const {
  Wire wire{};
  auto descriptor = tensor::to_wire(spec);
  std::memcpy(wire.data(), descriptor.data(), descriptor.size());
  std::memcpy(wire.data() + kMetadataBytesAt, &bytes, sizeof bytes);
  std::memcpy(wire.data() + kWhereAt, &where, sizeof where);
  wire[kMovesAt] = std::byte{moves};
  if (where == Where::kSender) {
    auto at = region.to_wire();
    std::memcpy(wire.data() + kMetadataRegionAt, at.data(), at.size());
  }
  return wire;
}

Result<Metadata> Metadata::from_wire(std::span<const std::byte> wire) {
  if (wire.size() != kBytes)
    return fail(Code::kInvalidArgument, "metadata of {} bytes", wire.size());
  Metadata metadata;
  metadata.spec = FERRY_TRY(tensor::spec_from_wire(wire.first(tensor::kDescriptorBytes)));
  std::memcpy(&metadata.bytes, wire.data() + kMetadataBytesAt, sizeof metadata.bytes);
  std::uint32_t where = 0;
  std::memcpy(&where, wire.data() + kWhereAt, sizeof where);
  if (where < 1 || where > 2)
    return fail(Code::kInvalidArgument, "metadata of a payload at place {}", where);
  metadata.where = static_cast<Where>(where);
  metadata.moves = wire[kMovesAt] == std::byte{1};
  if (metadata.where == Where::kSender)
    metadata.region = FERRY_TRY(fabric::RemoteRegion::from_wire(wire.subspan(kMetadataRegionAt)));
  if (FERRY_TRY(metadata.spec.bytes()) != metadata.bytes)
    return fail(Code::kInvalidArgument, "metadata of {} with a payload of {} bytes",
                metadata.spec.to_string(), metadata.bytes);
  if (metadata.where == Where::kSender && metadata.bytes > metadata.region.length)
    return fail(Code::kOutOfRange, "metadata of {} bytes in a region of {}", metadata.bytes,
                metadata.region.length);
  FERRY_TRY(same(wire, metadata.to_wire(), "metadata"));
  return metadata;
}

Offer::Wire Offer::to_wire() const {
  Wire wire{};
  auto at = region.to_wire();
  std::memcpy(wire.data(), at.data(), at.size());
  std::memcpy(wire.data() + kOfferBodyAt, &body, sizeof body);
  return wire;
}

Result<Offer> Offer::from_wire(std::span<const std::byte> wire) {
  if (wire.size() != kBytes)
    return fail(Code::kInvalidArgument, "an offer of {} bytes", wire.size());
  Offer offer;
  offer.region =
      FERRY_TRY(fabric::RemoteRegion::from_wire(wire.first(fabric::RemoteRegion::kWireBytes)));
  std::memcpy(&offer.body, wire.data() + kOfferBodyAt, sizeof offer.body);
  FERRY_TRY(same(wire, offer.to_wire(), "an offer"));
  return offer;
}

}  // namespace ferry::transfer
