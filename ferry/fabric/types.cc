#include "ferry/fabric/types.h"

#include <fstream>
#include <vector>

#include "ferry/bootstrap/codec.h"

namespace ferry::fabric {

std::string host_id() {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(boot, id);
  return id;
}

std::string DeviceId::to_string() const {
  std::string text;
  for (auto byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::array<std::byte, RemoteRegion::kWireBytes> RemoteRegion::to_wire() const {
  std::vector<std::byte> out;
  bootstrap::Encoder(out).u64(key).u64(address).u64(length).u32(epoch).u32(
      static_cast<std::uint32_t>(rights));
  std::array<std::byte, kWireBytes> wire{};
  std::copy(out.begin(), out.end(), wire.begin());
  return wire;
}

Result<RemoteRegion> RemoteRegion::from_wire(std::span<const std::byte> wire) {
  bootstrap::Decoder in(wire);
  RemoteRegion region;
  region.key = in.u64();
  region.address = in.u64();
  region.length = in.u64();
  region.epoch = in.u32();
  auto rights = in.u32();
  FERRY_TRY(in.finish("remote region"));
  if (rights > static_cast<std::uint32_t>(Rights::kAll))
    return fail(Code::kInvalidArgument, "a remote region with unknown rights {:#x}", rights);
  region.rights = static_cast<Rights>(rights);
  return region;
}

}  // namespace ferry::fabric
