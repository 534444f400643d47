#include "ferry/models/model.h"

#include <fmt/ranges.h>

#include <array>

#include "ferry/models/catalogue_internal.h"
#include "ferry/models/onnx/onnx.h"

namespace ferry::models {
namespace {

struct Known {
  std::string_view name;
  Model (*make)(const ModelOptions&);
};
constexpr std::array kKnown = {Known{"lenet", lenet},
                               Known{"mlp", mlp},
                               Known{"mlp-2048", mlp_2048},
                               Known{"lstm-text", lstm_text},
                               Known{"gru-text", gru_text},
                               Known{"fcn-5", fcn_5},
                               Known{"alexnet", alexnet},
                               Known{"vgg-16", vgg_16},
                               Known{"googlenet", googlenet},
                               Known{"inception-v3", inception_v3},
                               Known{"inception-v4", inception_v4},
                               Known{"resnet-50", resnet_50},
                               Known{"resnet-152", resnet_152},
                               Known{"lstm", lstm_model},
                               Known{"gru", gru_model},
                               Known{"seq2seq", seq2seq}};

}  // namespace

Result<Model> make_model(std::string_view name, const ModelOptions& options) {
  if (options.batch < 1)
    return fail(Code::kInvalidArgument, "a batch has at least one sample, not {}", options.batch);
  if (name.ends_with(".onnx")) return onnx::model_in(std::string(name), options);
  for (const auto& known : kKnown)
    if (known.name == name) return known.make(options);
  return fail(Code::kNotFound, "there is no model '{}'; there are FILE.onnx, {}", name,
              fmt::join(model_names(), ", "));
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  names.reserve(kKnown.size());
  for (const auto& known : kKnown) names.emplace_back(known.name);
  return names;
}

}  // namespace ferry::models
