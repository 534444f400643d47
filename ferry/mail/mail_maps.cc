#include "ferry/mail/mail_maps_internal.h"

namespace ferry::mail {

std::vector<fabric::RemoteRegion> MailMaps::new_regions(const Announcement& announcement) const {
  std::vector<fabric::RemoteRegion> regions;
  for (const auto& piece : announcement.pieces)
    if (!by_key_.contains(piece.region.key)) regions.push_back(piece.region);
  return regions;
}

std::optional<std::span<std::byte>> MailMaps::find(const Announcement::Piece& piece,
                                                   std::uint64_t bytes) const {
  const auto found = by_key_.find(piece.region.key);
  if (found == by_key_.end()) return std::nullopt;
  const auto memory = found->second;
  if (piece.offset > memory.size() || bytes > memory.size() - piece.offset) return std::nullopt;
  return memory.subspan(piece.offset, bytes);
}

bool MailMaps::use_in_place(MailParcel& parcel) const {
  const auto& announcement = parcel.announcement;
  parcel.parts.clear();
  std::uint32_t part = 0;
  for (const auto& piece : announcement.pieces) {
    const auto mapped = find(piece, announcement.span_of(part, piece.parts));
    if (!mapped) return false;
    std::uint64_t at = 0;
    for (std::uint32_t i = 0; i < piece.parts; ++i, ++part) {
      at = align_up(at, MailLimits::kAlign);
      parcel.parts.push_back(mapped->subspan(at, announcement.sizes[part]));
      at += announcement.sizes[part];
    }
  }
  parcel.place = MailParcel::Place::kSender;
  parcel.state = MailParcel::State::kWhole;
  parcel.landed.store(MailParcel::kAllLanded, std::memory_order_release);
  return true;
}

MailMapping MailMaps::begin() {
  if (waiting_.empty()) return {};
  auto* parcel = waiting_.front();
  waiting_.erase(waiting_.begin());
  parcel->busy = true;
  return {parcel, new_regions(parcel->announcement), {}};
}

}  // namespace ferry::mail
