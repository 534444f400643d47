#include "ferry/base/copy.h"
#include "ferry/mail/mail_core_internal.h"

// Memory of large messages that the peer reads: given out, copied to, or registered for one send.

namespace ferry::mail {

namespace {

// A copy of so many bytes would drive everything else out of the caches, itself included.
constexpr std::uint64_t kStreamed = std::uint64_t{6} << 20;
constexpr std::uint64_t kLeastStreamed = 4096;  // of a part: its ends are copied as usual

}  // namespace

// The parts that lie in buffers of ours keep those from being used anew.
void MailCore::share_all(MailOutgoing& out) {
  for (const auto& part : out.parts) {
    if (auto* found = shared_at(part)) {
      ++found->shares;
      out.buffers.push_back(found->buffer.index);
    } else if (const auto index = room_.shared().share(part)) {
      out.room_buffers.push_back(*index);
    }
  }
}

MailCore::Shared* MailCore::shared_at(std::span<const std::byte> bytes) {
  if (bytes.empty()) return nullptr;
  for (auto& shared : shared_) {
    const auto* begin = shared.buffer.bytes.data();
    if (shared.shares != 0 && bytes.data() >= begin &&
        bytes.data() + bytes.size() <= begin + shared.buffer.bytes.size())
      return &shared;
  }
  return nullptr;
}

void MailCore::unshare(std::size_t index) {
  if (--shared_[index].shares != 0) return;
  given_bytes_.fetch_sub(std::exchange(shared_[index].given, 0), std::memory_order_relaxed);
  changed_ = true;  // somebody may wait for it
  pool_.give(index);
}

Result<landing::BufferPool::Buffer> MailCore::share_new(std::uint64_t bytes, MailOutgoing* out) {
  auto buffer = FERRY_TRY(pool_.take(bytes));
  MailGuard guard(*this);
  // What broke meanwhile may have given back what the peer still looks at.
  if (broken_) {
    pool_.give(buffer.index);
    return tl::unexpected<Error>(*broken_);
  }
  if (shared_.size() <= buffer.index) shared_.resize(buffer.index + 1);
  shared_[buffer.index] = {buffer, 1, out == nullptr ? bytes : 0};
  if (out != nullptr) out->buffers.push_back(buffer.index);
  return buffer;
}

Result<std::optional<landing::BufferPool::Buffer>> MailCore::allocate(std::uint64_t bytes) {
  {
    MailGuard guard(*this);
    progress_locked();  // what the peer has let go of meanwhile can be used again
    // Also since the peer may still look at what was given back when the mailbox broke.
    if (broken_) return tl::unexpected<Error>(*broken_);
    if (!has_room(given_bytes_, bytes)) return std::optional<landing::BufferPool::Buffer>();
    given_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  auto buffer = share_new(bytes, nullptr);
  if (!buffer) given_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return FERRY_TRY(std::move(buffer));
}

Result<landing::BufferPool::Buffer> MailCore::allocate_when_room(std::uint64_t bytes,
                                                                 Deadline deadline,
                                                                 fabric::WaitMode mode) {
  auto room = [this, bytes] {
    return has_room(given_bytes_, bytes) || is_broken_.load(std::memory_order_relaxed);
  };
  for (bool last = false;;) {
    auto buffer = FERRY_TRY(allocate(bytes));
    if (buffer) return *buffer;
    if (last)
      return fail(
          deadline.ns() == 0 ? Code::kResourceExhausted : Code::kDeadlineExceeded,
          "{} bytes for messages to {} are in use, and {} more would be over the limit of {}",
          given_bytes_.load(std::memory_order_relaxed), channel_.peer_endpoint(), bytes,
          options_.send_bytes);
    last = deadline.ns() == 0 || !await(room, deadline, mode);
  }
}

void MailCore::drop_buffer(std::size_t index) {
  MailGuard guard(*this);
  unshare(index);
}

// Small parts are as well copied: a piece of their own costs more.
std::optional<RoomMemory::Found> MailCore::find_in_room(std::span<const std::byte> part) {
  constexpr std::size_t kWorthAPiece = 32 << 10;
  if (part.size() < kWorthAPiece) return std::nullopt;
  return room_.shared().find(part);
}

// How each part gets to where the peer can read it. Neighbours that are copied are one piece.
std::vector<MailCore::Place> MailCore::find_places(MailParts parts) {
  std::vector<Place> places(parts.size());
  std::size_t pieces = 0;
  bool after_copy = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& part = parts[i];
    if (const auto* found = shared_at(part)) {
      places[i].how = Place::How::kShared;
      places[i].remote = found->buffer.remote;
      places[i].offset = static_cast<std::uint64_t>(part.data() - found->buffer.bytes.data());
    } else if (const auto room = find_in_room(part)) {
      places[i].how = Place::How::kShared;
      places[i].remote = room->remote;
      places[i].offset = room->offset;
    } else if (part.size() > tuning_.copy_up_to()) {
      places[i].how = Place::How::kRegister;
    }
    bool copy = places[i].how == Place::How::kCopy;
    pieces += copy && after_copy ? 0 : 1;
    after_copy = copy;
  }
  if (pieces > MailLimits::kPieces)
    for (auto& place : places) place.how = Place::How::kCopy;
  return places;
}

Status MailCore::prepare(MailOutgoing& out, std::vector<Place>& places) {
  auto& sizes = out.announcement.sizes;
  sizes.clear();
  for (const auto& part : out.parts) sizes.push_back(part.size());
  FERRY_TRY(copy_parts(out, places));
  return name_pieces(out, places);
}

// Copies what is to be copied into one buffer; neighbours lie there as they will at the receiver.
Status MailCore::copy_parts(MailOutgoing& out, std::vector<Place>& places) {
  std::uint64_t bytes = 0;
  std::uint64_t copied = 0;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].how != Place::How::kCopy) continue;
    places[i].offset = bytes;
    bytes = align_up(bytes + out.parts[i].size(), MailLimits::kAlign);
    copied += out.parts[i].size();
    ++count;
  }
  if (count == 0) return {};
  auto buffer = FERRY_TRY(share_new(bytes, &out));
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].how != Place::How::kCopy) continue;
    places[i].remote = buffer.remote;
    const auto& part = out.parts[i];
    if (part.empty()) continue;
    const bool streaming = copied >= kStreamed && part.size() >= kLeastStreamed;
    copy_with(buffer.bytes.data() + places[i].offset, part.data(), part.size(), streaming);
  }
  MailGuard guard(*this);
  stats_.copies += count;
  stats_.copied_bytes += copied;
  return {};
}

Status MailCore::name_pieces(MailOutgoing& out, const std::vector<Place>& places) {
  auto& pieces = out.announcement.pieces;
  pieces.clear();
  bool after_copy = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto place = places[i];
    bool copy = place.how == Place::How::kCopy;
    if (copy && after_copy) {
      ++pieces.back().parts;
      continue;
    }
    after_copy = copy;
    if (place.how == Place::How::kRegister) {
      auto* data = const_cast<std::byte*>(out.parts[i].data());  // peers may only read it
      auto region =
          FERRY_TRY(device_.register_memory({data, out.parts[i].size()}, fabric::Rights::kRead));
      place.remote = FERRY_TRY(device_.grant(region, fabric::Rights::kRead, channel_));
      out.regions.push_back(std::move(region));
    }
    pieces.push_back({place.remote, place.offset, 1});
  }
  out.announcement.mappable = out.regions.empty();
  MailGuard guard(*this);
  stats_.registered += out.regions.size();
  return {};
}

}  // namespace ferry::mail
