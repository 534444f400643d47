// Data path.
#include <sys/uio.h>

#include <algorithm>

#include "ferry/fabric/shm/alias_internal.h"
#include "ferry/fabric/shm/in_flight_internal.h"
#include "ferry/fabric/shm/lane_internal.h"

// Copies to and from the peer's own memory, which nobody can map.

namespace ferry::fabric::shm {

namespace {
// A revocation waits for one of these at most.
constexpr std::uint64_t kPiece = 4 * 1024 * 1024;
}  // namespace

Transfer ShmLane::post_own(Request& request, Rights need) {
  auto& ways = wires_->sender.ways();
  if (ways.choose(request.length) == Ways::Way::kRing) return post_stream(request);
  std::optional<Error> error;
  auto began = now_ns();
  auto length = request.length;
  auto how = try_across(request, need, error);
  if (how == Attempt::kFailed) return Transfer::failed(*error);
  if (how == Attempt::kDone || request.length == 0)
    ways.took(Ways::Way::kKernel, length, now_ns() - began);
  if (how != Attempt::kDone) return post_stream(request);
  if (request.flag != nullptr && request.flag->notify) peer_->wake_flag_sleepers();
  return Transfer::done();
}

ShmLane::Attempt ShmLane::try_across(Request& request, Rights need, std::optional<Error>& error) {
  auto copied = copy_across(request, need);
  if (!copied) {
    error = copied.error();
    return Attempt::kFailed;
  }
  if (!*copied) return Attempt::kNotMapped;
  if (request.flag == nullptr) return Attempt::kDone;
  InFlight::Section section;
  const Flag& flag = *request.flag;
  std::byte* word = nullptr;
  if (wires_->sender.busy() || peer_->reach(flag.region, flag.offset, sizeof flag.value,
                                            Rights::kWrite, word) != Reach::kReady) {
    request.length = 0;  // only the flag is left
    return Attempt::kNotMapped;
  }
  raise_flag(reinterpret_cast<std::uint64_t*>(word), flag.region.address + flag.offset, flag.value);
  return Attempt::kDone;
}

// False: the kernel will not do it, and nothing or a part was copied.
Result<bool> ShmLane::copy_across(const Request& request, Rights need) {
  for (std::uint64_t done = 0; done < request.length;) {
    if (request.deadline.ns() != 0 && request.deadline.expired())
      return fail(Code::kDeadlineExceeded, "{} of {} bytes were copied in time", done,
                  request.length);
    if (!up()) return tl::unexpected<Error>(cause());
    auto piece = std::min(request.length - done, kPiece);
    InFlight::Section section;
    auto grant = FERRY_TRY(peer_->check(request.remote, request.offset + done, piece, need));
    iovec here{request.local + done, piece};
    iovec there{
        reinterpret_cast<void*>(static_cast<std::uintptr_t>(grant.address + request.offset + done)),
        piece};
    auto moved = need == Rights::kWrite ? process_vm_writev(peer_->pid(), &here, 1, &there, 1, 0)
                                        : process_vm_readv(peer_->pid(), &here, 1, &there, 1, 0);
    if (moved <= 0) {
      wires_->sender.ways().refuse_kernel();
      return false;
    }
    done += static_cast<std::uint64_t>(moved);
  }
  return true;
}

}  // namespace ferry::fabric::shm
