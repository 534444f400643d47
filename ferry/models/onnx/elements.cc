#include <array>
#include <cmath>
#include <limits>

#include "ferry/models/onnx/call.h"

// What is computed element by element, in whatever order the elements lie.

namespace ferry::models::onnx {
namespace {

using graph::Expr;
using tensor::ElementType;
using Order = Value::Order;

template <Expr (*function)(Expr)>
Result<Value> curve_node(Call& call) {
  auto value = FERRY_TRY(call.input(0));
  if (!value.expr) value.expr = FERRY_TRY(call.plain_of(value));
  value.expr = function(value.expr);
  value.product = false;
  return value;
}

Expr negative(Expr x) { return -x; }

enum class Arithmetic { kAdd, kSub, kMul, kDiv };

Expr computed(Arithmetic what, Expr a, Expr b) {
  switch (what) {
    case Arithmetic::kAdd:
      return a + b;
    case Arithmetic::kSub:
      return a - b;
    case Arithmetic::kMul:
      return a * b;
    case Arithmetic::kDiv:
      return a / b;
  }
  return {};
}

// None where there is no such number.
std::optional<std::int64_t> computed(Arithmetic what, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool fits = true;
  switch (what) {
    case Arithmetic::kAdd:
      fits = !__builtin_add_overflow(a, b, &result);
      break;
    case Arithmetic::kSub:
      fits = !__builtin_sub_overflow(a, b, &result);
      break;
    case Arithmetic::kMul:
      fits = !__builtin_mul_overflow(a, b, &result);
      break;
    case Arithmetic::kDiv:
      fits = b != 0 && b != -1;
      if (fits) result = a / b;
      break;
  }
  return fits ? std::optional(result) : std::nullopt;
}

// Of shapes: one number or list with another.
Result<Value> computed_wholes(Arithmetic what, const Value& a, const Value& b) {
  const auto left = a.known.elements<std::int64_t>();
  const auto right = b.known.elements<std::int64_t>();
  const bool fit = left.size() == right.size() || left.size() == 1 || right.size() == 1;
  if (!fit || left.empty() || right.empty())
    return fail(Code::kUnimplemented, "'{}' and '{}' do not fit", a.name, b.name);
  Dims results;
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const auto result =
        computed(what, left[left.size() == 1 ? 0 : i], right[right.size() == 1 ? 0 : i]);
    if (!result) return fail(Code::kInvalidArgument, "there is no such whole number");
    results.push_back(*result);
  }
  const auto& larger = left.size() >= right.size() ? a : b;
  return known_value(FERRY_TRY(tensor_of_wholes(larger.dims(), results)));
}

bool is_whole(const Value& value) { return !value.expr && value.known.type() == ElementType::kI64; }

bool lies_alike(const Value& a, const Value& b) {
  return a.order == Order::kColumns && b.order == Order::kColumns && a.image == b.image;
}

Result<Value> combined(Call& call, Arithmetic what, const Value& a, const Value& b) {
  if (is_whole(a) && is_whole(b)) return computed_wholes(what, a, b);
  if (lies_alike(a, b)) {
    auto result = a;
    result.expr = computed(what, a.expr, b.expr);
    return result;
  }
  const bool images = (a.order == Order::kImage || b.order == Order::kImage) &&
                      a.dims().size() <= 4 && b.dims().size() <= 4;
  if (images) {
    const auto left = FERRY_TRY(call.image_of(a));
    return image_value(computed(what, left, FERRY_TRY(call.image_of(b))));
  }
  const bool bias_left = b.product && !a.expr && what == Arithmetic::kAdd;
  const bool bias_right = a.product && !b.expr && what == Arithmetic::kAdd;
  const auto left = FERRY_TRY(bias_left ? call.weight(a) : call.plain_of(a));
  const auto right = FERRY_TRY(bias_right ? call.weight(b) : call.plain_of(b));
  return plain_value(computed(what, left, right));
}

template <Arithmetic what>
Result<Value> arithmetic_node(Call& call) {
  const auto a = FERRY_TRY(call.input(0));
  const auto b = FERRY_TRY(call.input(1));
  return combined(call, what, a, b);
}

Result<Value> sum_node(Call& call) {
  auto sum = FERRY_TRY(call.input(0));
  for (std::size_t i = 1; i < call.inputs(); ++i) {
    const auto term = FERRY_TRY(call.input(i));
    sum = FERRY_TRY(combined(call, Arithmetic::kAdd, sum, term));
    FERRY_TRY(call.checked(sum.expr));
  }
  return sum;
}

// Smaller ones become `low`, larger ones `high`.
Result<Value> clip_node(Call& call) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  auto value = FERRY_TRY(call.input(0));
  if (!value.expr) value.expr = FERRY_TRY(call.plain_of(value));
  const auto low = call.has(1) ? FERRY_TRY(call.real(1)) : call.attribute("min", -kInfinite);
  const auto high = call.has(2) ? FERRY_TRY(call.real(2)) : call.attribute("max", kInfinite);
  const auto constant = [&](double x) { return call.builder().constant(static_cast<float>(x)); };
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (low == 0) {
    value.expr = relu(value.expr);
  } else if (low > -kLargest) {
    value.expr = maximum(value.expr, constant(low));
  }
  if (high < kLargest) value.expr = -maximum(-value.expr, constant(-high));
  return value;
}

// Along the last axis, as all classifiers have it.
Result<Expr> softmax_of(Call& call) {
  const auto x = FERRY_TRY(call.plain(0));
  const auto rank = x.spec().shape.rank();
  constexpr std::int64_t kOpsetOfLast = 13;
  const auto usual = std::int64_t{call.import().file.opset < kOpsetOfLast ? 1 : -1};
  const auto axes = FERRY_TRY(axes_in({call.attribute("axis", usual)}, rank));
  if (axes[0] + 1 != static_cast<std::int64_t>(rank))
    return fail(Code::kUnimplemented, "only softmax along the last axis is there");
  return softmax(x);
}

Result<Value> softmax_node(Call& call) { return plain_value(FERRY_TRY(softmax_of(call))); }

Result<Value> log_softmax_node(Call& call) { return plain_value(log(FERRY_TRY(softmax_of(call)))); }

}  // namespace

std::span<const Operator> element_operators() {
  static constexpr std::array kAll = {
      Operator{"Relu", curve_node<graph::relu>},
      Operator{"Sigmoid", curve_node<graph::sigmoid>},
      Operator{"Tanh", curve_node<graph::tanh>},
      Operator{"Exp", curve_node<graph::exp>},
      Operator{"Log", curve_node<graph::log>},
      Operator{"Sqrt", curve_node<graph::sqrt>, true},
      Operator{"Neg", curve_node<negative>, true},
      Operator{"Add", arithmetic_node<Arithmetic::kAdd>, true},
      Operator{"Sub", arithmetic_node<Arithmetic::kSub>, true},
      Operator{"Mul", arithmetic_node<Arithmetic::kMul>, true},
      Operator{"Div", arithmetic_node<Arithmetic::kDiv>, true},
      Operator{"Sum", sum_node, true},
      Operator{"Clip", clip_node},
      Operator{"Softmax", softmax_node},
      Operator{"LogSoftmax", log_softmax_node},
  };
  return kAll;
}

}  // namespace ferry::models::onnx
