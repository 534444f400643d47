#include <utility>

#include "ferry/base/copy.h"
#include "ferry/mail/mail_places_internal.h"

namespace ferry::mail {

namespace {

// A copy of so many bytes would drive everything else out of the caches, itself included.
constexpr std::uint64_t kStreamed = std::uint64_t{6} << 20;
constexpr std::uint64_t kLeastStreamed = 4096;  // of a part: its ends are copied as usual

}  // namespace

MailCopies lay_out_copies(MailParts parts, std::vector<MailPlace>& places) {
  MailCopies copies;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].how != MailPlace::How::kCopy) continue;
    places[i].offset = copies.span;
    copies.span = align_up(copies.span + parts[i].size(), MailLimits::kAlign);
    copies.bytes += parts[i].size();
    ++copies.parts;
  }
  return copies;
}

void copy_parts(const landing::BufferPool::Buffer& buffer, MailParts parts,
                const MailCopies& copies, std::vector<MailPlace>& places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].how != MailPlace::How::kCopy) continue;
    places[i].remote = buffer.remote;
    const auto& part = parts[i];
    if (part.empty()) continue;
    const bool streaming = copies.bytes >= kStreamed && part.size() >= kLeastStreamed;
    copy_with(buffer.bytes.data() + places[i].offset, part.data(), part.size(), streaming);
  }
}

Status announce_places(const MailPath& path, MailOutgoing& out,
                       const std::vector<MailPlace>& places) {
  out.announcement.sizes.clear();
  for (const auto& part : out.parts) out.announcement.sizes.push_back(part.size());
  auto& pieces = out.announcement.pieces;
  pieces.clear();
  bool after_copy = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto place = places[i];
    const bool copy = place.how == MailPlace::How::kCopy;
    if (copy && after_copy) {
      ++pieces.back().parts;
      continue;
    }
    after_copy = copy;
    if (place.how == MailPlace::How::kRegister) {
      auto* data = const_cast<std::byte*>(out.parts[i].data());  // peers may only read it
      auto region = FERRY_TRY(
          path.device.register_memory({data, out.parts[i].size()}, fabric::Rights::kRead));
      place.remote = FERRY_TRY(path.device.grant(region, fabric::Rights::kRead, path.channel));
      out.regions.push_back(std::move(region));
    }
    pieces.push_back({place.remote, place.offset, 1});
  }
  out.announcement.mappable = out.regions.empty();
  return {};
}

}  // namespace ferry::mail
