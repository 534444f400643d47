#include "ferry/mail/tuning.h"

#include <algorithm>
#include <cmath>

#include "ferry/base/waiting.h"

namespace ferry::mail {

namespace {

// Shares that count for nothing, also without noise.
constexpr double kHardlyWorseBySize = 0.01;  // of a threshold's regret, for each size
constexpr double kHardlyWorse = 0.03;
constexpr double kSpinHardlyWorse = 0.05;
constexpr double kLongestSpin = waiting::kLongestSpin.count();  // nanoseconds

struct TwoWays {
  std::uint64_t bytes = 0;
  double small = 0;
  double large = 0;
};

std::vector<TwoWays> sizes_of_both(const Curve& small, const Curve& large) {
  std::vector<TwoWays> both;
  for (const auto& one : small.points)
    for (const auto& other : large.points)
      if (one.at == other.at && one.ns > 0 && other.ns > 0)
        both.push_back({one.at, one.ns, other.ns});
  return both;
}

// How much longer than with the better way of each size, as a share, summed.
double regret(const std::vector<TwoWays>& sizes, std::uint64_t threshold) {
  double sum = 0;
  for (const auto& size : sizes) {
    double taken = size.bytes <= threshold ? size.small : size.large;
    sum += taken / std::min(size.small, size.large) - 1;
  }
  return sum;
}

const Curve::Point* best_of(const Curve& curve) {
  auto less = [](const auto& a, const auto& b) { return a.ns < b.ns; };
  auto found = std::min_element(curve.points.begin(), curve.points.end(), less);
  return found == curve.points.end() ? nullptr : &*found;
}

Status check_between(const char* what, std::uint64_t value, std::uint64_t least,
                     std::uint64_t most) {
  if (value >= least && value <= most) return {};
  return fail(Code::kOutOfRange, "a tuning with a {} of {}; it is {} to {}", what, value, least,
              most);
}

}  // namespace

Status check_tuning(const Tuning& tuning) {
  using Limits = TuningLimits;
  FERRY_TRY(check_between("threshold", tuning.eager_threshold, 0, Limits::kEager));
  FERRY_TRY(check_between("copy limit", tuning.copy_up_to, 0, Limits::kCopy));
  FERRY_TRY(check_between("chunk", tuning.chunk_bytes, Limits::kLeastChunk, Limits::kMostChunk));
  FERRY_TRY(check_between("number of chunks", tuning.chunks_in_flight, 1, Limits::kChunks));
  // A negative one is a very large one here.
  return check_between("spin", static_cast<std::uint64_t>(tuning.spin.count()), 0,
                       static_cast<std::uint64_t>(Limits::kSpin.count()));
}

std::string_view name_of(TuningSource source) {
  switch (source) {
    case TuningSource::kDefault:
      return "default";
    case TuningSource::kKept:
      return "kept";
    case TuningSource::kMeasured:
      return "measured";
  }
  return "?";
}

Tuning default_tuning(std::string_view provider) {
  Tuning tuning;
  // Another round to announce a message costs more there than one more copy of it.
  if (provider == "tcp" || provider == "verbs") tuning.eager_threshold = 16 << 10;
  return tuning;
}

const Curve* Calibration::curve(std::string_view name) const {
  auto named = [name](const Curve& curve) { return curve.name == name; };
  auto found = std::find_if(curves.begin(), curves.end(), named);
  return found == curves.end() ? nullptr : &*found;
}

std::uint64_t choose_threshold(const Curve& small, const Curve& large, std::uint64_t usual) {
  auto sizes = sizes_of_both(small, large);
  if (sizes.empty()) return usual;
  std::uint64_t best = 0;
  double least = regret(sizes, 0);
  for (const auto& size : sizes) {
    if (auto here = regret(sizes, size.bytes); here < least) {
      best = size.bytes;
      least = here;
    }
  }
  // What is random partly evens out in a sum.
  auto count = static_cast<double>(sizes.size());
  auto noise = std::max(small.noise, large.noise);
  auto slack = std::max(kHardlyWorseBySize * count, noise * std::sqrt(count));
  return regret(sizes, usual) <= least + slack ? usual : best;
}

std::uint64_t choose_value(const Curve& curve, std::uint64_t usual) {
  const auto* best = best_of(curve);
  if (best == nullptr) return usual;
  for (const auto& point : curve.points)
    if (point.at == usual && point.ns <= best->ns * (1 + std::max(kHardlyWorse, curve.noise)))
      return usual;
  return best->at;
}

Nanos choose_spin(const Curve& spin, const Curve& asleep, Nanos usual) {
  const auto* best = best_of(spin);
  const auto* sleeper = best_of(asleep);
  if (best == nullptr || sleeper == nullptr) return usual;
  auto least = best->at;
  for (const auto& point : spin.points)
    if (point.ns <= best->ns * (1 + std::max(kSpinHardlyWorse, spin.noise)))
      least = std::min(least, point.at);
  auto wake_up = std::clamp(sleeper->ns - best->ns, 0.0, kLongestSpin);
  return std::max({waiting::kShortestSpin, Nanos(static_cast<std::int64_t>(wake_up)),
                   Nanos(static_cast<std::int64_t>(least))});
}

Tuning choose_tuning(const Tuning& defaults, const std::vector<Curve>& curves) {
  using Names = CurveNames;
  Calibration found{defaults, curves};
  auto& tuning = found.tuning;
  const auto* eager = found.curve(Names::kEager);
  const auto* announced = found.curve(Names::kAnnounced);
  if (eager != nullptr && announced != nullptr)
    tuning.eager_threshold = choose_threshold(*eager, *announced, defaults.eager_threshold);
  const auto* copied = found.curve(Names::kCopied);
  const auto* registered = found.curve(Names::kRegistered);
  if (copied != nullptr && registered != nullptr)
    tuning.copy_up_to = choose_threshold(*copied, *registered, defaults.copy_up_to);
  if (const auto* chunk = found.curve(Names::kChunk))
    tuning.chunk_bytes = choose_value(*chunk, defaults.chunk_bytes);
  if (const auto* flight = found.curve(Names::kInFlight))
    tuning.chunks_in_flight =
        static_cast<std::uint32_t>(choose_value(*flight, defaults.chunks_in_flight));
  const auto* spin = found.curve(Names::kSpin);
  const auto* asleep = found.curve(Names::kAsleep);
  if (spin != nullptr && asleep != nullptr)
    tuning.spin = choose_spin(*spin, *asleep, defaults.spin);
  return tuning;
}

}  // namespace ferry::mail
