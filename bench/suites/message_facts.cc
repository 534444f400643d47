#include <fmt/format.h>

#include "bench/driver/facts.h"

namespace ferry::bench {
namespace {

using Unit = Fact::Unit;

constexpr const char* kManyProgram = "ferry-peer-grpc-many";
constexpr double kFactSeconds = 2;
constexpr double kQuickFactSeconds = 0.5;

// One thing that many processes do, once by each of "shm", "tcp" and "grpc".
struct Many {
  const char* id;
  const char* title;
  const char* pattern;
  int clients;
  std::uint64_t bytes;
  Unit unit;
  bool in_quick;
  bool with_tcp;
  double bound;  // of time, shm / gRPC
};

constexpr Many kMany[] = {
    {"server-4", "one server, 4 clients, 4 KiB", "server", 4, 4096, Unit::kCallsPerSecond, true,
     false, Fact::kNoBound},
    {"server-16", "one server, 16 clients, 4 KiB", "server", 16, 4096, Unit::kCallsPerSecond, false,
     false, Fact::kNoBound},
    {"server-64", "one server, 64 clients, 4 KiB", "server", 64, 4096, Unit::kCallsPerSecond, true,
     true, 1 / 5.0},
    {"mesh-2m", "4 processes, each to all others, 2 MiB", "mesh", 0, 2 << 20, Unit::kGbPerSecond,
     false, false, Fact::kNoBound},
    {"mesh-8m", "4 processes, each to all others, 8 MiB", "mesh", 0, 8 << 20, Unit::kGbPerSecond,
     true, true, Fact::kNoBound},
};

Fact fact_of(const Many& many, const std::string& who, double seconds) {
  const bool ours = who != "grpc";
  Fact fact{.id = fmt::format("{}-{}", many.id, who),
            .sentence = fmt::format("{}: {}", many.title, ours ? who : "gRPC"),
            .provider = who,
            .unit = many.unit,
            .bound = Fact::kNoBound};
  fact.args = {"--bytes", std::to_string(many.bytes), "--seconds", fmt::format("{}", seconds)};
  if (many.clients > 0)
    fact.args.insert(fact.args.end(), {"--clients", std::to_string(many.clients)});
  const std::vector<std::string> head =
      ours ? std::vector<std::string>{"fact", many.pattern, "--provider", who}
           : std::vector<std::string>{"--pattern", many.pattern};
  fact.args.insert(fact.args.begin(), head.begin(), head.end());
  if (!ours) fact.program = kManyProgram;
  return fact;
}

std::vector<FactRatio> make_message_ratios() {
  std::vector<FactRatio> ratios;
  for (const auto& many : kMany) {
    const std::string id = many.id;
    const bool promised = many.bound != Fact::kNoBound;
    const auto what = promised ? fmt::format("shm at least {:.0f}x gRPC (time)", 1 / many.bound)
                               : "time, shm / gRPC";
    ratios.push_back(
        {id, fmt::format("{}: {}", many.title, what), id + "-shm", id + "-grpc", many.bound});
    if (many.with_tcp)
      ratios.push_back({id + "-over-tcp", fmt::format("{}: time, tcp / gRPC", many.title),
                        id + "-tcp", id + "-grpc"});
  }
  return ratios;
}

}  // namespace

std::vector<Fact> message_facts(bool quick) {
  std::vector<Fact> facts;
  const auto seconds = quick ? kQuickFactSeconds : kFactSeconds;
  for (const auto& many : kMany) {
    if (quick && !many.in_quick) continue;
    facts.push_back(fact_of(many, "shm", seconds));
    if (many.with_tcp && !quick) facts.push_back(fact_of(many, "tcp", seconds));
    facts.push_back(fact_of(many, "grpc", seconds));
  }
  return facts;
}

const std::vector<FactRatio>& message_fact_ratios() {
  static const std::vector<FactRatio> kAll = make_message_ratios();
  return kAll;
}

}  // namespace ferry::bench
