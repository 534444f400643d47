// Data path.
#include <sched.h>

#include "ferry/base/waiting.h"
#include "ferry/fabric/shm/in_flight_internal.h"
#include "ferry/fabric/shm/large_copies_internal.h"

namespace ferry::fabric::shm {

namespace {

// From here on it pays to wake a sleeping receiver to help, and the team.
constexpr std::uint64_t kWakeFrom = 4 * 1024 * 1024;
constexpr std::uint64_t kTeamFrom = 1024 * 1024;
// Larger than the caches: the destination would push out everything else.
constexpr std::uint64_t kStreamFrom = 8 * 1024 * 1024;
constexpr std::uint32_t kSharedPiece = 32 * 1024;
constexpr std::uint32_t kLargePiece = 256 * 1024;
constexpr std::uint32_t kPiecesAtOnce = 4;

Share share_of(std::byte* to, const std::byte* from, std::uint64_t length) {
  if (length < kStreamFrom) return Share{to, from, length, kSharedPiece, false};
  std::uint64_t piece = kLargePiece;
  while (length / piece >= Share::kMostPieces) piece *= 2;
  return Share{to, from, length, static_cast<std::uint32_t>(piece), true};
}

}  // namespace

LargeCopies::Outcome LargeCopies::copy_large(const Request& request, std::byte* to) {
  Share share = share_of(to, request.local, request.length);
  const auto* block = context_.find_block(request.local, request.length);
  bool shareable = context_.options->shm_help && block != nullptr && block->fd >= 0;
  if (shareable && job_token_.try_take()) {
    const auto outcome = copy_shared(request, share, *block);
    job_token_.give_back();
    return outcome;
  }
  copy_alone(share);
  return Outcome::kCopied;
}

void LargeCopies::copy_alone(const Share& share) {
  Job job;
  auto generation = open_job(job, {});
  Team::Help team(share.length >= kTeamFrom ? team_ : nullptr, job.ticket, generation, share);
  copy_pieces(job.ticket, generation, share);
  team.end();
}

// The writer never waits for a receiver that does not help, only for pieces that one has claimed.
// Those it must wait for: copied again by the writer, they could be overwritten with stale bytes
// by the late helper after the flag is seen and the memory used for something else.
LargeCopies::Outcome LargeCopies::copy_shared(const Request& request, const Share& share,
                                              const memory::Block& block) {
  JobView what;
  what.length = request.length;
  what.key = request.remote.key;
  what.epoch = request.remote.epoch;
  what.offset = request.offset;
  what.piece = share.piece;
  what.streaming = share.streaming;
  what.source_block = block.id;
  what.source_offset = static_cast<std::uint64_t>(request.local - block.bytes.data());
  Job& job = outward_;
  auto generation = open_job(job, what);
  peer_.ask_for_help(peer_loop_, peer_index_, request.length >= kWakeFrom);
  Team::Help team(request.length >= kTeamFrom ? team_ : nullptr, job.ticket, generation, share);
  auto copied = copy_pieces(job.ticket, generation, share);
  copied += team.end();
  return await_helpers(generation, share.pieces() - copied, request.deadline);
}

LargeCopies::Outcome LargeCopies::await_helpers(std::uint32_t generation, std::uint32_t claimed,
                                                Deadline deadline) {
  if (claimed == 0) return Outcome::kCopied;
  if (deadline.ns() == 0) deadline = Deadline::after(context_.options->operation_deadline);
  for (unsigned spins = 1;; ++spins) {
    if (finished_by_helpers(outward_, generation) >= claimed) return Outcome::kCopied;
    cpu_relax();
    if (spins % waiting::kHelperPausesPerLook != 0) continue;
    if (!up_.load(std::memory_order_acquire)) return Outcome::kLaneDown;
    if (spins % waiting::kHelperPausesPerYield != 0) continue;
    sched_yield();
    if (deadline.expired()) return Outcome::kHelperLate;
  }
}

void LargeCopies::copy_out(const Request& request, const std::byte* from) {
  if (request.length < kTeamFrom) {
    std::memcpy(request.local, from, request.length);
    return;
  }
  copy_alone(share_of(request.local, from, request.length));
}

int LargeCopies::help_on_loop() {
  auto job = look_at_job(inward_);
  helping_ = job.has_value() && help_with(*job);
  return helping_ ? 1 : 0;
}

// Everything in the job is the peer's word: the grant is checked as for any request, and the source
// is read-only memory of the peer.
bool LargeCopies::help_with(const JobView& job) {
  InFlight::Section section(InFlight::Memory::kBoth);
  RemoteRegion remote;
  remote.key = job.key;
  remote.epoch = job.epoch;
  auto grant =
      context_.grants->check(remote, job.offset, job.length, Rights::kWrite, peer_.number());
  if (!grant) return false;
  auto source = peer_.source(job.source_block);
  if (job.source_offset > source.size() || job.length > source.size() - job.source_offset)
    return false;
  Share share{
      reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(grant->address)) + job.offset,
      source.data() + job.source_offset, job.length, job.piece, job.streaming};
  return help(inward_, job, share, kPiecesAtOnce) != 0;
}

}  // namespace ferry::fabric::shm
