#include <sys/socket.h>

#include <algorithm>

#include "ferry/bootstrap/frame.h"
#include "ferry/fabric/outbox_internal.h"

namespace ferry::fabric {

namespace {
constexpr std::size_t kKept = 4096;  // of an empty outbox: the next frames need no allocation
constexpr std::size_t kMostKeptSent = 16384;
}  // namespace

void Outbox::append(std::uint16_t type, std::uint64_t id, std::span<const std::byte> payload,
                    bool answer) {
  const auto begin = sent_ever_ + unsent();
  bootstrap::append_frame(bytes_, type, id, payload);
  const auto end = sent_ever_ + unsent();
  total_.fetch_add(end - begin, std::memory_order_relaxed);
  if (!answer) return;
  answer_bytes_ += end - begin;
  if (!answers_.empty() && answers_.back().end == begin) {
    answers_.back().end = end;
  } else {
    answers_.push_back({begin, end});
  }
}

Status Outbox::flush(int socket) {
  while (!empty()) {
    auto sent = ::send(socket, bytes_.data() + sent_, unsent(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) return fail_errno(errno, "sending on a control connection");
    sent_ += static_cast<std::size_t>(sent);
    sent_ever_ += static_cast<std::uint64_t>(sent);
    total_.fetch_sub(static_cast<std::size_t>(sent), std::memory_order_relaxed);
  }
  forget_sent_answers();
  if (empty()) {
    clear();
  } else if (sent_ >= std::min(unsent(), kMostKeptSent)) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(sent_));
    sent_ = 0;
  }
  return {};
}

void Outbox::forget_sent_answers() {
  while (!answers_.empty() && answers_.front().begin < sent_ever_) {
    auto& first = answers_.front();
    const auto left = std::min(first.end, sent_ever_);
    answer_bytes_ -= left - first.begin;
    first.begin = left;
    if (first.begin == first.end) answers_.pop_front();
  }
}

void Outbox::clear() {
  total_.fetch_sub(unsent(), std::memory_order_relaxed);
  bytes_.clear();
  sent_ = 0;
  answers_.clear();
  answer_bytes_ = 0;
  if (bytes_.capacity() > kKept) std::vector<std::byte>().swap(bytes_);
}

}  // namespace ferry::fabric
