#include <fmt/format.h>

#include "bench/suites/grpc.h"
#include "ferry/cli/common/grpc_plugin.h"

namespace ferry::bench {
namespace {

using Unit = Fact::Unit;

constexpr std::uint64_t kMi = 1 << 20;
constexpr std::uint64_t kMostMeasured = 64 * kMi;
constexpr const char* kSpinSetting = "FERRY_GRPC_SPIN_US=200";

// One way that gRPC's bytes go.
struct GrpcWay {
  const char* id;
  const char* title;
  const char* over;  // of the program
  bool plugin;
  const char* provider;
  bool spins;
  bool in_quick;
  const char* without = "";
};

constexpr GrpcWay kWays[] = {
    {"tcp", "gRPC, TCP", "tcp", false, "", false, true},
    {"unix", "gRPC, local socket", "unix", false, "", false, true},
    {"ferry", "gRPC on shm", "tcp", true, "shm", false, true},
    {"ferry-spin", "gRPC on shm, spinning", "tcp", true, "shm", true, true},
    {"ferry-tcp", "gRPC on tcp lanes", "tcp", true, "tcp", false, false},
};

// Each is the one before it and one thing more.
constexpr GrpcWay kAblation[] = {
    {"tcp", "gRPC, TCP", "tcp", false, "", false, true},
    {"shm-hybrid", "shm, eager and rendezvous", "tcp", true, "shm", false, true,
     "pipelining,coalescing,zero-copy"},
    {"shm-coalesced", "+ coalescing", "tcp", true, "shm", false, true, "zero-copy"},
    {"shm-in-place", "+ zero copy", "tcp", true, "shm", false, true},
    {"lanes-hybrid", "tcp lanes, eager and rendezvous", "tcp", true, "tcp", false, true,
     "pipelining,coalescing,zero-copy"},
    {"lanes-pipelined", "+ pipelining", "tcp", true, "tcp", false, true, "coalescing,zero-copy"},
    {"lanes-coalesced", "+ coalescing", "tcp", true, "tcp", false, true, "zero-copy"},
    {"lanes-in-place", "+ zero copy", "tcp", true, "tcp", false, true},
};

std::vector<std::string> settings_of(const GrpcWay& way, const std::string& plugin) {
  if (!way.plugin) return {};
  std::vector<std::string> settings = {cli::preload_setting(plugin),
                                       fmt::format("FERRY_GRPC_PROVIDER={}", way.provider)};
  if (way.spins) settings.emplace_back(kSpinSetting);
  if (*way.without != '\0') settings.push_back(fmt::format("FERRY_GRPC_WITHOUT={}", way.without));
  return settings;
}

Variant grpc_variant(const GrpcWay& way, const std::string& send, const std::string& plugin) {
  Variant variant{.id = fmt::format("{}-{}", way.id, send),
                  .title = fmt::format("{}, {}", way.title, send),
                  .owner = way.plugin ? Owner::kOurs : Owner::kPeer,
                  .selector = way.plugin ? way.provider : "grpc",
                  .program = "ferry-peer-grpc",
                  .args = {"--send", send, "--over", way.over, "--heap", "tuned"},
                  .settings = settings_of(way, plugin)};
  variant.waits_its_way = true;
  variant.memory = 8;
  variant.in_quick = way.in_quick;
  return variant;
}

// One thing that many processes do.
struct GrpcMany {
  const char* id;
  const char* title;
  const char* pattern;
  int clients;
  std::uint64_t bytes;
  Unit unit;
  bool in_quick;
  double bound;  // of time, ours / TCP
};

constexpr GrpcMany kGrpcMany[] = {
    {"server-4", "one server, 4 clients, 4 KiB", "server", 4, 4096, Unit::kCallsPerSecond, false,
     1},
    {"server-16", "one server, 16 clients, 4 KiB", "server", 16, 4096, Unit::kCallsPerSecond, false,
     1},
    {"server-64", "one server, 64 clients, 4 KiB", "server", 64, 4096, Unit::kCallsPerSecond, true,
     1 / 1.5},
    {"mesh-2m", "4 processes, each to all others, 2 MiB", "mesh", 0, 2 * kMi, Unit::kGbPerSecond,
     false, 1 / 2.5},
    {"mesh-8m", "4 processes, each to all others, 8 MiB", "mesh", 0, 8 * kMi, Unit::kGbPerSecond,
     true, 1 / 2.5},
};

Fact grpc_fact(const GrpcMany& many, const GrpcWay& way, const std::string& plugin,
               double seconds) {
  Fact fact{.id = fmt::format("{}-{}", many.id, way.id),
            .sentence = fmt::format("{}: {}", many.title, way.title),
            .provider = way.plugin ? way.provider : "grpc",
            .unit = many.unit,
            .bound = Fact::kNoBound,
            .program = "ferry-peer-grpc-many",
            .settings = settings_of(way, plugin)};
  fact.args = {"--pattern", many.pattern,
               "--bytes",   std::to_string(many.bytes),
               "--clients", std::to_string(many.clients),
               "--over",    way.over,
               "--seconds", fmt::format("{}", seconds)};
  return fact;
}

Target faster(const std::string& what, const std::string& ours, const std::string& theirs,
              std::uint64_t least, std::uint64_t most, double times) {
  return {ours + "-" + what,
          fmt::format("{}, {}: {}x gRPC on TCP or more", ours, what, times),
          ours,
          {theirs},
          least,
          most,
          1 / times};
}

std::vector<Target> make_grpc_targets() {
  std::vector<Target> all = {
      faster("latency", "ferry-slices", "tcp-slices", 64, 4096, 1.2),
      faster("latency", "ferry-spin-slices", "tcp-slices", 64, 4096, 2.6),
      faster("large", "ferry-slices", "tcp-slices", kMi, 16 * kMi, 2.5),
      faster("large", "ferry-spin-slices", "tcp-slices", kMi, 16 * kMi, 4),
      faster("large", "ferry-bytes", "tcp-bytes", kMi, 16 * kMi, 2.5),
  };
  for (const std::string send : {"slices", "bytes"})
    for (const std::string way : {"ferry-", "ferry-spin-"})
      all.push_back(faster("never-slower", way + send, "tcp-" + send, 0, kMostMeasured, 1));
  return all;
}

std::vector<FactRatio> make_grpc_ratios() {
  std::vector<FactRatio> ratios;
  for (const auto& many : kGrpcMany)
    ratios.push_back({many.id, fmt::format("{}: time, on shm / on TCP", many.title),
                      fmt::format("{}-ferry", many.id), fmt::format("{}-tcp", many.id),
                      many.bound});
  return ratios;
}

}  // namespace

std::vector<Variant> grpc_variants(const std::string& plugin) {
  std::vector<Variant> all;
  for (const std::string send : {"slices", "bytes"})
    for (const auto& way : kWays)
      if (!way.plugin || !plugin.empty()) all.push_back(grpc_variant(way, send, plugin));
  return all;
}

std::vector<Variant> grpc_ablation(const std::string& plugin) {
  std::vector<Variant> all;
  for (const std::string send : {"slices", "bytes"})
    for (const auto& way : kAblation)
      if (!way.plugin || !plugin.empty()) all.push_back(grpc_variant(way, send, plugin));
  return all;
}

std::vector<Fact> grpc_facts(const std::string& plugin, bool quick) {
  std::vector<Fact> facts;
  for (const auto& many : kGrpcMany) {
    if (quick && !many.in_quick) continue;
    for (const auto& way : kWays)
      if (!way.spins && way.in_quick && (!way.plugin || !plugin.empty()))
        facts.push_back(grpc_fact(many, way, plugin, quick ? 0.5 : 2));
  }
  return facts;
}

const std::vector<FactRatio>& grpc_fact_ratios() {
  static const std::vector<FactRatio> kAll = make_grpc_ratios();
  return kAll;
}

const std::vector<Target>& grpc_targets() {
  static const std::vector<Target> kAll = make_grpc_targets();
  return kAll;
}

}  // namespace ferry::bench
