#include "ferry/models/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/models/catalogue_internal.h"
#include "ferry/models/onnx_model_internal.h"

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

struct Registered {
  Mutex lock;
  std::vector<std::pair<std::string, MakeModel>> models FERRY_GUARDED_BY(lock);
};
Registered& registered() {
  static Registered all;
  return all;
}
MakeModel find_registered(std::string_view name) {
  auto& all = registered();
  LockGuard<Mutex> guard(all.lock);
  for (const auto& [known, make] : all.models)
    if (known == name) return make;
  return {};
}

}  // namespace

Result<Model> make_model(std::string_view name, const ModelOptions& options) {
  if (options.batch < 1)
    return fail(Code::kInvalidArgument, "a batch has at least one sample, not {}", options.batch);
  if (name.ends_with(".onnx")) return onnx::model_in(std::string(name), options);
  for (const auto& known : kKnown)
    if (known.name == name) return known.make(options);
  if (const auto make = find_registered(name)) return make(options);
  return fail(Code::kNotFound, "there is no model '{}'; there are FILE.onnx, {}", name,
              fmt::join(model_names(), ", "));
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  names.reserve(kKnown.size());
  for (const auto& known : kKnown) names.emplace_back(known.name);
  auto& all = registered();
  LockGuard<Mutex> guard(all.lock);
  for (const auto& [name, make] : all.models) names.push_back(name);
  return names;
}

Status register_model(std::string name, MakeModel make) {
  if (name.empty() || name.ends_with(".onnx") || !make)
    return fail(Code::kInvalidArgument, "a model needs a name, which is no file's, and a function");
  auto& all = registered();
  LockGuard<Mutex> guard(all.lock);
  const bool ours = std::any_of(kKnown.begin(), kKnown.end(),
                                [&](const auto& known) { return known.name == name; });
  const bool theirs = std::any_of(all.models.begin(), all.models.end(),
                                  [&](const auto& known) { return known.first == name; });
  if (ours || theirs) return fail(Code::kAlreadyExists, "there is a model '{}' already", name);
  all.models.emplace_back(std::move(name), std::move(make));
  return {};
}

}  // namespace ferry::models
