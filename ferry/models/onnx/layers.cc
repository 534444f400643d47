#include <algorithm>
#include <array>

#include "ferry/models/onnx/call.h"

// Windows over images, products with weights, normalisation.

namespace ferry::models::onnx {
namespace {

using graph::Expr;
using graph::Pads;
using graph::Pair;
using Order = Value::Order;

struct Window {
  Pair size;
  graph::Sliding sliding;
  bool ceil = false;  // a last place that sees only a part of the image counts
};

Status check_numbers(const Dims& numbers, std::size_t count, std::int64_t least,
                     std::string_view what) {
  constexpr std::int64_t kMost = 1 << 20;
  const bool fit = std::all_of(numbers.begin(), numbers.end(),
                               [&](auto each) { return each >= least && each <= kMost; });
  if (numbers.size() == count && fit) return {};
  return fail(Code::kInvalidArgument, "'{}' is not {} numbers from {} to {}", what, count, least,
              kMost);
}

// With which n rows become ceil(n / stride): the odd one comes first for SAME_LOWER.
Pads same_pads_of(Call& call, Expr x, const Window& window, bool lower) {
  auto pads = call.builder().status() ? same_pads(x, window.size, window.sliding.strides) : Pads{};
  if (lower) {
    std::swap(pads[0], pads[2]);
    std::swap(pads[1], pads[3]);
  }
  return pads;
}

// More padding at the end, with which a place that sees only a part of the image is one. It must
// begin inside of the image or of the padding before it.
std::int64_t more_padding(const Window& window, std::int64_t length, std::size_t side) {
  const auto size = window.size.at(side);
  const auto stride = window.sliding.strides.at(side);
  const auto before = window.sliding.pads.at(side);
  const auto after = window.sliding.pads.at(side + 2);
  const auto room = length + before + after - size;
  if (room < 0 || room % stride == 0) return 0;
  const auto last = (room / stride + 1) * stride;  // where the part begins
  return last < length + before ? last - room : 0;
}

Result<Window> window_of(Call& call, Expr x, const Dims& size) {
  FERRY_TRY(check_numbers(size, 2, 1, "kernel_shape"));
  const auto strides = call.attribute("strides", Dims{1, 1});
  FERRY_TRY(check_numbers(strides, 2, 1, "strides"));
  const auto pads = call.attribute("pads", Dims{0, 0, 0, 0});
  FERRY_TRY(check_numbers(pads, 4, 0, "pads"));
  if (call.attribute("dilations", Dims{1, 1}) != Dims{1, 1})
    return fail(Code::kUnimplemented, "windows with holes ('dilations') are not there");
  Window window{.size = {size[0], size[1]}, .sliding = {.strides = {strides[0], strides[1]}}};
  const auto automatic = call.attribute("auto_pad", "NOTSET");
  if (automatic == "NOTSET" || automatic.empty()) {
    std::copy(pads.begin(), pads.end(), window.sliding.pads.begin());
  } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    window.sliding.pads = same_pads_of(call, x, window, automatic == "SAME_LOWER");
  } else if (automatic != "VALID") {
    return fail(Code::kInvalidArgument, "there is no padding '{}'", automatic);
  }
  return window;
}

Result<Window> pool_window_of(Call& call, Expr x) {
  auto window = FERRY_TRY(window_of(call, x, call.attribute("kernel_shape", Dims{})));
  if (call.attribute("ceil_mode", std::int64_t{0}) == 0) return window;
  for (std::size_t side = 0; side < 2; ++side) {
    const auto more = more_padding(window, x.spec().shape.dim(side + 1), side);
    window.sliding.pads.at(side + 2) += more;
    window.ceil = window.ceil || more > 0;
  }
  return window;
}

// A constant that is computed, not one of the file's own.
bool is_made_of_zeros(Call& call, const Value& value) {
  if (value.expr || value.known.type() != tensor::ElementType::kF32) return false;
  const auto& weights = call.import().file.initializers;
  const bool own = std::any_of(weights.begin(), weights.end(),
                               [&](const auto& each) { return each.name == value.name; });
  const auto elements = value.known.elements<float>();
  return !own && std::all_of(elements.begin(), elements.end(), [](float x) { return x == 0; });
}

Result<Value> conv_node(Call& call) {
  if (call.attribute("group", std::int64_t{1}) != 1)
    return fail(Code::kUnimplemented, "a convolution of several groups is not there");
  const auto x = FERRY_TRY(call.image(0));
  const auto filter = FERRY_TRY(call.input(1));
  const auto dims = filter.dims();
  if (dims.size() != 4)
    return fail(Code::kUnimplemented,
                "its weight '{}' has {} dimensions; only images, of 4, are there", filter.name,
                dims.size());
  const auto window = FERRY_TRY(window_of(call, x, {dims[2], dims[3]}));
  const Move move{dims, {2, 3, 1, 0}, {dims[2], dims[3], dims[1], dims[0]}};
  const auto w = FERRY_TRY(call.weight(filter, move));
  auto y = conv2d(x, w, window.sliding);
  if (!call.has(2)) return image_value(y);
  const auto bias = FERRY_TRY(call.input(2));
  // PyTorch writes a layer without a bias as one whose bias is made of zeros: no weight of it.
  if (is_made_of_zeros(call, bias)) return image_value(y);
  return image_value(y + FERRY_TRY(call.weight(bias)));
}

Result<Value> max_pool_node(Call& call) {
  const auto x = FERRY_TRY(call.image(0));
  const auto window = FERRY_TRY(pool_window_of(call, x));
  return image_value(max_pool(x, window.size, window.sliding));
}

// How much of each place's window is on the image, along one side.
std::vector<float> shares_of(const Window& window, std::int64_t length, std::size_t side) {
  const auto size = window.size.at(side);
  const auto before = window.sliding.pads.at(side);
  const auto end = length + before + window.sliding.pads.at(side + 2) - size;
  std::vector<float> shares;
  for (std::int64_t at = 0; at <= end; at += window.sliding.strides.at(side)) {
    const auto seen = std::min(at - before + size, length) - std::max<std::int64_t>(at - before, 0);
    shares.push_back(static_cast<float>(seen) / static_cast<float>(size));
  }
  return shares;
}

// Our averages leave padding out; where it counts, they are that much smaller.
Result<Expr> with_padding(Call& call, Expr x, const Window& window, Expr y) {
  constexpr std::int64_t kMost = 1 << 20;
  if (window.ceil)
    return fail(Code::kUnimplemented, "'count_include_pad' together with 'ceil_mode' is not there");
  const Dims dims = {1, y.spec().shape.dim(1), y.spec().shape.dim(2), 1};
  if (product_of(dims) > kMost)
    return fail(Code::kUnimplemented, "averages of more than {} places with 'count_include_pad'",
                kMost);
  const auto rows = shares_of(window, x.spec().shape.dim(1), 0);
  const auto columns = shares_of(window, x.spec().shape.dim(2), 1);
  std::vector<float> shares;
  for (const auto row : rows)
    for (const auto column : columns) shares.push_back(row * column);
  const auto factor = FERRY_TRY(tensor_of_reals(dims, shares));
  return y * call.builder().constant(factor);
}

Result<Value> average_pool_node(Call& call) {
  const auto x = FERRY_TRY(call.image(0));
  const auto window = FERRY_TRY(pool_window_of(call, x));
  const auto y = FERRY_TRY(call.checked(avg_pool(x, window.size, window.sliding)));
  const bool counts = call.attribute("count_include_pad", std::int64_t{0}) != 0;
  if (!counts || window.sliding.pads == Pads{}) return image_value(y);
  return image_value(FERRY_TRY(with_padding(call, x, window, y)));
}

Result<Value> global_average_pool_node(Call& call) {
  return image_value(mean(FERRY_TRY(call.image(0)), {1, 2}, true));
}

// With the statistics of the batch: what the file says of others is left out.
Result<Value> batch_norm_node(Call& call) {
  const auto value = FERRY_TRY(call.input(0));
  const auto rank = value.dims().size();
  if (rank != 2 && rank != 4)
    return fail(Code::kUnimplemented, "'{}' has {} dimensions; 2 and 4 are there", value.name,
                rank);
  const auto x = FERRY_TRY(rank == 4 ? call.image(0) : call.plain(0));
  const auto factor = FERRY_TRY(call.input(1));
  const auto scale = FERRY_TRY(call.weight(factor));
  const auto term = FERRY_TRY(call.input(2));
  const auto shift = FERRY_TRY(call.weight(term));
  const auto y = batch_norm(x, scale, shift, call.attribute("epsilon", 1e-5));
  return rank == 4 ? image_value(y) : plain_value(y);
}

Result<Value> lrn_node(Call& call) {
  const auto size = call.attribute("size", std::int64_t{0});
  if (size % 2 == 0)
    return fail(Code::kUnimplemented, "windows of an even number of channels ({}) are not there",
                size);
  return image_value(lrn(FERRY_TRY(call.image(0)), {.size = size,
                                                    .alpha = call.attribute("alpha", 1e-4),
                                                    .beta = call.attribute("beta", 0.75),
                                                    .bias = call.attribute("bias", 1.0)}));
}

// The weight of a product, [K, N], its rows in the order in which the columns of x lie.
Result<Expr> matrix_of(Call& call, const Value& x, const Value& weight, bool transposed) {
  const auto dims = weight.dims();
  const auto rows = dims[transposed ? 1 : 0];
  const auto columns = dims[transposed ? 0 : 1];
  Move move{dims, transposed ? Dims{1, 0} : Dims{0, 1}, {rows, columns}};
  if (x.order == Order::kColumns && product_of(x.image) == rows) {
    const auto c = x.image[0];
    const auto h = x.image[1];
    const auto w = x.image[2];
    move.view = transposed ? Dims{columns, c, h, w} : Dims{c, h, w, columns};
    move.order = transposed ? Dims{2, 3, 1, 0} : Dims{1, 2, 0, 3};
  }
  return call.weight(weight, move);
}

Result<Expr> product_with_weight(Call& call, const Value& x, const Value& weight, bool transposed) {
  const auto w = FERRY_TRY(matrix_of(call, x, weight, transposed));
  if (x.order == Order::kColumns) return matmul(x.expr, w);
  auto rows = FERRY_TRY(call.plain_of(x));
  auto dims = x.dims();
  if (dims.size() == 2) return matmul(rows, w);
  // Many rows for each sample.
  const auto width = dims.back();
  dims.back() = w.spec().shape.dim(1);
  return reshape(matmul(reshape(rows, {-1, width}), w), dims);
}

Result<Value> gemm_node(Call& call) {
  const auto a = FERRY_TRY(call.input(0));
  const auto b = FERRY_TRY(call.input(1));
  const bool ta = call.attribute("transA", std::int64_t{0}) != 0;
  const bool tb = call.attribute("transB", std::int64_t{0}) != 0;
  if (a.dims().size() != 2 || b.dims().size() != 2)
    return fail(Code::kInvalidArgument, "its inputs '{}' and '{}' are not matrices", a.name,
                b.name);
  Expr y;
  if (b.expr || ta) {
    const auto left = FERRY_TRY(call.plain_of(a));
    const auto right = FERRY_TRY(b.expr ? call.plain_of(b) : call.weight(b));
    y = matmul(left, right, ta, tb);
  } else {
    y = FERRY_TRY(product_with_weight(call, a, b, tb));
  }
  if (const auto alpha = call.attribute("alpha", 1.0); alpha != 1) y = y * alpha;
  if (!call.has(2)) return plain_value(y);
  const auto c = FERRY_TRY(call.input(2));
  auto bias = FERRY_TRY(c.expr ? call.plain_of(c) : call.weight(c));
  if (const auto beta = call.attribute("beta", 1.0); beta != 1) bias = bias * beta;
  return plain_value(y + bias);
}

Result<Value> matmul_node(Call& call) {
  const auto a = FERRY_TRY(call.input(0));
  const auto b = FERRY_TRY(call.input(1));
  if (a.dims().size() < 2 || b.dims().size() != 2 || (b.expr && a.dims().size() != 2))
    return fail(Code::kUnimplemented,
                "products of '{}' and '{}' are not there: only of matrices, or by a constant one",
                a.name, b.name);
  if (b.expr) {
    const auto left = FERRY_TRY(call.plain_of(a));
    return plain_value(matmul(left, FERRY_TRY(call.plain_of(b))));
  }
  auto y = plain_value(FERRY_TRY(product_with_weight(call, a, b, false)));
  y.product = true;
  return y;
}

Result<Value> dropout_node(Call& call) {
  auto value = FERRY_TRY(call.input(0));
  const auto rate = call.has(1) ? FERRY_TRY(call.real(1)) : call.attribute("ratio", 0.5);
  if (rate == 0) return value;
  if (!value.expr) value.expr = FERRY_TRY(call.plain_of(value));
  // Another seed for each layer.
  const auto seed = static_cast<std::int64_t>(call.builder().graph().size());
  value.expr = dropout(value.expr, rate, seed);
  return value;
}

}  // namespace

std::span<const Operator> layer_operators() {
  static constexpr std::array kAll = {
      Operator{"Conv", conv_node},
      Operator{"MaxPool", max_pool_node},
      Operator{"AveragePool", average_pool_node},
      Operator{"GlobalAveragePool", global_average_pool_node},
      Operator{"BatchNormalization", batch_norm_node},
      Operator{"LRN", lrn_node},
      Operator{"Gemm", gemm_node},
      Operator{"MatMul", matmul_node},
      Operator{"Dropout", dropout_node},
  };
  return kAll;
}

}  // namespace ferry::models::onnx
