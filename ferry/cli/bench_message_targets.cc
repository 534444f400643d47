#include "ferry/cli/bench_targets.h"

namespace ferry::cli {
namespace {

using Against = Target::Against;
using Metric = Target::Metric;

constexpr std::uint64_t kOneMi = 1024 * 1024;

std::vector<Target> make_message_targets() {
  return {
      {"message-shm",
       "message of 64 B, shm: a round under 1 us",
       "message-shm",
       {},
       64,
       64,
       1,
       Against::kBest,
       Metric::kUs},
      {"message-shm-grpc",
       "message of 64 B, shm: 20x gRPC bytes or more",
       "message-shm",
       {"grpc-bytes"},
       64,
       64,
       1 / 20.0},
      {"message-tcp",
       "message of 64 B, tcp: at most 1.3x the raw spinning socket",
       "message-tcp",
       {"tcp-spin"},
       64,
       64,
       1.3},
      {"message-tcp-grpc",
       "message of 1 MiB and 8 MiB, tcp: 4.1x gRPC bytes or more",
       "message-tcp",
       {"grpc-bytes"},
       kOneMi,
       8 * kOneMi,
       1 / 4.1},
  };
}

}  // namespace

const std::vector<Target>& message_targets() {
  static const std::vector<Target> kAll = make_message_targets();
  return kAll;
}

}  // namespace ferry::cli
