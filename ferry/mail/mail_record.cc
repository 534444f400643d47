#include <algorithm>
#include <cstring>

#include "ferry/mail/mail_record_internal.h"

namespace ferry::mail {

namespace {

constexpr std::uint32_t kMailMagic = 0x314C4D46;  // "FML1"
constexpr std::size_t kMailLandingAt = 40;
constexpr std::size_t kMailWordsAt = kMailLandingAt + fabric::RemoteRegion::kWireBytes;
static_assert(kMailWordsAt + fabric::RemoteRegion::kWireBytes == MailHello::kWireBytes);

template <class T>
void mail_put(std::byte* to, std::size_t at, const T& value) {
  std::memcpy(to + at, &value, sizeof value);
}
template <class T>
T mail_get(std::span<const std::byte> from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}
// Of memory that a peer can write: one load, which no compiler repeats.
template <class T>
T load_once(const std::byte* from) {
  return __atomic_load_n(reinterpret_cast<const T*>(from), __ATOMIC_RELAXED);
}

Status check_mail_hello(const MailHello& hello) {
  auto layout = FERRY_TRY(landing::Layout::of(hello.slots, hello.body));
  if (hello.body < kLeastMailSlot || hello.body > UINT32_MAX || hello.body % 64 != 0)
    return fail(Code::kInvalidArgument, "a mailbox with slots of {} bytes", hello.body);
  if (hello.nonce == 0 || hello.rendezvous == 0 || hello.rendezvous > MailLimits::kRendezvous)
    return fail(Code::kInvalidArgument, "a mailbox with {} rendezvous", hello.rendezvous);
  if (layout.bytes() > hello.landing.length ||
      hello.rendezvous * landing::Layout::kLine > hello.words.length)
    return fail(Code::kOutOfRange, "a mailbox whose slots or words do not fit into their regions");
  return {};
}

}  // namespace

MailHello::Wire MailHello::to_wire() const {
  Wire wire{};
  mail_put(wire.data(), 0, kMailMagic);
  mail_put(wire.data(), 4, static_cast<std::uint32_t>(spins ? 1 : 0));
  mail_put(wire.data(), 8, slots);
  mail_put(wire.data(), 12, rendezvous);
  mail_put(wire.data(), 16, body);
  mail_put(wire.data(), 24, nonce);
  mail_put(wire.data(), 32, most_bytes);
  mail_put(wire.data(), kMailLandingAt, landing.to_wire());
  mail_put(wire.data(), kMailWordsAt, words.to_wire());
  return wire;
}

Result<MailHello> MailHello::from_wire(std::span<const std::byte> wire) {
  if (wire.size() != kWireBytes || mail_get<std::uint32_t>(wire, 0) != kMailMagic)
    return fail(Code::kInvalidArgument, "these {} bytes do not open a mailbox", wire.size());
  MailHello hello;
  hello.spins = mail_get<std::uint32_t>(wire, 4) == 1;
  hello.slots = mail_get<std::uint32_t>(wire, 8);
  hello.rendezvous = mail_get<std::uint32_t>(wire, 12);
  hello.body = mail_get<std::uint64_t>(wire, 16);
  hello.nonce = mail_get<std::uint64_t>(wire, 24);
  hello.most_bytes = mail_get<std::uint64_t>(wire, 32);
  constexpr auto kRegion = fabric::RemoteRegion::kWireBytes;
  hello.landing = FERRY_TRY(fabric::RemoteRegion::from_wire(wire.subspan(kMailLandingAt, kRegion)));
  hello.words = FERRY_TRY(fabric::RemoteRegion::from_wire(wire.subspan(kMailWordsAt, kRegion)));
  FERRY_TRY(check_mail_hello(hello));
  auto canonical = hello.to_wire();
  if (!std::equal(wire.begin(), wire.end(), canonical.begin()))
    return fail(Code::kInvalidArgument, "the opening of a mailbox has bits that mean nothing");
  return hello;
}

Result<MailWord> MailWord::from_u64(std::uint64_t value) {
  auto state = value & 0xFF;
  auto code = value >> 8 & 0xFF;
  bool refused = state == static_cast<std::uint64_t>(State::kRefused);
  if (state < 1 || state > 3 || code > static_cast<std::uint64_t>(Code::kUnauthenticated) ||
      (code != 0) != refused)
    return fail(Code::kDataLoss, "the word {:#x} of a rendezvous means nothing", value);
  return MailWord{value >> 16, static_cast<State>(state), static_cast<Code>(code)};
}

Result<MailBatch> MailBatch::load(std::span<const std::byte> body) {
  if (body.size() < kBytes) return fail(Code::kDataLoss, "a slot of {} bytes", body.size());
  auto word = load_once<std::uint64_t>(body.data());
  MailBatch batch{static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
  if (batch.bytes > body.size() - kBytes || batch.bytes % 8 != 0 || batch.records == 0 ||
      batch.records > batch.bytes / MailHead::kBytes)
    return fail(Code::kDataLoss, "a batch of {} records in {} bytes of a slot of {}", batch.records,
                batch.bytes, body.size());
  return batch;
}

void MailBatch::store(std::byte* to) const {
  mail_put(to, 0, bytes | static_cast<std::uint64_t>(records) << 32);
}

Result<MailHead> MailHead::load(std::span<const std::byte> from) {
  if (from.size() < kBytes)
    return fail(Code::kDataLoss, "{} bytes where a record should be", from.size());
  auto word = load_once<std::uint64_t>(from.data());
  auto kind = static_cast<std::uint32_t>(word);
  MailHead head{static_cast<MailKind>(kind), static_cast<std::uint32_t>(word >> 32),
                load_once<std::uint64_t>(from.data() + 8)};
  if (kind < 1 || kind > 2 || head.parts > MailLimits::kParts || head.body % 8 != 0 ||
      head.body > from.size() - kBytes)
    return fail(Code::kDataLoss,
                "a record of kind {} with {} parts and {} bytes, where {} are left", kind,
                head.parts, head.body, from.size() - kBytes);
  return head;
}

void MailHead::store(std::byte* to) const {
  mail_put(to, 0, static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(parts) << 32);
  mail_put(to, 8, body);
}

std::uint64_t eager_record_bytes(MailParts parts) {
  auto bytes = MailHead::kBytes + align_up(parts.size() * 4, 8);
  for (const auto& part : parts) bytes += align_up(part.size(), 8);
  return bytes;
}

std::uint64_t store_eager(std::byte* to, MailParts parts) {
  auto* size_at = to + MailHead::kBytes;
  auto* part_at = size_at + align_up(parts.size() * 4, 8);
  for (const auto& part : parts) {
    mail_put(size_at, 0, static_cast<std::uint32_t>(part.size()));
    if (!part.empty()) std::memcpy(part_at, part.data(), part.size());
    size_at += 4;
    part_at += align_up(part.size(), 8);
  }
  auto bytes = static_cast<std::uint64_t>(part_at - to);
  MailHead{MailKind::kEager, static_cast<std::uint32_t>(parts.size()), bytes - MailHead::kBytes}
      .store(to);
  return bytes;
}

Status load_eager(const MailHead& head, std::span<const std::byte> body,
                  std::vector<std::span<const std::byte>>& parts) {
  parts.clear();
  std::uint64_t at = align_up(head.parts * std::uint64_t{4}, 8);
  for (std::uint32_t i = 0; i < head.parts && at <= head.body; ++i) {
    std::uint64_t size = load_once<std::uint32_t>(body.data() + i * std::size_t{4});
    if (size <= head.body - at) parts.push_back(body.subspan(at, size));
    at += align_up(size, 8);
  }
  if (at == head.body && parts.size() == head.parts) return {};
  return fail(Code::kDataLoss, "a message of {} parts whose sizes do not add up to its {} bytes",
              head.parts, head.body);
}

void Announcement::store(std::byte* to) const {
  MailHead head{MailKind::kAnnouncement, static_cast<std::uint32_t>(sizes.size()),
                record_bytes() - MailHead::kBytes};
  head.store(to);
  to += MailHead::kBytes;
  mail_put(to, 0, number);
  mail_put(to, 8, index);
  mail_put(to, 12, static_cast<std::uint32_t>(pieces.size()));
  mail_put(to, 16, static_cast<std::uint64_t>(mappable ? 1 : 0));
  to += kFixed;
  if (!sizes.empty()) std::memcpy(to, sizes.data(), sizes.size() * 8);
  to += sizes.size() * 8;
  for (const auto& piece : pieces) {
    mail_put(to, 0, piece.region.to_wire());
    mail_put(to, 32, piece.offset);
    mail_put(to, 40, static_cast<std::uint64_t>(piece.parts));
    to += kPieceBytes;
  }
}

namespace {

// The piece holds the parts from `first` on that it says it does.
Result<Announcement::Piece> load_piece(std::span<const std::byte> wire, const Announcement& of,
                                       std::uint32_t first) {
  Announcement::Piece piece;
  auto region = fabric::RemoteRegion::from_wire(wire.first(fabric::RemoteRegion::kWireBytes));
  if (!region) return fail(Code::kDataLoss, "{}", region.error().message());
  piece.region = *region;
  piece.offset = mail_get<std::uint64_t>(wire, 32);
  auto parts = mail_get<std::uint64_t>(wire, 40);
  if (parts == 0 || parts > of.sizes.size() - first)
    return fail(Code::kDataLoss, "an announcement with a piece of {} parts", parts);
  piece.parts = static_cast<std::uint32_t>(parts);
  auto length = piece.region.length;
  if (piece.offset > length || of.span_of(first, piece.parts) > length - piece.offset)
    return fail(Code::kDataLoss, "an announcement of more bytes than the {} of its region", length);
  return piece;
}

}  // namespace

Status Announcement::load(const MailHead& head, std::span<const std::byte> body) {
  if (body.size() < kFixed)
    return fail(Code::kDataLoss, "an announcement of {} bytes", body.size());
  number = mail_get<std::uint64_t>(body, 0);
  index = mail_get<std::uint32_t>(body, 8);
  auto count = mail_get<std::uint32_t>(body, 12);
  auto bits = mail_get<std::uint64_t>(body, 16);
  if (bits > 1 || count == 0 || count > MailLimits::kPieces || head.parts > MailLimits::kParts ||
      body.size() != kFixed + head.parts * std::uint64_t{8} + count * kPieceBytes)
    return fail(Code::kDataLoss, "an announcement of {} parts in {} pieces in {} bytes", head.parts,
                count, body.size());
  mappable = bits == 1;
  sizes.resize(head.parts);
  if (head.parts > 0) std::memcpy(sizes.data(), body.data() + kFixed, head.parts * std::size_t{8});
  for (auto size : sizes)
    if (size > MailLimits::kBytes)
      return fail(Code::kDataLoss, "an announcement of a part of {} bytes", size);
  pieces.clear();
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    auto at = kFixed + head.parts * std::uint64_t{8} + i * kPieceBytes;
    pieces.push_back(FERRY_TRY(load_piece(body.subspan(at, kPieceBytes), *this, first)));
    first += pieces.back().parts;
  }
  if (first == head.parts) return {};
  return fail(Code::kDataLoss, "an announcement of {} parts whose pieces hold {}", head.parts,
              first);
}

std::uint64_t Announcement::total() const {
  std::uint64_t bytes = 0;
  for (auto size : sizes) bytes += size;
  return bytes;
}

std::uint64_t Announcement::span_of(std::uint32_t first, std::uint32_t count) const {
  std::uint64_t bytes = 0;
  for (auto i = first; i < first + count; ++i)
    bytes = align_up(bytes, MailLimits::kAlign) + sizes[i];
  return bytes;
}

}  // namespace ferry::mail
