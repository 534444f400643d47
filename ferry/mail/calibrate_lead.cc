#include <algorithm>

#include "ferry/mail/calibrate_internal.h"
#include "ferry/mail/tuning_cache.h"

// What is measured, in which order, and for how long.

namespace ferry::mail {

namespace {

using Probe = CalibrateProbe;
using Names = CurveNames;
using namespace std::chrono_literals;

constexpr std::uint64_t kKi = 1024;
constexpr std::uint64_t kEagerSizes[] = {kKi,      2 * kKi,  4 * kKi, 8 * kKi,
                                         16 * kKi, 32 * kKi, 64 * kKi};
constexpr std::uint64_t kCopySizes[] = {16 * kKi,  32 * kKi,  64 * kKi,  128 * kKi,
                                        256 * kKi, 512 * kKi, 1024 * kKi};
constexpr std::uint64_t kChunks[] = {128 * kKi, 256 * kKi, 512 * kKi, 1024 * kKi, 2048 * kKi};
constexpr std::uint32_t kInFlight[] = {1, 2, 4, 8};
constexpr Nanos kSpins[] = {0us, 10us, 25us, 50us, 100us, 200us};
constexpr std::uint64_t kLargeBytes = 4096 * kKi;
constexpr std::uint64_t kSmallBytes = 64;
constexpr std::uint64_t kAnswerOnly = kSmallBytes;  // a threshold: only answers are eager

constexpr Nanos kPatientSpin = 1ms;  // where the spin is not what is measured
constexpr int kLeastPasses = 3;
constexpr double kUsualPasses = 6;
constexpr double kMostRounds = 200;

double middle_of(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// As a share. Rounds are taken by turns, so the halves are apart in time.
double difference_of_halves(const std::vector<double>& taken) {
  if (taken.size() < 2) return 1;
  auto middle = taken.begin() + static_cast<std::ptrdiff_t>(taken.size() / 2);
  auto first = middle_of({taken.begin(), middle});
  auto second = middle_of({middle, taken.end()});
  return std::max(first, second) / std::min(first, second) - 1;
}

}  // namespace

Result<Calibration> CalibrationLead::run() {
  late_ = Deadline::after(options_.at_most);
  ordinary_.assign(kLargeBytes, std::byte{1});
  using Step = Status (CalibrationLead::*)();
  for (Step step : {&CalibrationLead::compare_eager, &CalibrationLead::compare_copies,
                    &CalibrationLead::try_chunks, &CalibrationLead::try_chunks_in_flight,
                    &CalibrationLead::try_spins}) {
    if (late_.expired()) break;
    FERRY_TRY((this->*step)());
  }
  found_.tuning = choose_tuning(defaults_, found_.curves);
  FERRY_TRY(tell_result());
  return std::move(found_);
}

Status CalibrationLead::compare_eager() {
  auto tuning = defaults_;
  tuning.spin = kPatientSpin;
  tuning.eager_threshold = std::end(kEagerSizes)[-1];
  auto eager = FERRY_TRY(add_trial(tuning));
  tuning.eager_threshold = kAnswerOnly;
  auto announced = FERRY_TRY(add_trial(tuning));
  std::vector<Probe> probes;
  for (auto bytes : kEagerSizes) {
    probes.push_back({Names::kEager, bytes, eager, bytes});
    probes.push_back({Names::kAnnounced, bytes, announced, bytes});
  }
  return sweep(std::move(probes), 0.35);
}

Status CalibrationLead::compare_copies() {
  auto tuning = defaults_;
  tuning.spin = kPatientSpin;
  tuning.eager_threshold = kAnswerOnly;
  tuning.copy_up_to = std::end(kCopySizes)[-1];
  auto copied = FERRY_TRY(add_trial(tuning));
  tuning.copy_up_to = 0;
  auto registered = FERRY_TRY(add_trial(tuning));
  std::vector<Probe> probes;
  for (auto bytes : kCopySizes) {
    probes.push_back({Names::kCopied, bytes, copied, bytes, true});
    probes.push_back({Names::kRegistered, bytes, registered, bytes, true});
  }
  return sweep(std::move(probes), 0.2);
}

// Memory of the mailbox is used in place where the path maps it: then only other memory is read.
Status CalibrationLead::try_chunks() {
  auto tuning = defaults_;
  tuning.spin = kPatientSpin;
  std::vector<Probe> probes;
  for (auto chunk : kChunks) {
    tuning.chunk_bytes = chunk;
    auto trial = FERRY_TRY(add_trial(tuning));
    probes.push_back(
        {Names::kChunk, chunk, trial, kLargeBytes, end_.channel().capabilities().maps_peer});
  }
  return sweep(std::move(probes), 0.2);
}

Status CalibrationLead::try_chunks_in_flight() {
  auto tuning = defaults_;
  tuning.spin = kPatientSpin;
  tuning.chunk_bytes = choose_tuning(defaults_, found_.curves).chunk_bytes;
  std::vector<Probe> probes;
  for (auto chunks : kInFlight) {
    tuning.chunks_in_flight = chunks;
    auto trial = FERRY_TRY(add_trial(tuning));
    probes.push_back(
        {Names::kInFlight, chunks, trial, kLargeBytes, end_.channel().capabilities().maps_peer});
  }
  return sweep(std::move(probes), 0.15);
}

Status CalibrationLead::try_spins() {
  auto tuning = defaults_;
  std::vector<Probe> probes;
  for (auto spin : kSpins) {
    tuning.spin = spin;
    auto trial = FERRY_TRY(add_trial(tuning));
    probes.push_back({Names::kSpin, static_cast<std::uint64_t>(spin.count()), trial, kSmallBytes});
  }
  tuning.spin = kPatientSpin;
  auto trial = FERRY_TRY(add_trial(tuning));
  probes.push_back({Names::kAsleep, 0, trial, kSmallBytes, false, fabric::WaitMode::kSleep});
  return sweep(std::move(probes), 0.1);
}

Result<std::size_t> CalibrationLead::add_trial(const Tuning& tuning) {
  FERRY_TRY(end_.send({.kind = CalibrateCommand::Kind::kOpen, .tuning = tuning}));
  FERRY_TRY(end_.open(tuning));
  return end_.size() - 1;
}

Status CalibrationLead::sweep(std::vector<Probe> probes, double share) {
  const auto limit = Deadline::after(
      Nanos(static_cast<std::int64_t>(share * static_cast<double>(options_.time.count()))));
  const auto each =
      Nanos(static_cast<std::int64_t>(static_cast<double>(limit.left().count()) / kUsualPasses /
                                      static_cast<double>(probes.size())));
  for (int pass = 0; (pass < kLeastPasses || !limit.expired()) && !late_.expired(); ++pass) {
    for (auto& probe : probes)
      if (!late_.expired()) FERRY_TRY(visit(probe, each));
    std::reverse(probes.begin(), probes.end());
  }
  auto measured = [](const Probe& probe) { return !probe.taken.empty(); };
  if (std::all_of(probes.begin(), probes.end(), measured)) keep(probes);
  FERRY_TRY(end_.send({.kind = CalibrateCommand::Kind::kClose}));
  end_.close();
  return {};
}

// The first round of a visit is not counted: the other end has slept, caches hold something else.
Status CalibrationLead::visit(Probe& probe, Nanos time) {
  auto& box = end_.box(probe.trial);
  auto rounds = 1.0;
  if (!probe.taken.empty())
    rounds = std::clamp(static_cast<double>(time.count()) / probe.taken.back(), 1.0, kMostRounds);
  MailBuffer own;
  if (!probe.ordinary) own = FERRY_TRY(box.allocate(probe.bytes));
  auto message = probe.ordinary ? std::span(ordinary_).first(probe.bytes) : own.bytes();
  CalibrateCommand command;
  command.kind = CalibrateCommand::Kind::kRounds;
  command.trial = static_cast<std::uint32_t>(probe.trial);
  command.rounds = static_cast<std::uint64_t>(rounds) + 1;
  FERRY_TRY(end_.send(command));
  double first = 0;
  FERRY_TRY(round(box, message, probe.mode, first));
  for (std::uint64_t i = 1; i < command.rounds; ++i)
    FERRY_TRY(round(box, message, probe.mode, probe.taken.emplace_back()));
  return {};
}

Status CalibrationLead::round(Mailbox& box, std::span<const std::byte> message,
                              fabric::WaitMode mode, double& ns) {
  const auto begun = now_ns();
  auto sending = box.send(message, end_.deadline());
  auto answer = FERRY_TRY(box.receive(end_.deadline(), mode));
  FERRY_TRY(sending.wait(mode));
  ns = static_cast<double>(std::max<std::int64_t>(now_ns() - begun, 1));
  return answer.release();
}

void CalibrationLead::keep(const std::vector<Probe>& probes) {
  std::vector<double> differences;
  differences.reserve(probes.size());
  for (const auto& probe : probes) differences.push_back(difference_of_halves(probe.taken));
  const auto noise = middle_of(differences);
  for (const auto& probe : probes) {
    auto named = [&](const Curve& curve) { return curve.name == probe.curve; };
    auto curve = std::find_if(found_.curves.begin(), found_.curves.end(), named);
    if (curve == found_.curves.end())
      curve = found_.curves.insert(curve, Curve{probe.curve, {}, noise});
    curve->points.push_back({probe.at, middle_of(probe.taken)});
  }
  for (auto& curve : found_.curves)
    std::sort(curve.points.begin(), curve.points.end(),
              [](const auto& a, const auto& b) { return a.at < b.at; });
}

Status CalibrationLead::tell_result() {
  auto trial = FERRY_TRY(add_trial(defaults_));
  TuningEntry entry;
  entry.found = found_;
  auto text = entry.to_text();
  FERRY_TRY(end_.send(
      {.kind = CalibrateCommand::Kind::kEnd, .trial = static_cast<std::uint32_t>(trial)}));
  FERRY_TRY(end_.box(trial).send_and_wait(std::as_bytes(std::span(text)), end_.deadline()));
  // The mailbox must not go before the other end has it.
  FERRY_TRY(end_.receive());
  return {};
}

}  // namespace ferry::mail
