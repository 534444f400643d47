#include "ferry/models/classifier_internal.h"
#include "ferry/models/layers_internal.h"

namespace ferry::models {

Model image_model(const ImageModel& about, const ModelOptions& options, ImageTower tower) {
  const auto images = *tensor::Shape::of({options.batch, about.side, about.side, about.channels});
  std::vector<ModelInput> inputs = {
      {"images", {tensor::ElementType::kF32, images}},
      {"labels", {tensor::ElementType::kI32, *tensor::Shape::of({options.batch})}, about.classes}};
  auto build = [inputs, tower = std::move(tower)](graph::Builder& builder) {
    const auto pictures = builder.input(inputs[0].name, inputs[0].spec);
    return tower(pictures, builder.input(inputs[1].name, inputs[1].spec));
  };
  return {about.name, about.feeds, std::move(inputs), std::move(build), about.facts};
}

Model image_classifier(const ImageModel& about, const ModelOptions& options, ImageLogits logits) {
  return image_model(about, options,
                     [logits = std::move(logits)](graph::Expr images, graph::Expr labels) {
                       return classify(logits(images), labels);
                     });
}

}  // namespace ferry::models
