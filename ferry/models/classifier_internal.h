#pragma once

#include <functional>

#include "ferry/models/model.h"

namespace ferry::models {

// A classifier of square images: what it is, apart from its layers.
struct ImageModel {
  std::string name;
  ModelFacts facts;
  Feeds feeds = Feeds::kSynthetic;
  std::int64_t side = 224;
  std::int64_t channels = 3;
  std::int64_t classes = 10;
};

// From "images" f32 [B, side, side, channels] and "labels" i32 [B].
using ImageTower = std::function<graph::Tower(graph::Expr images, graph::Expr labels)>;
Model image_model(const ImageModel& about, const ModelOptions& options, ImageTower tower);
// One whose only loss is that of its classes.
using ImageLogits = std::function<graph::Expr(graph::Expr images)>;
Model image_classifier(const ImageModel& about, const ModelOptions& options, ImageLogits logits);

}  // namespace ferry::models
