#include "bench/ps/json.h"

#include <nlohmann/json.hpp>

#include "bench/report/origin.h"

namespace ferry::bench {
namespace {

using nlohmann::json;

json figure_json(const PsFigure& figure) {
  json out = {{"id", figure.id},           {"what", figure.sentence},
              {"unit", figure.unit},       {"ours", figure.ours},
              {"other", figure.other},     {"compared", figure.is_compared()},
              {"bound", figure.bound},     {"is_at_most", figure.at_most},
              {"skipped", figure.skipped}, {"verdict", figure.verdict()}};
  if (!figure.skipped.empty()) return out;
  out["ours_estimate"] = estimate_json(cli::estimate(figure.ours));
  out["other_estimate"] = estimate_json(cli::estimate(figure.other));
  out["ratio"] = estimate_json(figure.ratio());
  return out;
}

json speed_json(const PsSpeed& speed) {
  return {{"steps", speed.way},
          {"block_bytes", speed.block},
          {"workers", speed.workers},
          {"gb_per_second", speed.gb_per_second}};
}

json training_json(const PsTraining& training) {
  return {{"training", training.way},
          {"workers", training.workers},
          {"images_per_second", training.images_per_second},
          {"step_seconds", training.step_seconds},
          {"communicating", training.communicating},
          {"of_alone", training.of_alone},
          {"loss", training.loss},
          {"accuracy", training.accuracy}};
}

}  // namespace

std::string ps_json(const PsResults& results, const cli::Setup& setup) {
  auto report = origin_json("ferry bench ps", setup);
  report["figures"] = json::array();
  report["speeds"] = json::array();
  report["trainings"] = json::array();
  for (const auto& figure : results.figures) report["figures"].push_back(figure_json(figure));
  for (const auto& speed : results.speeds) report["speeds"].push_back(speed_json(speed));
  for (const auto& one : results.trainings) report["trainings"].push_back(training_json(one));
  return report.dump(2) + "\n";
}

}  // namespace ferry::bench
