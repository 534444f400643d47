// Data path.
#include <algorithm>

#include "ferry/fabric/shm/job_internal.h"

namespace ferry::fabric::shm {

namespace {
constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint32_t kStopped = 0xffffffff;

// The low half of a ticket counts the pieces claimed from the front (16 bits) and from the back.
constexpr std::uint32_t front(std::uint32_t claimed) { return claimed & 0xffff; }
constexpr std::uint32_t back(std::uint32_t claimed) { return claimed >> 16; }
constexpr bool any_left(std::uint32_t claimed, std::uint64_t pieces) {
  return front(claimed) + back(claimed) < pieces;
}

constexpr std::uint64_t pack(std::uint32_t generation, std::uint32_t low) {
  return (std::uint64_t{generation} << 32) | low;
}
constexpr std::uint32_t high(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
constexpr std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
}  // namespace

// The last job's ticket has no pieces left, so no helper trusts the fields while they change: a
// claim succeeds only on the very ticket that was read before the fields were.
std::uint32_t open_job(Job& job, const JobView& what) {
  std::uint32_t generation = high(job.ticket.load(kRelaxed)) + 1;
  job.ticket.store(pack(generation, kStopped), kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  job.length.store(what.length, kRelaxed);
  job.key.store(what.key, kRelaxed);
  job.offset.store(what.offset, kRelaxed);
  job.source_offset.store(what.source_offset, kRelaxed);
  job.epoch.store(what.epoch, kRelaxed);
  job.source_block.store(what.source_block, kRelaxed);
  job.piece.store(what.piece, kRelaxed);
  job.streaming.store(what.streaming ? 1 : 0, kRelaxed);
  job.finished.store(pack(generation, 0), kRelaxed);
  job.ticket.store(pack(generation, 0), std::memory_order_release);
  return generation;
}

std::uint32_t copy_pieces(std::atomic<std::uint64_t>& ticket, std::uint32_t generation,
                          const Share& share, From from, std::uint32_t most) {
  const std::uint32_t pieces = share.pieces();
  const std::uint64_t step = from == From::kFront ? 1 : 1 << 16;
  most = std::min(most, pieces);  // whatever the other end does to the ticket
  std::uint32_t copied = 0;
  auto seen = ticket.load(kRelaxed);
  while (copied < most && high(seen) == generation && any_left(low(seen), pieces)) {
    if (!ticket.compare_exchange_weak(seen, seen + step, kRelaxed)) continue;
    share.copy(from == From::kFront ? front(low(seen)) : pieces - 1 - back(low(seen)));
    ++copied;
    seen = ticket.load(kRelaxed);
  }
  return copied;
}

std::uint32_t finished_by_helpers(const Job& job, std::uint32_t generation) {
  auto word = job.finished.load(std::memory_order_acquire);
  return high(word) == generation ? low(word) : 0;
}

std::optional<JobView> look_at_job(const Job& job) {
  JobView view;
  view.ticket = job.ticket.load(std::memory_order_acquire);
  view.length = job.length.load(kRelaxed);
  view.piece = job.piece.load(kRelaxed);
  if (view.length == 0 || view.piece == 0) return std::nullopt;
  std::uint64_t pieces = view.length / view.piece + (view.length % view.piece != 0 ? 1 : 0);
  if (pieces > Share::kMostPieces || !any_left(low(view.ticket), pieces)) return std::nullopt;
  view.key = job.key.load(kRelaxed);
  view.offset = job.offset.load(kRelaxed);
  view.source_offset = job.source_offset.load(kRelaxed);
  view.epoch = job.epoch.load(kRelaxed);
  view.source_block = job.source_block.load(kRelaxed);
  view.streaming = job.streaming.load(kRelaxed) != 0;
  std::atomic_thread_fence(std::memory_order_acquire);  // read before a piece is claimed
  return view;
}

// A claim succeeds in the generation that was seen only, so what was read of the job is all its
// own.
std::uint32_t help(Job& job, const JobView& seen, const Share& share, std::uint32_t most) {
  auto copied = copy_pieces(job.ticket, high(seen.ticket), share, From::kBack, most);
  if (copied != 0) job.finished.fetch_add(copied, std::memory_order_release);
  return copied;
}

}  // namespace ferry::fabric::shm
