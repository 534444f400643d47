#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/graph/shapes_internal.h"
#include "ferry/graph/standard_internal.h"

// Matrices, and windows that slide over images [N, H, W, C].

namespace ferry::graph {
namespace {

using tensor::Spec;

Inferred infer_matmul(const Inference& node) {
  const auto a = FERRY_TRY(attribute_or<bool>(node, "transpose_a", false));
  const auto b = FERRY_TRY(attribute_or<bool>(node, "transpose_b", false));
  Letters dims(node);
  FERRY_TRY(dims.match(0, a ? "KM" : "MK"));
  FERRY_TRY(dims.match(1, b ? "NK" : "KN"));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['M'], dims['N']}))};
}

// Y rows and Z columns are what a filter of K x L makes of an image.
Status match_places(const Inference& node, Letters& dims) {
  const auto sliding = FERRY_TRY(sliding_of(node));
  const auto rows = FERRY_TRY(places_of(sliding, 0, dims['H'], dims['K']));
  FERRY_TRY(dims.set('Y', rows, "what the rows allow"));
  const auto columns = FERRY_TRY(places_of(sliding, 1, dims['W'], dims['L']));
  return dims.set('Z', columns, "what the columns allow");
}

Inferred infer_conv2d(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "NHWC"));
  FERRY_TRY(dims.match(1, "KLCO"));
  FERRY_TRY(match_places(node, dims));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['N'], dims['Y'], dims['Z'], dims['O']}))};
}

Inferred infer_conv2d_grad_input(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "NYZO"));
  FERRY_TRY(dims.match(1, "KLCO"));
  FERRY_TRY(dims.match(2, "NHWC"));
  FERRY_TRY(match_places(node, dims));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['N'], dims['H'], dims['W'], dims['C']}))};
}

Inferred infer_conv2d_grad_filter(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "NYZO"));
  FERRY_TRY(dims.match(1, "NHWC"));
  FERRY_TRY(dims.match(2, "KLCO"));
  FERRY_TRY(match_places(node, dims));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['K'], dims['L'], dims['C'], dims['O']}))};
}

// The window of a pool, which has at least one element of the image at each place.
Status match_pool(const Inference& node, Letters& dims) {
  const auto window = FERRY_TRY(window_of(node));
  const auto sliding = FERRY_TRY(sliding_of(node));
  for (std::size_t side = 0; side < sliding.pads.size(); ++side)
    if (sliding.pads.at(side) >= window.at(side % 2))
      return fail(Code::kInvalidArgument, "a window of {} x {} would see nothing but padding of {}",
                  window[0], window[1], sliding.pads.at(side));
  FERRY_TRY(dims.set('K', window[0], "'window'"));
  FERRY_TRY(dims.set('L', window[1], "'window'"));
  return match_places(node, dims);
}

Inferred infer_pool(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "NHWC"));
  FERRY_TRY(match_pool(node, dims));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['N'], dims['Y'], dims['Z'], dims['C']}))};
}

// dy and x, and for maxima y.
Inferred infer_pool_grad(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "NYZC"));
  FERRY_TRY(dims.match(1, "NHWC"));
  if (node.inputs.size() > 2) FERRY_TRY(dims.match(2, "NYZC"));
  FERRY_TRY(match_pool(node, dims));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['N'], dims['H'], dims['W'], dims['C']}))};
}

// y = a' b', where ' is the transpose if the attribute says so.
Status matmul_back(Gradient& g) {
  const auto ta = g.attributes().get_or<bool>("transpose_a", false);
  const auto tb = g.attributes().get_or<bool>("transpose_b", false);
  const auto a = g.input(0);
  const auto b = g.input(1);
  const auto& dy = g.incoming();
  if (g.wants(0)) g.set(0, ta ? matmul(b, dy, tb, true) : matmul(dy, b, false, !tb));
  if (g.wants(1)) g.set(1, tb ? matmul(dy, a, true, ta) : matmul(a, dy, !ta, false));
  return {};
}

Status conv2d_back(Gradient& g) {
  const auto x = g.input(0);
  const auto w = g.input(1);
  auto& add = g.builder();
  if (g.wants(0)) g.set(0, add.add("Conv2DGradInput", {g.incoming(), w, x}, g.attributes()));
  if (g.wants(1)) g.set(1, add.add("Conv2DGradFilter", {g.incoming(), x, w}, g.attributes()));
  return {};
}

Status max_pool_back(Gradient& g) {
  const std::vector<Expr> inputs = {g.incoming(), g.input(0), g.output()};
  g.set(0, g.builder().add("MaxPoolGrad", inputs, g.attributes()));
  return {};
}

Status avg_pool_back(Gradient& g) {
  g.set(0, g.builder().add("AvgPoolGrad", {g.incoming(), g.input(0)}, g.attributes()));
  return {};
}

}  // namespace

std::vector<OpDef> image_ops() {
  return {
      {"MatMul", 2, 2, infer_matmul, matmul_back},
      {"Conv2D", 2, 2, infer_conv2d, conv2d_back},
      {"Conv2DGradInput", 3, 3, infer_conv2d_grad_input},
      {"Conv2DGradFilter", 3, 3, infer_conv2d_grad_filter},
      {"MaxPool", 1, 1, infer_pool, max_pool_back},
      {"AvgPool", 1, 1, infer_pool, avg_pool_back},
      {"MaxPoolGrad", 3, 3, infer_pool_grad},
      {"AvgPoolGrad", 2, 2, infer_pool_grad},
  };
}

}  // namespace ferry::graph
