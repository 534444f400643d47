#include "bench/report/json.h"

#include <nlohmann/json.hpp>

#include "bench/report/origin.h"
#include "bench/report/table.h"
#include "ferry/cli/common/stats.h"

namespace ferry::bench {
namespace {

using nlohmann::json;

const char* owner_name(Owner owner) {
  return owner == Owner::kOurs ? "ours" : owner == Owner::kLimit ? "limit" : "peer";
}

json cell_json(const Cell& cell, std::uint64_t size) {
  const double middle = cli::median(cell.ns);
  json out = {{"bytes", size},
              {"rounds", cell.rounds},
              {"ns", cell.ns},
              {"cpu_ns", cell.cpu_ns},
              {"median_ns", middle},
              {"gb_per_s", static_cast<double>(size) / middle},
              {"cpu_s_per_gb", cpu_seconds_per_gb(cell, size)}};
  if (cell.ns.size() >= cli::kLeastForInterval) out["spread_ns"] = cli::spread(cell.ns);
  return out;
}

json variant_json(const Variant& variant, const Measurements& measured) {
  json results = json::array();
  for (auto size : measured.sizes) {
    if (const auto* cell = measured.cell(variant.id, size); cell != nullptr)
      results.push_back(cell_json(*cell, size));
  }
  const auto* wait = variant.waits_its_way          ? "its own"
                     : variant.wait == Wait::kSleep ? "sleep"
                                                    : "spin";
  return {{"id", variant.id},
          {"title", variant.title},
          {"owner", owner_name(variant.owner)},
          {"wait", wait},
          {"results", results}};
}

json ratios_json(const Measurements& measured) {
  json ratios = json::array();
  for (const auto& pair : comparisons(measured)) {
    for (auto size : measured.sizes) {
      const auto* ours = measured.cell(pair.ours, size);
      const auto* other = measured.cell(pair.other, size);
      if (ours == nullptr || other == nullptr) continue;
      auto ratio = estimate_json(cli::ratio_of_pairs(ours->ns, other->ns));
      ratio.update({{"ours", pair.ours}, {"other", pair.other}, {"bytes", size}});
      ratios.push_back(ratio);
    }
  }
  return ratios;
}

const char* metric_name(Target::Metric metric) {
  return metric == Target::Metric::kCpu    ? "cpu"
         : metric == Target::Metric::kTime ? "time"
         : metric == Target::Metric::kUs   ? "microseconds"
                                           : "microseconds more";
}

json verdict_json(const Verdict& verdict) {
  auto out = estimate_json(verdict.ratio);
  out.update({{"target", verdict.target->id},
              {"sentence", verdict.target->sentence},
              {"metric", metric_name(verdict.target->metric)},
              {"ours", verdict.target->numerator},
              {"other", verdict.denominator},
              {"bytes", verdict.size},
              {"at_most", verdict.target->bound},
              {"verdict", outcome_name(verdict.outcome)}});
  return out;
}

const char* unit_name(Fact::Unit unit) {
  if (unit == Fact::Unit::kTime) return "ns";
  if (unit == Fact::Unit::kCount) return "count";
  if (unit == Fact::Unit::kCallsPerSecond) return "calls/s";
  return unit == Fact::Unit::kGbPerSecond ? "GB/s" : "ratio";
}

json fact_json(const FactResult& result) {
  auto out = estimate_json(cli::estimate(result.values));
  out.update({{"id", result.fact.id},
              {"sentence", result.fact.sentence},
              {"unit", unit_name(result.fact.unit)},
              {"values", result.values}});
  if (result.fact.bounded())
    out.update({{"at_most", result.fact.bound}, {"verdict", outcome_name(judge_fact(result))}});
  return out;
}

json sizes_json(const Measurements& measured) {
  json sizes = json::array();
  for (const auto& [from, messages] : measured.messages_by_size)
    sizes.push_back({{"from_bytes", from}, {"messages", messages}});
  return sizes;
}

json judged_json(const Judged& one) {
  const auto& measured = one.measured;
  json variants = json::array();
  for (const auto& variant : measured.variants) variants.push_back(variant_json(variant, measured));
  json targets = json::array();
  for (const auto& verdict : one.verdicts) targets.push_back(verdict_json(verdict));
  json facts = json::array();
  for (const auto& result : measured.facts) {
    if (!result.values.empty()) facts.push_back(fact_json(result));
  }
  return {{"round", measured.work.text()},
          {"touch", measured.work.touch()},
          {"produce", measured.work.produce},
          {"sizes", measured.sizes},
          {"variants", variants},
          {"ratios", ratios_json(measured)},
          {"facts", facts},
          {"targets", targets},
          {"not_judged", not_judged(*measured.targets, one.verdicts)},
          {"messages_by_size", sizes_json(measured)},
          {"notes", measured.notes},
          {"checked_bytes", measured.checked_bytes},
          {"wrong", measured.bad},
          {"interrupted", measured.interrupted},
          {"seconds", measured.seconds}};
}

}  // namespace

std::string json_report(const std::string& tool, const cli::Setup& setup,
                        const std::vector<Judged>& workloads) {
  auto report = origin_json(tool, setup);
  if (workloads.size() == 1) {
    report.update(judged_json(workloads[0]));
  } else {
    for (const auto& one : workloads) report["workloads"].push_back(judged_json(one));
  }
  // Program output ends up in notes; whatever it holds must not make the report fail.
  return report.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace ferry::bench
