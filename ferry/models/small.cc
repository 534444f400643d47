// Models that train in minutes on a laptop.
#include "ferry/models/catalogue_internal.h"
#include "ferry/models/layers_internal.h"

namespace ferry::models {
namespace {

using graph::Builder;
using graph::Expr;
using tensor::ElementType;

constexpr std::int64_t kSide = 28;
constexpr std::int64_t kClasses = 10;

std::vector<ModelInput> small_image_inputs(std::int64_t batch) {
  return {{"images", {ElementType::kF32, *tensor::Shape::of({batch, kSide, kSide, 1})}},
          {"labels", {ElementType::kI32, *tensor::Shape::of({batch})}}};
}

Model small_classifier(std::string name, std::int64_t batch, std::function<Expr(Expr)> logits) {
  auto inputs = small_image_inputs(batch);
  auto tower = [inputs, logits = std::move(logits)](Builder& builder) {
    const auto images = builder.input(inputs[0].name, inputs[0].spec);
    const auto labels = builder.input(inputs[1].name, inputs[1].spec);
    return classify(logits(images), labels);
  };
  return {std::move(name), Feeds::kImages, std::move(inputs), std::move(tower)};
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
  return small_classifier("lenet", options.batch, lenet_logits);
}
Model mlp(const ModelOptions& options) {
  return small_classifier("mlp", options.batch, [](Expr x) { return mlp_logits(x, 256, 2); });
}
Model mlp_2048(const ModelOptions& options) {
  return small_classifier("mlp-2048", options.batch, [](Expr x) { return mlp_logits(x, 2048, 2); });
}

}  // namespace ferry::models
