#include "bench/driver/targets.h"

namespace ferry::bench {
namespace {

using Against = Target::Against;
using Metric = Target::Metric;

constexpr std::uint64_t kKiBytes = 1024;
constexpr std::uint64_t kMiBytes = 1024 * kKiBytes;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

const std::vector<std::string> kSingleCopy = {"shm-memcpy", "shm-memcpy-nt"};
const std::vector<std::string> kRawSocket = {"tcp-spin", "tcp-block"};

// Of every workload.
std::vector<Target> targets_of_copies() {
  return {
      {"copy", "static by copy, shm: at least 0.95 of one memcpy", "static-copy", kSingleCopy,
       64 * kKiBytes, kNoLimit, 1 / 0.95},
      {"dynamic-shm",
       "dynamic, shm: at most 2 us more than static",
       "dynamic",
       {"static-in-place"},
       1,
       kNoLimit,
       2,
       Against::kBest,
       Metric::kMoreUs},
      {"dynamic-tcp",
       "dynamic, tcp: at most 1.1x static",
       "dynamic-tcp",
       {"static-tcp"},
       kMiBytes,
       kNoLimit,
       1.1},
      {"sender-copy",
       "without the sender's copy: 1.2x or more",
       "static-copy",
       {"static-sender-copy"},
       kMiBytes,
       kNoLimit,
       1 / 1.2},
      {"sender-copy-tcp",
       "without the sender's copy, tcp: 1.2x or more",
       "static-tcp",
       {"static-tcp-sender-copy"},
       kMiBytes,
       kNoLimit,
       1 / 1.2},
      {"tcp", "static, tcp: at least 0.95 of the raw socket", "static-tcp", kRawSocket, kMiBytes,
       kNoLimit, 1 / 0.95},
      {"tcp-grpc-bytes",
       "static, tcp: 4x gRPC bytes or more",
       "static-tcp",
       {"grpc-bytes"},
       kMiBytes,
       kNoLimit,
       1 / 4.0},
      {"tcp-grpc-slices",
       "static, tcp: 1.7x gRPC raw slices or more",
       "static-tcp",
       {"grpc-slices"},
       kMiBytes,
       kNoLimit,
       1 / 1.7},
      {"copy-grpc",
       "static by copy, shm: 10x gRPC bytes or more",
       "static-copy",
       {"grpc-bytes"},
       64 * kKiBytes,
       kNoLimit,
       1 / 10.0},
  };
}

std::vector<Target> targets_of_given() {
  auto targets = targets_of_copies();
  targets.push_back({"in-place",
                     "static, in place: at most 1.25x the in-place limit",
                     "static-in-place",
                     {"shm-in-place"},
                     1,
                     kNoLimit,
                     1.25});
  targets.push_back({"in-place-grpc",
                     "static, in place: 100x gRPC bytes or more",
                     "static-in-place",
                     {"grpc-bytes"},
                     4 * kKiBytes,
                     kNoLimit,
                     1 / 100.0});
  return targets;
}

std::vector<Target> targets_of_produced() {
  auto targets = targets_of_copies();
  targets.push_back({"one-process",
                     "produced in place: at most 1.05x one process alone",
                     "static-in-place",
                     {"one-process"},
                     1,
                     kNoLimit,
                     1.05});
  targets.push_back({"produced-grpc",
                     "produced in place: 10x gRPC bytes or more",
                     "static-in-place",
                     {"grpc-bytes"},
                     kMiBytes,
                     kNoLimit,
                     1 / 10.0});
  return targets;
}

}  // namespace

const std::vector<Target>& tensor_targets(const Workload& work) {
  static const std::vector<Target> kGiven = targets_of_given();
  static const std::vector<Target> kProduced = targets_of_produced();
  static const std::vector<Target> kRead = targets_of_copies();
  if (work.produce) return kProduced;
  return work.read == Workload::Read::kPages ? kGiven : kRead;
}

}  // namespace ferry::bench
