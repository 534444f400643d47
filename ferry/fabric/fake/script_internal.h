#pragma once

#include <atomic>
#include <cstdint>

#include "ferry/base/counters.h"
#include "ferry/base/spin.h"
#include "ferry/fabric/fake/faults.h"

namespace ferry::fabric::fake {

// What is to become of one operation, decided when it is posted.
struct Fate {
  std::int64_t not_before = 0;  // monotonic nanoseconds
  Code failure = Code::kOk;
  bool lose_completion = false;
  bool duplicate_completion = false;
  bool break_lane = false;
  bool lose_peer = false;
  std::uint32_t piece_bytes = 0;
  bool shuffle = false;
};

// The state behind Script: one per process.
class Dice {
 public:
  static Dice& instance();

  void set(const Faults& faults);
  FaultCounts counts() const;
  void use_path(const Path& path);
  Path path() const;
  Fate next_operation();
  // When something that is due now happens: monotonic nanoseconds, 0 for at once.
  std::int64_t next_start();
  // Whether this attachment fails.
  bool next_attachment_fails();
  bool is_map_late() const;
  // Uniform below `bound`, from the seeded sequence.
  std::uint64_t random(std::uint64_t bound);

  Counter failed;
  Counter lost;
  Counter duplicates_swallowed;
  Counter broken_lanes;
  Counter flags;

 private:
  std::uint64_t random_locked(std::uint64_t bound) FERRY_REQUIRES(lock_);
  std::int64_t start_locked() FERRY_REQUIRES(lock_);

  mutable SpinLock lock_;
  Faults faults_ FERRY_GUARDED_BY(lock_);
  Path path_ FERRY_GUARDED_BY(lock_);
  FaultCounts before_ FERRY_GUARDED_BY(lock_);  // of the counters when the faults were set
  std::uint64_t state_ FERRY_GUARDED_BY(lock_) = 1;
  std::uint64_t operations_ FERRY_GUARDED_BY(lock_) = 0;
  std::uint64_t attachments_ FERRY_GUARDED_BY(lock_) = 0;
};

}  // namespace ferry::fabric::fake
