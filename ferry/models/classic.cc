// Convolutional networks without normalization.
#include "ferry/models/catalogue_internal.h"
#include "ferry/models/classifier_internal.h"
#include "ferry/models/layers_internal.h"

namespace ferry::models {
namespace {

using graph::Expr;
using graph::Pair;

Expr conv_relu(const std::string& name, Expr x, std::int64_t filters, Pair window = {3, 3}) {
  return relu(conv(name, x, filters, {.window = window}));
}

// Two wide layers, half of which is dropped in each step, and the classes.
Expr wide_head(Expr x, std::int64_t classes) {
  x = dropout(relu(dense("fc6", flatten(x), 4096)), 0.5, 6);
  x = dropout(relu(dense("fc7", x, 4096)), 0.5, 7);
  return dense("fc8", x, classes);
}

// The second version, for one device.
Expr alexnet_logits(Expr images, std::int64_t classes) {
  auto x = relu(conv("conv1", images, 64, {.window = {11, 11}, .strides = {4, 4}, .same = false}));
  x = shrink(x, {3, 3}, {2, 2});
  x = shrink(conv_relu("conv2", x, 192, {5, 5}), {3, 3}, {2, 2});
  x = conv_relu("conv3", x, 384);
  x = conv_relu("conv4", x, 384);
  x = conv_relu("conv5", x, 256);
  return wide_head(shrink(x, {3, 3}, {2, 2}), classes);
}

Expr vgg16_logits(Expr images, std::int64_t classes) {
  struct Stage {
    int layers;
    std::int64_t filters;
  };
  auto x = images;
  int number = 1;
  for (const auto& stage :
       {Stage{2, 64}, Stage{2, 128}, Stage{3, 256}, Stage{3, 512}, Stage{3, 512}}) {
    for (int layer = 1; layer <= stage.layers; ++layer)
      x = conv_relu(fmt::format("conv{}_{}", number, layer), x, stage.filters);
    x = shrink(x, {2, 2}, {2, 2});
    ++number;
  }
  return wide_head(x, classes);
}

// The filters of one module of GoogLeNet; narrow layers come before the windows of 3 and 5.
struct Module {
  std::int64_t one;
  std::int64_t narrow3;
  std::int64_t three;
  std::int64_t narrow5;
  std::int64_t five;
  std::int64_t pool;
};

Expr googlenet_module(const std::string& name, Expr x, const Module& of) {
  const auto one = conv_relu(name + "/1x1", x, of.one, {1, 1});
  const auto narrow3 = conv_relu(name + "/3x3_reduce", x, of.narrow3, {1, 1});
  const auto three = conv_relu(name + "/3x3", narrow3, of.three);
  const auto narrow5 = conv_relu(name + "/5x5_reduce", x, of.narrow5, {1, 1});
  const auto five = conv_relu(name + "/5x5", narrow5, of.five, {5, 5});
  const auto largest = max_pool(x, {3, 3}, {.pads = same_pads(x, {3, 3})});
  return graph::concat({one, three, five, conv_relu(name + "/pool", largest, of.pool, {1, 1})}, 3);
}

Expr googlenet_logits(Expr images, std::int64_t classes) {
  auto x = relu(conv("conv1", images, 64, {.window = {7, 7}, .strides = {2, 2}}));
  x = lrn(halve(x));
  x = conv_relu("conv2_reduce", x, 64, {1, 1});
  x = halve(lrn(conv_relu("conv2", x, 192)));
  x = googlenet_module("3a", x, {64, 96, 128, 16, 32, 32});
  x = halve(googlenet_module("3b", x, {128, 128, 192, 32, 96, 64}));
  x = googlenet_module("4a", x, {192, 96, 208, 16, 48, 64});
  x = googlenet_module("4b", x, {160, 112, 224, 24, 64, 64});
  x = googlenet_module("4c", x, {128, 128, 256, 24, 64, 64});
  x = googlenet_module("4d", x, {112, 144, 288, 32, 64, 64});
  x = halve(googlenet_module("4e", x, {256, 160, 320, 32, 128, 128}));
  x = googlenet_module("5a", x, {256, 160, 320, 32, 128, 128});
  x = googlenet_module("5b", x, {384, 192, 384, 48, 128, 128});
  return dense("out", dropout(average_over_image(x), 0.4, 1), classes);
}

}  // namespace

Model alexnet(const ModelOptions& options) {
  const ImageModel about{.name = "alexnet",
                         .facts = {.paper_mib = 176.42,
                                   .paper_variables = 16,
                                   .seconds = 7.61e-3,
                                   .grows_with_batch = false}};
  return image_classifier(about, options,
                          [about](Expr x) { return alexnet_logits(x, about.classes); });
}

Model vgg_16(const ModelOptions& options) {
  const ImageModel about{.name = "vgg-16",
                         .facts = {.paper_mib = 512.32,
                                   .paper_variables = 32,
                                   .seconds = 30.92e-3,
                                   .grows_with_batch = false}};
  return image_classifier(about, options,
                          [about](Expr x) { return vgg16_logits(x, about.classes); });
}

Model googlenet(const ModelOptions& options) {
  const ImageModel about{.name = "googlenet", .facts = {.like = "inception-v3"}, .classes = 1000};
  return image_classifier(about, options,
                          [about](Expr x) { return googlenet_logits(x, about.classes); });
}

}  // namespace ferry::models
