// Data path.
#pragma once

#include <atomic>
#include <cstring>

#include "ferry/base/spin.h"
#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/shm/job_internal.h"
#include "ferry/fabric/shm/layout_internal.h"
#include "ferry/fabric/shm/peer_internal.h"
#include "ferry/fabric/shm/team_internal.h"

namespace ferry::fabric::shm {

// The copies of one lane in mapped memory. Large ones are cut into pieces, which the provider's
// team, and a receiver that waits for them, copy too; and this end helps its peer in the same way.
// Thread-safe; help_on_loop() and is_helping() belong to the loop. What touches the peer's memory
// is called within an InFlight::Section.
class LargeCopies {
 public:
  // `team` may be null; `up` is whether the lane is.
  LargeCopies(const ProviderContext& context, Team* team, Peer& peer, std::uint32_t peer_loop,
              std::uint32_t peer_index, Job& outward, Job& inward, const std::atomic<bool>& up)
      : context_(context),
        team_(team),
        peer_(peer),
        peer_loop_(peer_loop),
        peer_index_(peer_index),
        outward_(outward),
        inward_(inward),
        up_(up) {}

  // kHelperLate: the peer has claimed a piece and did not copy it until the request's deadline. It
  // may still write, so the lane must be given up: closing the peer's end waits for it.
  enum class Outcome : std::uint8_t { kCopied, kLaneDown, kHelperLate };
  // Of a write: from the local bytes.
  Outcome copy_in(const Request& request, std::byte* to) {
    if (__builtin_expect(request.length >= kShareFrom, 0)) return copy_large(request, to);
    std::memcpy(to, request.local, request.length);
    return Outcome::kCopied;
  }
  // Of a read: to the local bytes.
  void copy_out(const Request& request, const std::byte* from);

  // Copies a few pieces of a write of the peer's, so that whoever waits here looks at its flag
  // often. Returns how much was done.
  int help_on_loop();
  // Whether a job was seen that may have more pieces.
  bool is_helping() const { return helping_; }

 private:
  // From here on a second core is worth the words that it takes to share.
  static constexpr std::uint64_t kShareFrom = 128 * 1024;
  Outcome copy_large(const Request& request, std::byte* to);
  void copy_alone(const Share& share);
  Outcome copy_shared(const Request& request, const Share& share, const memory::Block& block);
  Outcome await_helpers(std::uint32_t generation, std::uint32_t claimed, Deadline deadline);
  bool help_with(const JobView& job);

  const ProviderContext& context_;
  Team* const team_;
  Peer& peer_;
  const std::uint32_t peer_loop_;
  const std::uint32_t peer_index_;
  Job& outward_;
  Job& inward_;
  const std::atomic<bool>& up_;
  Token job_token_;  // of who describes its copy in outward_
  bool helping_ = false;
};

}  // namespace ferry::fabric::shm
