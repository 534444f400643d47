#include "ferry/models/catalogue_internal.h"
#include "ferry/models/classifier_internal.h"
#include "ferry/models/layers_internal.h"

// Inception, versions 3 and 4. Every convolution is followed by a batch normalization without a
// scale, since the next convolution has one.

namespace ferry::models {
namespace {

using graph::Expr;
using graph::Pair;

constexpr Pair kSingle = {1, 1};
constexpr Pair kSquare = {3, 3};
constexpr bool kNoPads = false;

struct Layer {
  std::int64_t filters;
  Pair window = kSingle;
  std::int64_t stride = 1;
  bool same = true;
};

Expr conv_shift(const std::string& name, Expr x, const Layer& layer) {
  const auto y = conv(name, x, layer.filters,
                      {.window = layer.window,
                       .strides = {layer.stride, layer.stride},
                       .same = layer.same,
                       .bias = false});
  return relu(normalize(name, y, Scale::kOne));
}

// Layers one after the other, named after the branch.
Expr branch(const std::string& name, Expr x, const std::vector<Layer>& layers) {
  for (std::size_t index = 0; index < layers.size(); ++index)
    x = conv_shift(fmt::format("{}/conv{}", name, index + 1), x, layers[index]);
  return x;
}

Expr beside(const std::vector<Expr>& branches) { return concat(branches, 3); }

// A row and a column of filters, side by side.
Expr cross(const std::string& name, Expr x, std::int64_t filters) {
  return beside({branch(name + "/row", x, {{filters, {1, 3}}}),
                 branch(name + "/column", x, {{filters, {3, 1}}})});
}

Expr halve_inside(Expr x) { return shrink(x, {3, 3}, {2, 2}); }

Expr v3_stem(Expr x) {
  x = branch("stem/a", x, {{32, kSquare, 2, kNoPads}, {32, kSquare, 1, kNoPads}, {64, kSquare}});
  x = branch("stem/b", halve_inside(x), {{80}, {192, kSquare, 1, kNoPads}});
  return halve_inside(x);
}

Expr v3_square(const std::string& name, Expr x, std::int64_t pooled) {
  return beside({branch(name + "/b0", x, {{64}}), branch(name + "/b1", x, {{48}, {64, {5, 5}}}),
                 branch(name + "/b2", x, {{64}, {96, kSquare}, {96, kSquare}}),
                 branch(name + "/b3", average_around(x), {{pooled}})});
}

Expr v3_first_reduction(Expr x) {
  return beside({branch("6a/b0", x, {{384, kSquare, 2, kNoPads}}),
                 branch("6a/b1", x, {{64}, {96, kSquare}, {96, kSquare, 2, kNoPads}}),
                 halve_inside(x)});
}

// Windows of 7 x 7, as rows and columns.
Expr v3_long(const std::string& name, Expr x, std::int64_t n) {
  return beside(
      {branch(name + "/b0", x, {{192}}), branch(name + "/b1", x, {{n}, {n, {1, 7}}, {192, {7, 1}}}),
       branch(name + "/b2", x, {{n}, {n, {7, 1}}, {n, {1, 7}}, {n, {7, 1}}, {192, {1, 7}}}),
       branch(name + "/b3", average_around(x), {{192}})});
}

Expr v3_second_reduction(Expr x) {
  return beside(
      {branch("7a/b0", x, {{192}, {320, kSquare, 2, kNoPads}}),
       branch("7a/b1", x, {{192}, {192, {1, 7}}, {192, {7, 1}}, {192, kSquare, 2, kNoPads}}),
       halve_inside(x)});
}

Expr v3_wide(const std::string& name, Expr x) {
  return beside({branch(name + "/b0", x, {{320}}),
                 cross(name + "/b1", branch(name + "/b1", x, {{384}}), 384),
                 cross(name + "/b2", branch(name + "/b2", x, {{448}, {384, kSquare}}), 384),
                 branch(name + "/b3", average_around(x), {{192}})});
}

// Up to where the auxiliary classifier looks.
Expr v3_lower(Expr x) {
  x = v3_stem(x);
  x = v3_square("5b", x, 32);
  x = v3_square("5c", x, 64);
  x = v3_square("5d", x, 64);
  x = v3_first_reduction(x);
  x = v3_long("6b", x, 128);
  x = v3_long("6c", x, 160);
  x = v3_long("6d", x, 160);
  return v3_long("6e", x, 192);
}

Expr v3_upper(Expr x, std::int64_t classes) {
  x = v3_wide("7c", v3_wide("7b", v3_second_reduction(x)));
  return dense("out", dropout(average_over_image(x), 0.2, 1), classes);
}

Expr v3_auxiliary(Expr x, std::int64_t classes) {
  x = avg_pool(x, {5, 5}, {.strides = {3, 3}});
  x = branch("auxiliary", x, {{128}, {768, {5, 5}, 1, kNoPads}});
  return dense("auxiliary/out", flatten(x), classes);
}

Expr v4_stem(Expr x) {
  x = branch("stem/a", x, {{32, kSquare, 2, kNoPads}, {32, kSquare, 1, kNoPads}, {64, kSquare}});
  x = beside({halve_inside(x), branch("stem/b", x, {{96, kSquare, 2, kNoPads}})});
  x = beside({branch("stem/c", x, {{64}, {96, kSquare, 1, kNoPads}}),
              branch("stem/d", x, {{64}, {64, {1, 7}}, {64, {7, 1}}, {96, kSquare, 1, kNoPads}})});
  return beside({branch("stem/e", x, {{192, kSquare, 2, kNoPads}}), halve_inside(x)});
}

Expr v4_square(const std::string& name, Expr x) {
  return beside({branch(name + "/b0", x, {{96}}), branch(name + "/b1", x, {{64}, {96, kSquare}}),
                 branch(name + "/b2", x, {{64}, {96, kSquare}, {96, kSquare}}),
                 branch(name + "/b3", average_around(x), {{96}})});
}

Expr v4_first_reduction(Expr x) {
  return beside({branch("reduction_a/b0", x, {{384, kSquare, 2, kNoPads}}),
                 branch("reduction_a/b1", x, {{192}, {224, kSquare}, {256, kSquare, 2, kNoPads}}),
                 halve_inside(x)});
}

Expr v4_long(const std::string& name, Expr x) {
  return beside(
      {branch(name + "/b0", x, {{384}}),
       branch(name + "/b1", x, {{192}, {224, {1, 7}}, {256, {7, 1}}}),
       branch(name + "/b2", x, {{192}, {192, {7, 1}}, {224, {1, 7}}, {224, {7, 1}}, {256, {1, 7}}}),
       branch(name + "/b3", average_around(x), {{128}})});
}

Expr v4_second_reduction(Expr x) {
  return beside({branch("reduction_b/b0", x, {{192}, {192, kSquare, 2, kNoPads}}),
                 branch("reduction_b/b1", x,
                        {{256}, {256, {1, 7}}, {320, {7, 1}}, {320, kSquare, 2, kNoPads}}),
                 halve_inside(x)});
}

Expr v4_wide(const std::string& name, Expr x) {
  const auto deep = branch(name + "/b2", x, {{384}, {448, {3, 1}}, {512, {1, 3}}});
  return beside({branch(name + "/b0", x, {{256}}),
                 cross(name + "/b1", branch(name + "/b1", x, {{384}}), 256),
                 cross(name + "/b2", deep, 256), branch(name + "/b3", average_around(x), {{256}})});
}

Expr v4_logits(Expr x, std::int64_t classes) {
  x = v4_stem(x);
  for (int block = 1; block <= 4; ++block) x = v4_square(fmt::format("a{}", block), x);
  x = v4_first_reduction(x);
  for (int block = 1; block <= 7; ++block) x = v4_long(fmt::format("b{}", block), x);
  x = v4_second_reduction(x);
  for (int block = 1; block <= 3; ++block) x = v4_wide(fmt::format("c{}", block), x);
  return dense("out", dropout(average_over_image(x), 0.2, 1), classes);
}

}  // namespace

Model inception_v3(const ModelOptions& options) {
  const ImageModel about{.name = "inception-v3",
                         .facts = {.paper_mib = 92.90, .paper_variables = 196, .seconds = 68.32e-3},
                         .side = 299};
  return image_model(about, options, [classes = about.classes](Expr images, Expr labels) {
    constexpr double kAuxiliaryWeight = 0.4;
    const auto lower = v3_lower(images);
    const auto auxiliary = mean(softmax_cross_entropy(v3_auxiliary(lower, classes), labels));
    auto tower = classify(v3_upper(lower, classes), labels);
    tower.loss = tower.loss + kAuxiliaryWeight * auxiliary;
    return tower;
  });
}

Model inception_v4(const ModelOptions& options) {
  const ImageModel about{
      .name = "inception-v4", .facts = {.like = "inception-v3"}, .side = 299, .classes = 1000};
  return image_classifier(about, options, [classes = about.classes](Expr images) {
    return v4_logits(images, classes);
  });
}

}  // namespace ferry::models
