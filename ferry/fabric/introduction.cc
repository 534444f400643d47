#include <sys/stat.h>
#include <unistd.h>

#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/introduction_internal.h"

namespace ferry::fabric {

namespace {
constexpr std::uint32_t kMaxOffers = 16;
constexpr std::size_t kMaxText = 256;
constexpr std::size_t kMaxOffer = 4096;

std::uint64_t inode_of(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

PeerIdentity identity_of_this_process(std::string endpoint) {
  PeerIdentity identity;
  identity.endpoint = std::move(endpoint);
  identity.host = host_id();
  identity.net_space = inode_of("/proc/self/ns/net");
  identity.pid_space = inode_of("/proc/self/ns/pid");
  identity.uid = ::geteuid();
  identity.pid = ::getpid();
  return identity;
}

std::vector<std::byte> Introduction::encode() const {
  std::vector<std::byte> out;
  bootstrap::Encoder encoder(out);
  encoder.string(identity.endpoint).string(identity.host).u64(identity.net_space);
  encoder.u64(identity.pid_space).u32(identity.uid).u32(static_cast<std::uint32_t>(identity.pid));
  encoder.u32(static_cast<std::uint32_t>(offers.size()));
  for (const auto& [name, offer] : offers) encoder.string(name).bytes(offer);
  return out;
}

Result<Introduction> Introduction::decode(std::span<const std::byte> blob) {
  bootstrap::Decoder in(blob);
  Introduction result;
  auto& identity = result.identity;
  identity.endpoint = in.string(kMaxText);
  identity.host = in.string(kMaxText);
  identity.net_space = in.u64();
  identity.pid_space = in.u64();
  identity.uid = in.u32();
  identity.pid = static_cast<std::int32_t>(in.u32());
  auto count = in.u32();
  if (count > kMaxOffers)
    return fail(Code::kInvalidArgument, "a peer offers {} providers; at most {} make sense", count,
                kMaxOffers);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    auto name = std::string(in.string(kMaxText));
    auto offer = in.bytes(kMaxOffer);
    result.offers[name].assign(offer.begin(), offer.end());
  }
  FERRY_TRY(in.finish("a peer's introduction"));
  return result;
}

}  // namespace ferry::fabric
