#include <algorithm>
#include <array>
#include <numeric>

#include "ferry/models/onnx/call.h"

// Shapes, and constants. Images stay in their order where the shape allows it.

namespace ferry::models::onnx {
namespace {

using graph::Expr;
using tensor::ElementType;
using tensor::Tensor;
using Order = Value::Order;

// The dimensions of [N, C, H, W], where they are in [N, H, W, C].
constexpr std::array<std::int64_t, 4> kImagePlaces = {0, 3, 1, 2};

// Of constants: a small file could ask for any size.
Status check_size(const Dims& dims) {
  constexpr std::int64_t kMost = 1 << 22;
  const auto shape = FERRY_TRY(tensor::Shape::of(dims));
  if (shape.known() && shape.elements() <= kMost) return {};
  return fail(Code::kUnimplemented, "a constant of the shape {} is not there", shape.to_string());
}

Result<Expr> zeros_of(Call& call, const Dims& dims) {
  FERRY_TRY(check_size(dims));
  const std::vector<float> zeros(static_cast<std::size_t>(product_of(dims)));
  const auto made = FERRY_TRY(tensor_of_reals(dims, zeros));
  return call.builder().constant(made);
}

// The value under other dimensions; no element moves unless it must.
Result<Value> renamed(Call& call, const Value& value, const Dims& dims) {
  const auto before = value.dims();
  if (dims == before) return value;
  if (value.order == Order::kImage &&
      dims == Dims{before[0], product_of(before) / std::max<std::int64_t>(before[0], 1)})
    return Value{.expr = reshape(value.expr, dims),
                 .order = Order::kColumns,
                 .image = {before[1], before[2], before[3]}};
  const auto& chw = value.image;
  if (value.order == Order::kColumns && dims == Dims{before[0], chw[0], chw[1], chw[2]})
    return image_value(reshape(value.expr, {before[0], chw[1], chw[2], chw[0]}));
  const auto x = FERRY_TRY(call.plain_of(value));
  return plain_value(reshape(x, dims));
}

Result<Value> flatten_node(Call& call) {
  const auto value = FERRY_TRY(call.input(0));
  const auto dims = value.dims();
  const auto axis = call.attribute("axis", std::int64_t{1});
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (axis < -rank || axis > rank)
    return fail(Code::kInvalidArgument, "there is no axis {} in {} dimensions", axis, rank);
  const auto first = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  const std::span all(dims);
  return renamed(call, value, {product_of(all.first(first)), product_of(all.subspan(first))});
}

// A batch that is written into the file becomes the job's: as the first dimension, or as a factor
// of it; or, where the batch comes later (steps of a sequence first), as the dimension that is it.
Status replace_batch(const Import& import, const Dims& before, Dims& dims) {
  const auto written = import.file_batch;
  if (written < 1 || written == import.batch || dims.empty() || before.empty()) return {};
  const bool open = std::find(dims.begin(), dims.end(), -1) != dims.end();
  const bool leads = before[0] == import.batch;
  const bool first = open && dims[0] == written && leads;
  const bool factor = !open && product_of(dims) != product_of(before);
  if (!first && !factor) return {};
  auto place = dims.begin();
  if (const auto found = std::find(dims.begin(), dims.end(), written);
      !leads && found != dims.end())
    place = found;
  if (*place % written != 0) return {};
  if (__builtin_mul_overflow(*place / written, import.batch, &*place))
    return fail(Code::kInvalidArgument, "a dimension of {} is too large", *place);
  return {};
}

// 0: as before. -1: what is left over.
Result<Dims> resolved(Call& call, const Value& value, Dims dims) {
  const auto before = value.dims();
  const bool keeps_zeros = call.attribute("allowzero", std::int64_t{0}) != 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < -1) return fail(Code::kInvalidArgument, "a dimension of {}", dims[i]);
    if (dims[i] != 0 || keeps_zeros) continue;
    if (i >= before.size())
      return fail(Code::kInvalidArgument, "dimension {} cannot be as before: there is none", i);
    dims[i] = before[i];
  }
  if (value.expr) FERRY_TRY(replace_batch(call.import(), before, dims));
  const auto open = std::find(dims.begin(), dims.end(), -1);
  if (open == dims.end()) return dims;
  *open = 1;
  const auto rest = product_of(dims);
  const auto all = product_of(before);
  if (rest <= 0 || all % rest != 0 || std::find(dims.begin(), dims.end(), -1) != dims.end())
    return fail(Code::kInvalidArgument, "{} elements do not fit", all);
  *open = all / rest;
  return dims;
}

Result<Value> reshape_node(Call& call) {
  const auto value = FERRY_TRY(call.input(0));
  const auto asked = FERRY_TRY(call.wholes(1, "shape", {}));
  const auto dims = FERRY_TRY(resolved(call, value, asked));
  return renamed(call, value, dims);
}

Result<Value> squeeze_node(Call& call) {
  const auto value = FERRY_TRY(call.input(0));
  const auto before = value.dims();
  const auto given = FERRY_TRY(call.wholes(1, "axes", {}));
  const auto axes = FERRY_TRY(axes_in(given, before.size()));
  Dims dims;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (named && before[i] != 1)
      return fail(Code::kInvalidArgument, "dimension {} is {}, not 1", i, before[i]);
    if (!named && (!axes.empty() || before[i] != 1)) dims.push_back(before[i]);
  }
  return renamed(call, value, dims);
}

Result<Value> unsqueeze_node(Call& call) {
  const auto value = FERRY_TRY(call.input(0));
  const auto before = value.dims();
  const auto given = FERRY_TRY(call.wholes(1, "axes", {}));
  if (given.size() > tensor::Shape::kMaxRank)
    return fail(Code::kInvalidArgument, "{} dimensions more are too many", given.size());
  auto axes = FERRY_TRY(axes_in(given, before.size() + given.size()));
  std::sort(axes.begin(), axes.end());
  Dims dims = before;
  for (const auto axis : axes)
    dims.insert(
        dims.begin() + std::min<std::ptrdiff_t>(axis, static_cast<std::ptrdiff_t>(dims.size())), 1);
  return renamed(call, value, dims);
}

Result<Value> transpose_node(Call& call) {
  const auto value = FERRY_TRY(call.input(0));
  Dims order(value.dims().size());
  std::iota(order.rbegin(), order.rend(), 0);
  order = call.attribute("perm", order);
  const bool image = value.dims().size() == 4 && order == Dims{0, 3, 1, 2};
  if (value.order == Order::kPlain && image && value.expr) return image_value(value.expr);
  if (value.order != Order::kImage) {
    const auto x = FERRY_TRY(call.plain_of(value));
    return plain_value(transpose(x, order));
  }
  const auto axes = FERRY_TRY(axes_in(order, 4));
  for (std::size_t i = 0; i < axes.size(); ++i)
    order[i] = kImagePlaces.at(static_cast<std::size_t>(axes[i]));
  return plain_value(order == Dims{0, 1, 2, 3} ? value.expr : transpose(value.expr, order));
}

Result<Value> concat_node(Call& call) {
  std::vector<Value> parts;
  for (std::size_t i = 0; i < call.inputs(); ++i) parts.push_back(FERRY_TRY(call.input(i)));
  if (parts.empty()) return fail(Code::kInvalidArgument, "it has no inputs");
  const auto rank = parts[0].dims().size();
  const auto fits = [rank](const Value& each) { return each.dims().size() == rank; };
  if (!std::all_of(parts.begin(), parts.end(), fits))
    return fail(Code::kInvalidArgument, "its inputs have different numbers of dimensions");
  const bool images = std::any_of(parts.begin(), parts.end(),
                                  [](const auto& each) { return each.order == Order::kImage; });
  const auto given = call.attribute("axis", std::int64_t{1});
  const auto axis = FERRY_TRY(axes_in({given}, rank))[0];
  std::vector<Expr> exprs;
  exprs.reserve(parts.size());
  for (const auto& part : parts)
    exprs.push_back(FERRY_TRY(images ? call.image_of(part) : call.plain_of(part)));
  if (images) return image_value(concat(exprs, kImagePlaces.at(static_cast<std::size_t>(axis))));
  return plain_value(concat(exprs, axis));
}

// Zeros around the value, joined to it side by side.
Result<Value> pad_node(Call& call) {
  auto value = FERRY_TRY(call.input(0));
  auto x = value.order == Order::kImage ? value.expr : FERRY_TRY(call.plain_of(value));
  const auto pads = FERRY_TRY(call.wholes(1, "pads", {}));
  const auto rank = value.dims().size();
  if (call.attribute("mode", "constant") != "constant" ||
      (call.has(2) && FERRY_TRY(call.real(2)) != 0) || call.attribute("value", 0.0) != 0)
    return fail(Code::kUnimplemented, "only padding with zeros is there");
  if (pads.size() != 2 * rank ||
      std::any_of(pads.begin(), pads.end(), [](auto n) { return n < 0; }))
    return fail(Code::kInvalidArgument, "'pads' is not {} numbers from 0", 2 * rank);
  for (std::size_t side = 0; side < pads.size(); ++side) {
    if (pads[side] == 0) continue;
    const bool image = value.order == Order::kImage;
    const auto axis = image ? kImagePlaces.at(side % rank) : static_cast<std::int64_t>(side % rank);
    auto dims = dims_of(x.spec().shape);
    dims[static_cast<std::size_t>(axis)] = pads[side];
    const auto zeros = FERRY_TRY(zeros_of(call, dims));
    const auto parts = side < rank ? std::vector{zeros, x} : std::vector{x, zeros};
    x = FERRY_TRY(call.checked(concat(parts, axis)));
  }
  return value.order == Order::kImage ? image_value(x) : plain_value(x);
}

struct Range {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};
// As Python understands [start:end].
Range range_of(std::int64_t start, std::int64_t end, std::int64_t length) {
  const auto place = [length](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? std::max(at, -length) + length : at, 0, length);
  };
  const auto begin = place(start);
  return {begin, std::max<std::int64_t>(place(end) - begin, 0)};
}

Result<Value> slice_node(Call& call) {
  const auto x = FERRY_TRY(call.plain(0));
  const auto dims = dims_of(x.spec().shape);
  const auto starts = FERRY_TRY(call.wholes(1, "starts", {}));
  const auto ends = FERRY_TRY(call.wholes(2, "ends", {}));
  Dims first(starts.size());
  std::iota(first.begin(), first.end(), 0);
  const auto given = FERRY_TRY(call.wholes(3, "axes", first));
  const auto axes = FERRY_TRY(axes_in(given, dims.size()));
  if (ends.size() != starts.size() || axes.size() != starts.size())
    return fail(Code::kInvalidArgument, "as many starts as ends and axes are needed");
  const Dims ones(starts.size(), 1);
  if (call.has(4) && FERRY_TRY(call.wholes(4)) != ones)
    return fail(Code::kUnimplemented, "slices with steps other than 1 are not there");
  Dims begin(dims.size(), 0);
  auto size = dims;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    const auto range = range_of(starts[i], ends[i], dims[axis]);
    begin[axis] = range.begin;
    size[axis] = range.size;
  }
  return plain_value(slice(x, begin, size));
}

// Rows of a table by numbers that the model is fed with: the table is a weight.
Result<Value> look_up(Call& call, const Value& table, const Value& ids) {
  if (table.dims().size() != 2 || table.dims()[0] < 1 || table.known.type() != ElementType::kF32)
    return fail(Code::kUnimplemented, "only rows of a matrix of numbers can be looked up");
  const auto numbers = FERRY_TRY(call.plain_of(ids));
  const auto w = FERRY_TRY(call.weight(table));
  const auto& node = call.builder().graph().node(numbers.output().node);
  if (node.op->name == "Input") {
    auto& rows = call.import().rows.emplace(node.id, table.dims()[0]).first->second;
    rows = std::min(rows, table.dims()[0]);
  }
  return plain_value(embedding(w, numbers));
}

// One row, or several, by known numbers.
Result<Value> gather_node(Call& call) {
  const auto value = FERRY_TRY(call.input(0));
  const auto ids = FERRY_TRY(call.input(1));
  const auto dims = value.dims();
  const auto given = call.attribute("axis", std::int64_t{0});
  const auto axis = static_cast<std::size_t>(FERRY_TRY(axes_in({given}, dims.size()))[0]);
  if (ids.expr && axis == 0 && !value.expr) return look_up(call, value, ids);
  auto wanted = FERRY_TRY(call.wholes(1));
  const auto x = FERRY_TRY(call.plain_of(value));
  constexpr std::size_t kMost = 1024;
  if (wanted.empty() || wanted.size() > kMost)
    return fail(Code::kUnimplemented, "{} parts of a tensor at once are not there", wanted.size());
  std::vector<Expr> parts;
  for (const auto id : wanted) {
    if (id < -dims[axis] || id >= dims[axis])
      return fail(Code::kInvalidArgument, "there is no place {} in {}", id, dims[axis]);
    Dims begin(dims.size(), 0);
    begin[axis] = id < 0 ? id + dims[axis] : id;
    Dims size = dims;
    size[axis] = 1;
    parts.push_back(slice(x, begin, size));
  }
  auto result = dims;
  const auto place = result.erase(result.begin() + static_cast<std::ptrdiff_t>(axis));
  const auto inner = ids.dims();
  result.insert(place, inner.begin(), inner.end());
  const auto joined = parts.size() == 1 ? parts[0] : concat(parts, static_cast<std::int64_t>(axis));
  return plain_value(reshape(joined, result));
}

Result<Value> reduce_mean_node(Call& call) {
  const auto value = FERRY_TRY(call.input(0));
  const auto given = FERRY_TRY(call.wholes(1, "axes", {}));
  auto axes = FERRY_TRY(axes_in(given, value.dims().size()));
  const bool keep = call.attribute("keepdims", std::int64_t{1}) != 0;
  std::sort(axes.begin(), axes.end());
  if (value.order == Order::kImage && axes == Dims{2, 3}) {
    const auto y = mean(value.expr, {1, 2}, keep);
    return keep ? image_value(y) : plain_value(y);
  }
  const auto x = FERRY_TRY(call.plain_of(value));
  return plain_value(mean(x, axes, keep));
}

Result<Value> identity_node(Call& call) { return call.input(0); }

// To whole numbers or to reals; wider and narrower ones are the same to us.
Result<Value> cast_node(Call& call) {
  auto value = FERRY_TRY(call.input(0));
  const auto to = call.attribute("to", std::int64_t{0});
  const bool real = to == 1 || to == 10 || to == 11;
  const bool whole = to == 6 || to == 7;
  if (!real && !whole)
    return fail(Code::kUnimplemented, "a cast to ONNX's type {} is not there", to);
  const auto type = value.expr ? value.expr.spec().type : value.known.type();
  if (real == (type == ElementType::kF32)) return value;
  value.expr = FERRY_TRY(call.plain_of(value));
  const auto known = call.builder().graph().node(value.expr.output().node).op->name == "Const";
  const auto wide = known ? ElementType::kI64 : ElementType::kI32;
  return plain_value(cast(value.expr, real ? ElementType::kF32 : wide));
}

Result<Value> reals_of_known(const Value& value) {
  const auto wholes = value.known.elements<std::int64_t>();
  const std::vector<float> reals(wholes.begin(), wholes.end());
  return known_value(FERRY_TRY(tensor_of_reals(value.dims(), reals)));
}

// To the type that the second input has. What is known stays known, whatever that one is.
Result<Value> cast_like_node(Call& call) {
  const auto value = FERRY_TRY(call.input(0));
  const auto like = FERRY_TRY(call.input(1));
  const auto type_of = [](const Value& each) {
    return each.expr ? each.expr.spec().type : each.known.type();
  };
  const bool real = type_of(like) == ElementType::kF32;
  if (real == (type_of(value) == ElementType::kF32)) return value;
  if (real && !value.expr) return reals_of_known(value);
  const auto x = FERRY_TRY(call.plain_of(value));
  return plain_value(cast(x, real ? ElementType::kF32 : type_of(like)));
}

// All dimensions, or those from `start` to `end`.
Result<Value> shape_node(Call& call) {
  const auto value = FERRY_TRY(call.input(0));
  const auto all = value.dims();
  const auto rank = static_cast<std::int64_t>(all.size());
  const auto place = [rank](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const auto begin = place(call.attribute("start", std::int64_t{0}));
  const auto end = std::max(begin, place(call.attribute("end", rank)));
  const Dims dims(all.begin() + begin, all.begin() + end);
  return known_value(FERRY_TRY(tensor_of_wholes({static_cast<std::int64_t>(dims.size())}, dims)));
}

Result<Value> constant_node(Call& call) {
  const auto& node = call.node();
  if (const auto* found = node.find("value"))
    return known_value(FERRY_TRY(tensor_of(found->tensor)));
  if (const auto* found = node.find("value_float"))
    return known_value(FERRY_TRY(tensor_of_reals({}, {&found->real, 1})));
  if (const auto* found = node.find("value_int"))
    return known_value(FERRY_TRY(tensor_of_wholes({}, {&found->whole, 1})));
  if (const auto* found = node.find("value_ints")) {
    const auto count = static_cast<std::int64_t>(found->wholes.size());
    return known_value(FERRY_TRY(tensor_of_wholes({count}, found->wholes)));
  }
  if (const auto* found = node.find("value_floats")) {
    const auto count = static_cast<std::int64_t>(found->reals.size());
    return known_value(FERRY_TRY(tensor_of_reals({count}, found->reals)));
  }
  return fail(Code::kUnimplemented, "a constant of this kind cannot be read");
}

Result<Value> constant_of_shape_node(Call& call) {
  const auto dims = FERRY_TRY(call.wholes(0));
  FERRY_TRY(check_size(dims));
  const auto count = static_cast<std::size_t>(product_of(dims));
  const auto* given = call.node().find("value");
  Tensor value = FERRY_TRY(tensor_of_reals({1}, std::array<float, 1>{}));
  if (given != nullptr) value = FERRY_TRY(tensor_of(given->tensor));
  if (value.shape().elements() != 1)
    return fail(Code::kInvalidArgument, "its value is not one number");
  if (value.type() == ElementType::kI64)
    return known_value(
        FERRY_TRY(tensor_of_wholes(dims, Dims(count, value.elements<std::int64_t>()[0]))));
  return known_value(
      FERRY_TRY(tensor_of_reals(dims, std::vector<float>(count, value.elements<float>()[0]))));
}

// One whole number, or as many as there are to be: no more is needed for shapes.
Result<Value> expanded_wholes(const Value& value, const Dims& dims) {
  const auto wholes = value.known.elements<std::int64_t>();
  if (dims.empty() || value.dims() == dims) return value;
  FERRY_TRY(check_size(dims));
  const auto count = static_cast<std::size_t>(product_of(dims));
  const bool same = wholes.size() == count || count == 1;
  if (same && value.dims().size() >= dims.size()) return value;
  if (wholes.size() != 1)
    return fail(Code::kUnimplemented, "{} whole numbers cannot become {}", wholes.size(), count);
  auto rank = dims;
  while (rank.size() < value.dims().size()) rank.insert(rank.begin(), 1);
  return known_value(FERRY_TRY(tensor_of_wholes(rank, Dims(count, wholes[0]))));
}

// To the shape that it and a tensor of the given one have together.
Result<Value> expand_node(Call& call) {
  const auto dims = FERRY_TRY(call.wholes(1));
  const auto value = FERRY_TRY(call.input(0));
  if (!value.expr && value.known.type() == ElementType::kI64) return expanded_wholes(value, dims);
  const auto x = FERRY_TRY(call.plain(0));
  return plain_value(x + FERRY_TRY(zeros_of(call, dims)));
}

}  // namespace

std::span<const Operator> shape_operators() {
  static constexpr std::array kAll = {
      Operator{"Flatten", flatten_node, true},
      Operator{"Reshape", reshape_node, true},
      Operator{"Squeeze", squeeze_node, true},
      Operator{"Unsqueeze", unsqueeze_node, true},
      Operator{"Transpose", transpose_node, true},
      Operator{"Concat", concat_node, true},
      Operator{"Pad", pad_node},
      Operator{"Slice", slice_node, true},
      Operator{"Gather", gather_node, true},
      Operator{"Expand", expand_node, true},
      Operator{"ReduceMean", reduce_mean_node},
      Operator{"Identity", identity_node, true},
      Operator{"Cast", cast_node, true},
      Operator{"CastLike", cast_like_node},
      Operator{"Shape", shape_node},
      Operator{"Constant", constant_node},
      Operator{"ConstantOfShape", constant_of_shape_node},
  };
  return kAll;
}

}  // namespace ferry::models::onnx
