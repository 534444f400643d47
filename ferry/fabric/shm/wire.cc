#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "ferry/base/fd.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/shm/layout_internal.h"
#include "ferry/fabric/shm/wire_internal.h"

namespace ferry::fabric::shm {

namespace {

using bootstrap::Decoder;
using bootstrap::Encoder;

enum class Type : std::uint8_t {
  kHello = 1,
  kRefusal = 2,
  kBlock = 3,
  kDrop = 4,
  kRevoke = 5,
  kRevoked = 6,
};
constexpr std::size_t kMaxName = 107;

Result<std::string> read_boot_id() {
  constexpr const char* kFile = "/proc/sys/kernel/random/boot_id";
  Fd fd(::open(kFile, O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, "opening {} (is /proc mounted?)", kFile);
  char text[64];
  auto got = ::read(fd.get(), text, sizeof text);
  if (got < 36) return fail(Code::kUnavailable, "{} holds no boot id", kFile);
  return std::string(text, 36);
}

Result<std::uint64_t> space(const char* path) {
  struct stat info {};
  if (::stat(path, &info) != 0) return fail_errno(errno, "looking at {}", path);
  return static_cast<std::uint64_t>(info.st_ino);
}

struct Writer {
  Encoder& out;
  void operator()(const HelloPacket& hello) {
    out.u8(static_cast<std::uint8_t>(Type::kHello)).u8(hello.connecting ? 1 : 0);
    out.u16(kWireVersion).u32(hello.loops).u32(hello.loop).u32(hello.index).raw(hello.token);
  }
  void operator()(const RefusalPacket& refusal) {
    out.u8(static_cast<std::uint8_t>(Type::kRefusal)).u8(static_cast<std::uint8_t>(refusal.code));
    out.u16(kWireVersion).string(std::string_view(refusal.text).substr(0, kMaxText));
  }
  void operator()(const BlockPacket& block) {
    begin(Type::kBlock);
    out.u32(block.id).u64(block.length);
  }
  void operator()(const DropPacket& drop) {
    begin(Type::kDrop);
    out.u32(drop.id);
  }
  void operator()(const RevokePacket& revoke) {
    begin(Type::kRevoke);
    out.u64(revoke.number).u64(revoke.key);
  }
  void operator()(const RevokedPacket& revoked) {
    begin(Type::kRevoked);
    out.u64(revoked.number);
  }
  void begin(Type type) { out.u8(static_cast<std::uint8_t>(type)).u8(0).u16(kWireVersion); }
};

HelloPacket decode_hello(Decoder& in, std::uint8_t connecting) {
  HelloPacket hello;
  hello.connecting = connecting == 1;
  hello.loops = in.u32();
  hello.loop = in.u32();
  hello.index = in.u32();
  auto token = in.raw(hello.token.size());
  std::copy(token.begin(), token.end(), hello.token.begin());
  return hello;
}

Result<Packet> decode_body(Decoder& in, Type type, std::uint8_t small) {
  switch (type) {
    case Type::kHello: {
      auto hello = decode_hello(in, small);
      if (small > 1 || hello.loops == 0 || hello.loops > kMaxLoops || hello.loop >= hello.loops)
        return fail(Code::kInvalidArgument, "a hello with {} loops, on loop {}", hello.loops,
                    hello.loop);
      return Packet(hello);
    }
    case Type::kRefusal: {
      if (small == 0 || small > 16)
        return fail(Code::kInvalidArgument, "a refusal with code {}", small);
      return Packet(RefusalPacket{static_cast<Code>(small), std::string(in.string(kMaxText))});
    }
    case Type::kBlock: {
      BlockPacket block{in.u32(), in.u64()};
      return Packet(block);
    }
    case Type::kDrop:
      return Packet(DropPacket{in.u32()});
    case Type::kRevoke: {
      RevokePacket revoke{in.u64(), in.u64()};
      return Packet(revoke);
    }
    case Type::kRevoked:
      return Packet(RevokedPacket{in.u64()});
  }
  return fail(Code::kInvalidArgument, "a packet of unknown type {}", static_cast<int>(type));
}

}  // namespace

Result<Offer> Offer::of_this_process(std::string socket_name) {
  Offer offer;
  offer.socket_name = std::move(socket_name);
  offer.boot_id = FERRY_TRY(read_boot_id());
  offer.net_space = FERRY_TRY(space("/proc/self/ns/net"));
  offer.pid_space = FERRY_TRY(space("/proc/self/ns/pid"));
  offer.uid = ::geteuid();
  offer.pid = ::getpid();
  return offer;
}

std::vector<std::byte> Offer::encode() const {
  std::vector<std::byte> bytes;
  Encoder(bytes)
      .u16(kWireVersion)
      .string(socket_name)
      .string(boot_id)
      .u64(net_space)
      .u64(pid_space)
      .u32(uid)
      .u32(static_cast<std::uint32_t>(pid));
  return bytes;
}

Result<Offer> Offer::decode(std::span<const std::byte> bytes) {
  Decoder in(bytes);
  auto version = in.u16();
  if (in.ok() && version != kWireVersion)
    return fail(Code::kFailedPrecondition,
                "the peer's shared memory speaks version {}, this build {}; use the same release",
                version, kWireVersion);
  Offer offer;
  offer.socket_name = std::string(in.string(kMaxName));
  offer.boot_id = std::string(in.string(64));
  offer.net_space = in.u64();
  offer.pid_space = in.u64();
  offer.uid = in.u32();
  offer.pid = static_cast<std::int32_t>(in.u32());
  FERRY_TRY(in.finish("offer of shared memory"));
  if (offer.socket_name.empty())
    return fail(Code::kInvalidArgument, "an offer of shared memory without a socket name");
  return offer;
}

std::vector<std::byte> encode(const Packet& packet) {
  std::vector<std::byte> bytes;
  Encoder out(bytes);
  std::visit(Writer{out}, packet);
  return bytes;
}

Result<Packet> decode(std::span<const std::byte> bytes) {
  Decoder in(bytes);
  auto type = in.u8();
  auto small = in.u8();
  auto version = in.u16();
  if (!in.ok()) return fail(Code::kInvalidArgument, "a packet of {} bytes", bytes.size());
  if (version != kWireVersion)
    return fail(Code::kFailedPrecondition, "a packet of version {}, not {}", version, kWireVersion);
  auto packet = FERRY_TRY(decode_body(in, static_cast<Type>(type), small));
  FERRY_TRY(in.finish("packet of shared memory"));
  return packet;
}

}  // namespace ferry::fabric::shm
