#include <algorithm>
#include <cstring>

#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/verbs/wire_internal.h"

namespace ferry::fabric::verbs {

namespace {

constexpr std::size_t kMaxText = 512;
constexpr std::uint32_t kQpnMask = 0xffffff;

void put(bootstrap::Encoder& out, const Address& address) {
  out.u16(kWireVersion)
      .u8(address.ethernet ? 2 : 1)
      .u8(static_cast<std::uint8_t>(address.gid_type))
      .u8(address.mtu)
      .u8(0)
      .u16(address.lid)
      .raw(std::as_bytes(std::span(address.gid)));
}

Result<Address> take_address(bootstrap::Decoder& in) {
  auto version = in.u16();
  auto link = in.u8();
  auto type = in.u8();
  Address address;
  address.ethernet = link == 2;
  address.mtu = in.u8();
  in.u8();
  address.lid = in.u16();
  auto gid = in.raw(address.gid.size());
  if (!in.ok()) return fail(Code::kInvalidArgument, "the peer's RDMA address is cut short");
  std::memcpy(address.gid.data(), gid.data(), gid.size());
  if (version != kWireVersion)
    return fail(Code::kFailedPrecondition,
                "the peer's RDMA lanes speak version {}, ours {}; run the same release on both",
                version, kWireVersion);
  if (link < 1 || link > 2 || type > 2 || address.mtu < 1 || address.mtu > 5 ||
      address.ethernet == (type == 0))
    return fail(Code::kInvalidArgument, "the peer's RDMA address makes no sense: link {}, type {}",
                link, type);
  address.gid_type = static_cast<GidType>(type);
  return address;
}

}  // namespace

std::vector<std::byte> encode(const Address& address) {
  std::vector<std::byte> bytes;
  bootstrap::Encoder out(bytes);
  put(out, address);
  return bytes;
}

Result<Address> decode_address(std::span<const std::byte> bytes) {
  bootstrap::Decoder in(bytes);
  auto address = FERRY_TRY(take_address(in));
  FERRY_TRY(in.finish("RDMA address"));
  return address;
}

std::vector<std::byte> encode(const LaneHello& hello) {
  std::vector<std::byte> bytes;
  bootstrap::Encoder out(bytes);
  put(out, hello.address);
  out.u32(hello.qpn).u32(hello.psn).u8(hello.read_depth).u8(0).u16(hello.credits);
  return bytes;
}

Result<LaneHello> decode_hello(std::span<const std::byte> bytes) {
  bootstrap::Decoder in(bytes);
  LaneHello hello;
  hello.address = FERRY_TRY(take_address(in));
  hello.qpn = in.u32();
  hello.psn = in.u32();
  hello.read_depth = in.u8();
  in.u8();
  hello.credits = in.u16();
  FERRY_TRY(in.finish("RDMA lane"));
  if (hello.qpn > kQpnMask || hello.psn > kQpnMask || hello.credits < 2)
    return fail(Code::kInvalidArgument, "the peer's end of the lane makes no sense: queue pair {}",
                hello.qpn);
  return hello;
}

std::vector<std::byte> encode(const Notice& notice) {
  std::vector<std::byte> bytes;
  auto region = notice.region.to_wire();
  bootstrap::Encoder(bytes)
      .u8(static_cast<std::uint8_t>(notice.kind))
      .u8(static_cast<std::uint8_t>(notice.code))
      .u16(0)
      .u32(notice.qpn)
      .u32(notice.rkey)
      .raw(region)
      .string(std::string_view(notice.text).substr(0, kMaxText));
  return bytes;
}

Result<Notice> decode_notice(std::span<const std::byte> bytes) {
  bootstrap::Decoder in(bytes);
  Notice notice;
  auto kind = in.u8();
  auto code = in.u8();
  in.u16();
  notice.qpn = in.u32();
  notice.rkey = in.u32();
  auto region = in.raw(RemoteRegion::kWireBytes);
  notice.text = in.string(kMaxText);
  FERRY_TRY(in.finish("RDMA notice"));
  if (kind < 1 || kind > 4 || code > static_cast<std::uint8_t>(Code::kUnauthenticated))
    return fail(Code::kInvalidArgument, "an RDMA notice of kind {}, code {} is unknown", kind,
                code);
  notice.kind = static_cast<Notice::Kind>(kind);
  notice.code = static_cast<Code>(code);
  notice.region = FERRY_TRY(RemoteRegion::from_wire(region));
  return notice;
}

Result<Immediate> decode_immediate(std::uint32_t bits) {
  auto kind = bits >> 28;
  if (kind < 1 || kind > 4 || (bits & 0x0fff0000) != 0)
    return fail(Code::kInvalidArgument, "an immediate of {:#010x} is unknown", bits);
  return Immediate{static_cast<Immediate::Kind>(kind), static_cast<std::uint16_t>(bits & 0xffff)};
}

}  // namespace ferry::fabric::verbs
