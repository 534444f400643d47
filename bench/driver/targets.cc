#include "bench/driver/targets.h"

#include <algorithm>

namespace ferry::bench {
namespace {

using Against = Target::Against;
using Metric = Target::Metric;

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGiB = 1024 * kMiB;
constexpr std::uint64_t kNoMost = std::numeric_limits<std::uint64_t>::max();

const std::vector<std::string> kOneCopy = {"shm-memcpy", "shm-memcpy-nt"};
const std::vector<std::string> kBothCopy = {"shm-both", "shm-both-nt"};
const std::vector<std::string> kOneCopySleep = {"shm-memcpy-sleep", "shm-memcpy-nt-sleep"};
const std::vector<std::string> kSocket = {"tcp-spin", "tcp-block"};
const std::vector<std::string> kGrpc = {"grpc-slices", "grpc-bytes", "grpc-bytes-plain"};

std::vector<std::string> with_grpc(std::vector<std::string> peers) {
  peers.insert(peers.end(), kGrpc.begin(), kGrpc.end());
  return peers;
}

std::vector<Target> shm_targets() {
  return {
      {"shm-small",
       "shm, small rounds: at most 1.25x the bare shared-memory round",
       "ferry-shm",
       {"shm-memcpy"},
       1,
       4 * kKiB,
       1.25},
      {"shm-copy", "shm, one copying thread: at least 0.95 of the best single copy", "ferry-shm",
       kOneCopy, 64 * kKiB, kGiB, 1 / 0.95},
      {"shm-both", "shm, two copying threads: at least 0.9 of both sides copying half",
       "ferry-shm-both", kBothCopy, kMiB, kNoMost, 1 / 0.9},
      {"shm-both-ucx",
       "shm, two copying threads: 1.4x UCX put or more",
       "ferry-shm-both",
       {"ucx-put"},
       kMiB,
       kNoMost,
       1 / 1.4},
      {"shm-own", "shm, malloc memory on both ends: ahead of every peer", "ferry-shm-own",
       with_grpc({"ucx-put-own", "ucx-tag"}), 1, kNoMost, 1, Against::kEach},
      {"shm-cpu", "shm, sleeping: at most 1.1x the CPU of the limit", "ferry-shm-sleep",
       kOneCopySleep, kMiB, kNoMost, 1.1, Against::kBest, Metric::kCpu},
  };
}

std::vector<Target> tcp_targets() {
  return {
      {"tcp-small",
       "tcp, small rounds: at most 1.25x the raw spinning socket",
       "ferry-tcp",
       {"tcp-spin"},
       1,
       4 * kKiB,
       1.25},
      {"tcp-small-peers", "tcp, small rounds: ahead of every peer", "ferry-tcp",
       with_grpc({"ucx-tag-tcp"}), 1, 4 * kKiB, 1, Against::kEach},
      {"tcp-large", "tcp: at least 0.95 of the raw socket", "ferry-tcp", kSocket, kMiB, kNoMost,
       1 / 0.95},
      {"tcp-large-peers", "tcp: not behind any peer", "ferry-tcp", with_grpc({"ucx-tag-tcp"}), kMiB,
       kNoMost, 1, Against::kEach},
      {"tcp-cpu",
       "tcp, sleeping: at most 1.1x the CPU of the limit",
       "ferry-tcp-sleep",
       {"tcp-block"},
       kMiB,
       kNoMost,
       1.1,
       Against::kBest,
       Metric::kCpu},
  };
}

std::vector<Target> verbs_targets() {
  return {
      {"verbs-small",
       "verbs, 2 B written and answered: at most 1.25x ib_write_lat",
       "ferry-verbs-poll",
       {"ib-write-lat"},
       1,
       2,
       1.25},
      {"verbs-write",
       "verbs: at least 0.95 of ib_write_bw",
       "ferry-verbs-write",
       {"ib-write-bw"},
       64 * kKiB,
       kNoMost,
       1 / 0.95},
      {"verbs-read",
       "verbs: at least 0.95 of ib_read_bw",
       "ferry-verbs-read",
       {"ib-read-bw"},
       64 * kKiB,
       kNoMost,
       1 / 0.95},
  };
}

std::vector<Target> make_targets() {
  auto targets = shm_targets();
  for (auto& target : verbs_targets()) targets.push_back(std::move(target));
  for (auto& target : tcp_targets()) targets.push_back(std::move(target));
  return targets;
}

const std::vector<double>& values(const Cell& cell, Metric metric) {
  return metric == Metric::kCpu ? cell.cpu_ns : cell.ns;
}

constexpr const char* kTheClock = "the clock";

// As microseconds, judged by itself.
Verdict judge_alone(const Target& target, std::uint64_t size, const Measurements& measured) {
  auto us = measured.cell(target.numerator, size)->ns;
  for (auto& value : us) value /= 1e3;
  Verdict verdict{&target, size, kTheClock, cli::estimate(us), Outcome::kMet};
  verdict.outcome = outcome_of(verdict.ratio, target.bound);
  return verdict;
}

Verdict judge_one(const Target& target, std::uint64_t size, const std::string& denominator,
                  const Measurements& measured) {
  Verdict verdict{&target, size, denominator, {}, Outcome::kMet};
  const auto& ours = values(*measured.cell(target.numerator, size), target.metric);
  const auto& others = values(*measured.cell(denominator, size), target.metric);
  verdict.ratio = target.metric == Metric::kMoreUs ? cli::difference_of_pairs(ours, others, 1e3)
                                                   : cli::ratio_of_pairs(ours, others);
  verdict.outcome = outcome_of(verdict.ratio, target.bound);
  return verdict;
}

std::vector<std::string> denominators_at(const Target& target, std::uint64_t size,
                                         const Measurements& measured) {
  std::vector<std::string> present;
  for (const auto& id : target.denominators) {
    if (measured.cell(id, size) != nullptr) present.push_back(id);
  }
  if (target.against == Against::kBest && present.size() > 1)
    present = {best_of(present, size, target.metric, measured)};
  return present;
}

}  // namespace

const std::vector<Target>& transfer_targets() {
  static const std::vector<Target> kAll = make_targets();
  return kAll;
}

std::string best_of(const std::vector<std::string>& variants, std::uint64_t size, Metric metric,
                    const Measurements& measured) {
  std::string best;
  double least = 0;
  for (const auto& id : variants) {
    const auto* cell = measured.cell(id, size);
    if (cell == nullptr) continue;
    const double middle = cli::median(values(*cell, metric));
    if (best.empty() || middle < least) {
      best = id;
      least = middle;
    }
  }
  return best;
}

Judged judged(Measurements measured) {
  auto verdicts = judge(*measured.targets, measured);
  return {std::move(measured), std::move(verdicts)};
}

std::vector<Verdict> judge(const std::vector<Target>& targets, const Measurements& measured) {
  std::vector<Verdict> verdicts;
  for (const auto& target : targets) {
    for (const auto size : measured.sizes) {
      if (size < target.min_bytes || size > target.max_bytes) continue;
      if (measured.cell(target.numerator, size) == nullptr) continue;
      if (target.metric == Metric::kUs) verdicts.push_back(judge_alone(target, size, measured));
      for (const auto& id : denominators_at(target, size, measured))
        verdicts.push_back(judge_one(target, size, id, measured));
    }
  }
  return verdicts;
}

std::vector<std::string> not_judged(const std::vector<Target>& targets,
                                    const std::vector<Verdict>& verdicts) {
  std::vector<std::string> missing;
  for (const auto& target : targets) {
    const bool judged = std::any_of(verdicts.begin(), verdicts.end(),
                                    [&](const Verdict& v) { return v.target->id == target.id; });
    if (judged) continue;
    if (target.metric == Metric::kUs) {
      missing.push_back(fmt::format("{}: {} was not measured", target.id, target.numerator));
    } else {
      missing.push_back(fmt::format("{}: {} and {} were not both measured", target.id,
                                    target.numerator, fmt::join(target.denominators, ", ")));
    }
  }
  return missing;
}

}  // namespace ferry::bench
