// Data path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ferry/base/copy.h"
#include "ferry/fabric/shm/layout_internal.h"

namespace ferry::fabric::shm {

// One large copy cut into pieces that several threads, of one process or of two, claim from a
// common ticket. A piece is claimed once and copied by whoever claimed it.
struct Share {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::uint64_t length = 0;
  std::uint32_t piece = 0;
  bool streaming = false;

  static constexpr std::uint64_t kMostPieces = 0xffff;
  std::uint32_t pieces() const { return static_cast<std::uint32_t>((length + piece - 1) / piece); }
  void copy(std::uint32_t index) const {
    std::uint64_t at = std::uint64_t{index} * piece;
    std::uint64_t left = length - at;
    copy_with(to + at, from + at, left < piece ? left : piece, streaming);
  }
};

// What a helper learns from a Job: copied out, not yet checked.
struct JobView {
  std::uint64_t ticket = 0;
  std::uint64_t length = 0;
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t source_offset = 0;
  std::uint32_t epoch = 0;
  std::uint32_t source_block = 0;
  std::uint32_t piece = 0;
  bool streaming = false;
};

// The writing end, one thread at a time: makes the job known under a new generation, no piece
// claimed yet. Returns the generation.
std::uint32_t open_job(Job& job, const JobView& what);
// The writer claims pieces from the front and the helper from the back, so that each core finds in
// its cache what it copied when the same memory was last used.
enum class From : std::uint8_t { kFront, kBack };
// Claims and copies pieces until none is left, or `most` are copied; returns how many. Whoever else
// does the same with the same generation shares the work.
std::uint32_t copy_pieces(std::atomic<std::uint64_t>& ticket, std::uint32_t generation,
                          const Share& share, From from = From::kFront, std::uint32_t most = ~0U);
// How many pieces helpers have finished.
std::uint32_t finished_by_helpers(const Job& job, std::uint32_t generation);

// The helping end: the job that is open and has pieces left, if any.
std::optional<JobView> look_at_job(const Job& job);
// Copies up to `most` pieces of the job that was seen, and says so; returns how many: 0 once that
// job is over.
std::uint32_t help(Job& job, const JobView& seen, const Share& share, std::uint32_t most);

}  // namespace ferry::fabric::shm
