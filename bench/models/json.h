#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/models/facts.h"
#include "bench/models/measure.h"
#include "bench/models/scaling.h"
#include "bench/models/targets.h"
#include "ferry/cli/common/setup.h"

namespace ferry::bench {

struct ModelResults {
  std::vector<ModelFigures> figures;
  std::vector<ModelVerdict> verdicts;
  std::vector<RuntimeFact> facts;
};

// Everything that was measured by the plan, each repetition included, as one JSON object with a
// final newline.
std::string models_json(const ModelsPlan& plan, const ModelResults& results,
                        const cli::Setup& setup);
// The same for --scaling.
std::string scaling_json(const ModelsPlan& plan, const std::vector<ScalePoint>& points,
                         const cli::Setup& setup);

}  // namespace ferry::bench
