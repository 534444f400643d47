#include "bench/models/json.h"

#include <nlohmann/json.hpp>

#include "bench/report/origin.h"
#include "ferry/cli/common/sent_report.h"
#include "ferry/cli/common/stats.h"

namespace ferry::bench {
namespace {

using nlohmann::json;

json path_json(const ModelFigures& model, const PathFigures& path) {
  json out = {{"transport", path.path.name},
              {"step_seconds", path.step_seconds},
              {"steps", path.steps},
              {"sent", cli::sent_json(path.one_step)},
              {"registration", cli::registration_json(path.sent)},
              {"failed", path.failed}};
  if (path.step_seconds.empty()) return out;
  out["step"] = estimate_json(cli::estimate(path.step_seconds));
  const auto* grpc = model.path("grpc");
  if (grpc != nullptr && grpc != &path)
    out["times_grpc"] = estimate_json(cli::ratio_of_pairs(grpc->step_seconds, path.step_seconds));
  return out;
}

json model_json(const ModelFigures& model) {
  auto paths = json::array();
  for (const auto& path : model.paths) paths.push_back(path_json(model, path));
  return {{"model", model.model},
          {"variables", model.variables},
          {"variable_bytes", model.variable_bytes},
          {"crossings", model.crossings},
          {"paper_variables", model.facts.paper_variables},
          {"paper_mib", model.facts.paper_mib},
          {"emulated_seconds", model.computation},
          {"estimated", model.estimated},
          {"like", model.facts.like},
          {"plan_seconds", model.plan_seconds},
          {"memory_bound_seconds", model.memory_bound},
          {"paths", paths}};
}

json verdict_json(const ModelVerdict& verdict) {
  json out = {{"target", verdict.target->id},     {"sentence", verdict.target->sentence},
              {"model", verdict.model},           {"ours", verdict.target->path},
              {"other", verdict.target->against}, {"ratio", estimate_json(verdict.ratio)},
              {"bound", verdict.target->bound},   {"outcome", outcome_name(verdict.outcome)}};
  if (verdict.of_computation.count > 0)
    out["of_computation"] = estimate_json(verdict.of_computation);
  return out;
}

json fact_json(const RuntimeFact& fact) {
  auto out = estimate_json(fact.measured);
  out.update({{"id", fact.id},
              {"sentence", fact.sentence},
              {"unit", fact.unit},
              {"bound", fact.bound},
              {"outcome", outcome_name(fact.outcome)}});
  return out;
}

json point_json(const ScalePoint& point) {
  return {{"model", point.model},
          {"transport", point.path},
          {"workers", point.workers},
          {"step", estimate_json(point.step_seconds)},
          {"of_linear", estimate_json(point.of_linear)},
          {"bound", point.bound},
          {"failed", point.failed},
          {"outcome", outcome_name(point.outcome)}};
}

json report_of(const char* tool, const ModelsPlan& plan, const cli::Setup& setup) {
  auto report = origin_json(tool, setup);
  report.update({{"batch", plan.job.batch},
                 {"compute", plan.job.emulate ? "emulate" : "real"},
                 {"memory_bytes_per_second", plan.memory_speed}});
  return report;
}

}  // namespace

std::string models_json(const ModelsPlan& plan, const ModelResults& results,
                        const cli::Setup& setup) {
  auto report = report_of("ferry bench models", plan, setup);
  report.update({{"workers", plan.job.workers}, {"ps", plan.job.servers}});
  for (const auto& model : results.figures) report["models"].push_back(model_json(model));
  for (const auto& verdict : results.verdicts) report["verdicts"].push_back(verdict_json(verdict));
  for (const auto& fact : results.facts) report["runtime"].push_back(fact_json(fact));
  return report.dump(2) + "\n";
}

std::string scaling_json(const ModelsPlan& plan, const std::vector<ScalePoint>& points,
                         const cli::Setup& setup) {
  auto report = report_of("ferry bench models --scaling", plan, setup);
  report["points"] = json::array();
  for (const auto& point : points) report["points"].push_back(point_json(point));
  return report.dump(2) + "\n";
}

}  // namespace ferry::bench
