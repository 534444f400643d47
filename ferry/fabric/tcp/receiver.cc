// Data path.
#include <algorithm>
#include <cstring>

#include "ferry/fabric/tcp/receiver_internal.h"

namespace ferry::fabric::tcp {

std::size_t Receiver::stage_limit() const { return large_ ? kHeaderBytes : kStage; }

int Receiver::gaps(std::array<iovec, 2>& out) {
  direct_ = 0;
  if (in_frame_) {
    std::byte* to = sink_.place(at_);
    if (to == nullptr) {
      direct_ = std::min<std::uint64_t>(remaining_, dump_.size());
      out[0] = {dump_.data(), direct_};
    } else {
      direct_ = remaining_;
      out[0] = {to, direct_};
    }
    if (direct_ < remaining_) return 1;
    out[1] = {stage_.data(), stage_limit()};
    return 2;
  }
  out[0] = {stage_.data() + end_, stage_limit() - end_};
  return 1;
}

Status Receiver::filled(std::size_t count) {
  if (in_frame_) {
    auto placed = std::min(count, direct_);
    at_ += placed;
    remaining_ -= placed;
    count -= placed;
  }
  end_ += count;
  return digest();
}

Status Receiver::digest() {
  for (;;) {
    if (!in_frame_) {
      if (end_ - begin_ < kHeaderBytes) break;
      FERRY_TRY(take_header());
    }
    auto staged = std::min<std::uint64_t>(remaining_, end_ - begin_);
    if (staged != 0) {
      if (std::byte* to = sink_.place(at_); to != nullptr)
        std::memcpy(to, stage_.data() + begin_, staged);
      begin_ += staged;
      at_ += staged;
      remaining_ -= staged;
    }
    if (remaining_ != 0) break;
    in_frame_ = false;
    FERRY_TRY(sink_.end());
  }
  // What is left is less than one header.
  if (begin_ != 0) std::memmove(stage_.data(), stage_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return {};
}

Status Receiver::take_header() {
  std::memcpy(&header_, stage_.data() + begin_, kHeaderBytes);
  begin_ += kHeaderBytes;
  if (const char* problem = problem_of(header_); problem != nullptr)
    return fail(Code::kInvalidArgument, "the peer sent {} (type {}, length {})", problem,
                header_.type, header_.length);
  at_ = 0;
  remaining_ = payload_of(header_);
  large_ = remaining_ >= kLarge;
  in_frame_ = true;
  return sink_.begin(header_);
}

}  // namespace ferry::fabric::tcp
