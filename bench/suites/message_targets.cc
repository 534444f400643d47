#include <fmt/format.h>

#include "bench/driver/targets.h"

namespace ferry::bench {
namespace {

using Against = Target::Against;
using Metric = Target::Metric;

constexpr std::uint64_t kOneMi = 1024 * 1024;

Target tuned_target(const std::string& provider, const std::string& what, const SizeSpan& sizes) {
  const auto message = "message-" + provider;
  return {fmt::format("{}-tuned-{}", message, what),
          fmt::format("message, {}: tuned is within 5 % of the best fixed {}", provider, what),
          message,
          fixed_variants(message + "-" + what),
          sizes.least,
          sizes.most,
          1.05};
}

std::vector<Target> make_message_targets() {
  return {
      tuned_target("shm", "eager", kEagerMatters),
      tuned_target("tcp", "eager", kEagerMatters),
      tuned_target("tcp", "chunk", kChunksMatter),
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

}  // namespace ferry::bench
