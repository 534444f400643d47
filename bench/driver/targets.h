#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/driver/measure.h"
#include "bench/driver/outcome.h"
#include "ferry/cli/common/stats.h"

namespace ferry::bench {

// A figure the library promises: numerator / denominator is at most `bound`, for time or CPU per
// round; or numerator - denominator is at most `bound` microseconds; or the numerator alone is.
struct Target {
  enum class Metric { kTime, kCpu, kMoreUs, kUs };
  // Against the fastest of the denominators at a size, or against each of them.
  enum class Against { kBest, kEach };

  std::string id;
  std::string sentence;
  std::string numerator;
  // None with kUs.
  std::vector<std::string> denominators;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  double bound = 1;
  Against against = Against::kBest;
  Metric metric = Metric::kTime;
};

// The targets of `ferry bench transfer`, of `ferry bench tensor` for one workload, and of `ferry
// bench message`.
const std::vector<Target>& transfer_targets();
const std::vector<Target>& tensor_targets(const Workload& work);
const std::vector<Target>& message_targets();

// One target at one size.
struct Verdict {
  const Target* target = nullptr;
  std::uint64_t size = 0;
  std::string denominator;
  cli::Estimate ratio;
  Outcome outcome = Outcome::kMet;
};

// A verdict for each target and size of which both sides were measured. `targets` must outlive it.
std::vector<Verdict> judge(const std::vector<Target>& targets, const Measurements& measured);
// By its own targets.
struct Judged {
  Measurements measured;
  std::vector<Verdict> verdicts;
};
Judged judged(Measurements measured);

// Targets that have no verdict at all, as "id: why".
std::vector<std::string> not_judged(const std::vector<Target>& targets,
                                    const std::vector<Verdict>& verdicts);

// The fastest of the variants at a size; empty when none was measured.
std::string best_of(const std::vector<std::string>& variants, std::uint64_t size,
                    Target::Metric metric, const Measurements& measured);

}  // namespace ferry::bench
