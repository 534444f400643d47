// Data path.
#include <algorithm>

#include "ferry/base/stall.h"
#include "ferry/fabric/shm/across_internal.h"
#include "ferry/fabric/shm/lane_internal.h"

// Reads from the peer's own memory, which nobody can map: through the ring, or by the kernel.
// Writes to it always go through the ring: only the owner's process stores to memory of its own, so
// only the owner has to stop when it takes the memory back.

namespace ferry::fabric::shm {

namespace {
// Between two of these the deadline and the lane's end are looked at.
constexpr std::uint64_t kPiece = 4 * 1024 * 1024;
}  // namespace

Transfer ShmLane::post_own_read(Request& request) {
  auto& methods = wires_->sender.methods();
  if (methods.choose(request.length) == CopyMethods::Method::kRing) return post_stream(request);
  auto began = now_ns();
  auto copied = read_by_kernel(request);
  if (!copied) return Transfer::failed(copied.error());
  if (!*copied) return post_stream(request);
  methods.took(CopyMethods::Method::kKernel, request.length, now_ns() - began);
  return Transfer::done();
}

// False: the kernel will not do it, and nothing or a part was copied. The owner does not wait for
// this copy when it takes the grant back. So each piece counts only if the grant still stands after
// it was copied; else its bytes may be anything, and the read fails.
Result<bool> ShmLane::read_by_kernel(const Request& request) {
  for (std::uint64_t done = 0; done < request.length;) {
    if (request.deadline.ns() != 0 && request.deadline.expired())
      return fail(Code::kDeadlineExceeded, "{} of {} bytes were copied in time", done,
                  request.length);
    if (!up()) return tl::unexpected<Error>(cause());
    auto piece = std::min(request.length - done, kPiece);
    auto offset = request.offset + done;
    auto grant = FERRY_TRY(peer_->check(request.remote, offset, piece, Rights::kRead));
    stall_for_tests(StallPoint::kReadByKernel);
    auto copied = copy_from_process(peer_->pid(), peer_->mark(), {request.local + done, piece},
                                    grant.address + offset);
    if (!peer_->is_still_valid(request.remote))
      return tl::unexpected<Error>(peer_->why_not(request.remote, offset, piece, Rights::kRead));
    if (copied == 0) {
      wires_->sender.methods().refuse_kernel();
      return false;
    }
    done += copied;
  }
  return true;
}

}  // namespace ferry::fabric::shm
