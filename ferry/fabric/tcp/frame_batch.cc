// Data path.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "ferry/fabric/tcp/frame_batch_internal.h"

namespace ferry::fabric::tcp {

namespace {
// Stands in for bytes that were promised before their grant was revoked. Never written: it costs
// address space alone.
std::byte zeros[kMaxPart];
}  // namespace

ssize_t FrameBatch::send(int socket, std::uint64_t& bytes) {
  if (offset_ == 0 && bytes_ <= kFlat && !has_read_part()) {
    // Laying out tiny frames flat costs less than a call that gathers parts.
    std::array<std::byte, kFlat> flat;
    for (std::size_t i = 0; i < count_; ++i) {
      const Frame& tiny = frame(i);
      std::memcpy(flat.data() + bytes, &tiny.header, kHeaderBytes);
      if (tiny.length != 0)
        std::memcpy(flat.data() + bytes + kHeaderBytes, tiny.payload, tiny.length);
      bytes += tiny.total();
    }
    return ::send(socket, flat.data(), bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  std::array<iovec, 2 * kMost> parts;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = gather(parts, bytes);
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool FrameBatch::has_read_part() {
  for (std::size_t i = 0; i < count_; ++i)
    if (frame(i).header.kind() == FrameType::kReadPart) return true;
  return false;
}

std::size_t FrameBatch::gather(std::array<iovec, 2 * kMost>& out, std::uint64_t& bytes) {
  std::size_t parts = 0;
  for (std::size_t i = 0; i < count_ && bytes < kBurst; ++i) {
    if (frame(i).header.kind() == FrameType::kReadPart) withdraw_revoked(i);
    Frame& next = frame(i);
    std::uint64_t skip = i == 0 ? offset_ : 0;
    if (skip < kHeaderBytes) {
      out[parts++] = {reinterpret_cast<std::byte*>(&next.header) + skip, kHeaderBytes - skip};
      bytes += kHeaderBytes - skip;
      skip = kHeaderBytes;
    }
    skip -= kHeaderBytes;
    auto take = std::min(next.length - skip, kBurst);
    if (take == 0) continue;
    out[parts++] = {const_cast<std::byte*>(next.payload) + skip, take};
    bytes += take;
  }
  return parts;
}

void FrameBatch::withdraw_revoked(std::size_t index) {
  Frame& part = frame(index);
  if (part.payload == zeros || grants_.stands(part.header.key, part.header.epoch)) return;
  // The length is promised: zeros keep it. What follows says that they are not the bytes.
  part.payload = zeros;
  for (std::size_t i = index + 1; i < count_; ++i) {
    Frame& later = frame(i);
    if (later.header.kind() != FrameType::kReadEnd || later.header.id != part.header.id) continue;
    later.header.type = static_cast<std::uint8_t>(FrameType::kRefusal);
    later.header.code = static_cast<std::uint16_t>(Code::kFailedPrecondition);
  }
}

std::uint64_t FrameBatch::advance(std::uint64_t bytes) {
  std::uint64_t sent = 0;
  while (bytes != 0) {
    Frame& front = frame(0);
    auto left = front.total() - offset_;
    if (bytes < left) {
      offset_ += bytes;
      break;
    }
    bytes -= left;
    offset_ = 0;
    bytes_ -= front.total();
    if (is_request(front.header.kind())) sent = front.header.id;
    front.op = nullptr;
    first_ = (first_ + 1) % kMost;
    --count_;
  }
  return sent;
}

void FrameBatch::blank(std::size_t index) {
  Frame& given = frame(index);
  bytes_ -= given.length;
  given.header.type = static_cast<std::uint8_t>(FrameType::kNop);
  given.header.bits = 0;
  given.header.length = 0;
  given.payload = nullptr;
  given.length = 0;
}

void FrameBatch::clear() {
  count_ = 0;
  offset_ = 0;
  bytes_ = 0;
}

}  // namespace ferry::fabric::tcp
