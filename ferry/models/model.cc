#include "ferry/models/model.h"

#include <fmt/ranges.h>

#include <array>

#include "ferry/models/catalogue_internal.h"

namespace ferry::models {
namespace {

struct Known {
  std::string_view name;
  Model (*make)(const ModelOptions&);
};
constexpr std::array kKnown = {Known{"lenet", lenet}, Known{"mlp", mlp},
                               Known{"mlp-2048", mlp_2048}};

}  // namespace

Result<Model> make_model(std::string_view name, const ModelOptions& options) {
  if (options.batch < 1)
    return fail(Code::kInvalidArgument, "a batch has at least one sample, not {}", options.batch);
  for (const auto& known : kKnown)
    if (known.name == name) return known.make(options);
  return fail(Code::kNotFound, "there is no model '{}'; there are {}", name,
              fmt::join(model_names(), ", "));
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  names.reserve(kKnown.size());
  for (const auto& known : kKnown) names.emplace_back(known.name);
  return names;
}

}  // namespace ferry::models
