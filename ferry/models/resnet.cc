#include <array>

#include "ferry/models/catalogue_internal.h"
#include "ferry/models/classifier_internal.h"
#include "ferry/models/layers_internal.h"

namespace ferry::models {
namespace {

using graph::Expr;

constexpr std::int64_t kWidening = 4;  // what leaves a block is so many times as wide as its middle

Expr conv_normal(const std::string& name, Expr x, std::int64_t filters, std::int64_t window,
                 std::int64_t stride) {
  const auto y = conv(name, x, filters,
                      {.window = {window, window}, .strides = {stride, stride}, .bias = false});
  return normalize(name, y, Scale::kLearned);
}

// Narrow, work, widen; and around that x itself, made to fit where it does not.
Expr bottleneck(const std::string& name, Expr x, std::int64_t middle, std::int64_t stride) {
  auto y = relu(conv_normal(name + "/narrow", x, middle, 1, 1));
  y = relu(conv_normal(name + "/work", y, middle, 3, stride));
  y = conv_normal(name + "/widen", y, middle * kWidening, 1, 1);
  const bool fits = x && stride == 1 && width_of(x) == middle * kWidening;
  return relu(y + (fits ? x : conv_normal(name + "/around", x, middle * kWidening, 1, stride)));
}

using Blocks = std::array<int, 4>;  // of each stage

Expr resnet_logits(Expr images, const Blocks& blocks, std::int64_t classes) {
  auto x = halve(relu(conv_normal("conv1", images, 64, 7, 2)));
  std::int64_t middle = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage, middle *= 2)
    for (int block = 0; block < blocks[stage]; ++block)
      x = bottleneck(fmt::format("stage{}/block{}", stage + 1, block + 1), x, middle,
                     stage > 0 && block == 0 ? 2 : 1);
  return dense("out", average_over_image(x), classes);
}

Model resnet(std::string name, const Blocks& blocks, const ModelOptions& options) {
  const ImageModel about{
      .name = std::move(name), .facts = {.like = "inception-v3"}, .classes = 1000};
  return image_classifier(about, options, [blocks, classes = about.classes](Expr images) {
    return resnet_logits(images, blocks, classes);
  });
}

}  // namespace

Model resnet_50(const ModelOptions& options) { return resnet("resnet-50", {3, 4, 6, 3}, options); }
Model resnet_152(const ModelOptions& options) {
  return resnet("resnet-152", {3, 8, 36, 3}, options);
}

}  // namespace ferry::models
