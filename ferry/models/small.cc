// Models of dense layers, and others that train in minutes on a laptop.
#include "ferry/models/catalogue_internal.h"
#include "ferry/models/classifier_internal.h"
#include "ferry/models/layers_internal.h"

namespace ferry::models {
namespace {

using graph::Expr;

constexpr std::int64_t kClasses = 10;

ImageModel fashion_model(std::string name) {
  return {.name = std::move(name),
          .facts = {},
          .feeds = Feeds::kImages,
          .side = 28,
          .channels = 1,
          .classes = kClasses};
}

Expr lenet_logits(Expr images) {
  const ConvOptions window5{.window = {5, 5}};
  auto x = shrink(relu(conv("conv1", images, 32, window5)), {2, 2}, {2, 2});
  x = shrink(relu(conv("conv2", x, 64, window5)), {2, 2}, {2, 2});
  x = relu(dense("fc1", flatten(x), 512));
  return dense("fc2", x, kClasses);
}

Expr mlp_logits(Expr images, std::int64_t width, int hidden) {
  auto x = flatten(images);
  for (int layer = 1; layer <= hidden; ++layer)
    x = relu(dense(fmt::format("fc{}", layer), x, width));
  return dense("out", x, kClasses);
}

}  // namespace

Model lenet(const ModelOptions& options) {
  return image_classifier(fashion_model("lenet"), options, lenet_logits);
}
Model mlp(const ModelOptions& options) {
  return image_classifier(fashion_model("mlp"), options,
                          [](Expr x) { return mlp_logits(x, 256, 2); });
}
Model mlp_2048(const ModelOptions& options) {
  auto about = fashion_model("mlp-2048");
  about.facts = {.like = "fcn-5", .grows_with_batch = false};
  return image_classifier(about, options, [](Expr x) { return mlp_logits(x, 2048, 2); });
}
Model fcn_5(const ModelOptions& options) {
  auto about = fashion_model("fcn-5");
  about.facts = {
      .paper_mib = 204.47, .paper_variables = 10, .seconds = 4.88e-3, .grows_with_batch = false};
  return image_classifier(about, options, [](Expr x) { return mlp_logits(x, 4096, 4); });
}

}  // namespace ferry::models
