#include <utility>

#include "ferry/mail/mail_buffers_internal.h"

namespace ferry::mail {

void MailBuffers::add(const landing::BufferPool::Buffer& buffer, MailOutgoing* out,
                      std::uint64_t given) {
  if (shared_.size() <= buffer.index) shared_.resize(buffer.index + 1);
  shared_[buffer.index] = {buffer, 1, given};
  if (out != nullptr) out->buffers.push_back(buffer.index);
}

void MailBuffers::share(MailOutgoing& out) {
  for (const auto& part : out.parts) {
    if (auto* found = find(part)) {
      ++found->shares;
      out.buffers.push_back(found->buffer.index);
    } else if (const auto index = room_.share(part)) {
      out.room_buffers.push_back(*index);
    }
  }
}

MailBuffers::Shared* MailBuffers::find(std::span<const std::byte> bytes) {
  if (bytes.empty()) return nullptr;
  for (auto& shared : shared_) {
    const auto* begin = shared.buffer.bytes.data();
    if (shared.shares != 0 && bytes.data() >= begin &&
        bytes.data() + bytes.size() <= begin + shared.buffer.bytes.size())
      return &shared;
  }
  return nullptr;
}

bool MailBuffers::unshare(std::size_t index) {
  if (--shared_[index].shares != 0) return false;
  signals_.given_bytes.fetch_sub(std::exchange(shared_[index].given, 0), std::memory_order_relaxed);
  pool_.give(index);
  return true;
}

void MailBuffers::unshare_all(MailOutgoing& out) {
  for (auto index : out.buffers) unshare(index);
  out.buffers.clear();
  for (auto index : out.room_buffers) room_.unshare(index, out.wire == MailOutgoing::Wire::kLost);
  out.room_buffers.clear();
}

MailPlace MailBuffers::find_place(std::span<const std::byte> part, std::uint64_t copy_up_to) {
  using How = MailPlace::How;
  if (const auto* found = find(part))
    return {How::kShared, found->buffer.remote,
            static_cast<std::uint64_t>(part.data() - found->buffer.bytes.data())};
  // Small parts are as well copied: a piece of their own costs more.
  constexpr std::size_t kWorthAPiece = 32 << 10;
  if (part.size() >= kWorthAPiece)
    if (const auto room = room_.find(part)) return {How::kShared, room->remote, room->offset};
  return {part.size() > copy_up_to ? How::kRegister : How::kCopy, {}, 0};
}

std::vector<MailPlace> MailBuffers::find_places(MailParts parts, std::uint64_t copy_up_to) {
  std::vector<MailPlace> places(parts.size());
  std::size_t pieces = 0;
  bool after_copy = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i] = find_place(parts[i], copy_up_to);
    const bool copy = places[i].how == MailPlace::How::kCopy;
    pieces += copy && after_copy ? 0 : 1;
    after_copy = copy;
  }
  if (pieces > MailLimits::kPieces)
    for (auto& place : places) place.how = MailPlace::How::kCopy;
  return places;
}

}  // namespace ferry::mail
