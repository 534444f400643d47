#include "ferry/models/onnx/call.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace ferry::models::onnx {
namespace {

using graph::Expr;
using Order = Value::Order;

// One channel, or one place: both orders are the same then.
bool order_matters(const Dims& chw) { return chw[0] != 1 && chw[1] * chw[2] != 1; }

Expr image_from(Expr x, const Dims& nchw) {
  if (order_matters({nchw[1], nchw[2], nchw[3]})) return transpose(x, {0, 2, 3, 1});
  return reshape(x, {nchw[0], nchw[2], nchw[3], nchw[1]});
}

Expr plain_from(Expr x, const Dims& nchw) {
  if (order_matters({nchw[1], nchw[2], nchw[3]})) return transpose(x, {0, 3, 1, 2});
  return reshape(x, nchw);
}

}  // namespace

Dims Value::dims() const {
  if (!expr) return dims_of(known.shape());
  auto dims = dims_of(expr.spec().shape);
  if (order == Order::kImage) dims = {dims[0], dims[3], dims[1], dims[2]};
  return dims;
}

Result<Value> Call::input(std::size_t index) const {
  if (!has(index)) return fail(Code::kInvalidArgument, "it has no input {}", index);
  const auto& name = node_.inputs[index];
  const auto found = import_.values.find(name);
  if (found == import_.values.end())
    return fail(Code::kInvalidArgument, "nothing before it makes its input '{}'", name);
  return found->second;
}

Result<Expr> Call::plain(std::size_t index) {
  const auto value = FERRY_TRY(input(index));
  return plain_of(value);
}

Result<Expr> Call::image(std::size_t index) {
  const auto value = FERRY_TRY(input(index));
  if (value.dims().size() != 4)
    return fail(Code::kUnimplemented, "'{}' has {} dimensions; only images, of 4, are there",
                value.name, value.dims().size());
  return image_of(value);
}

Result<Dims> Call::wholes(std::size_t index) const {
  const auto value = FERRY_TRY(input(index));
  if (value.expr)
    return fail(Code::kUnimplemented, "its input '{}' depends on what the model is fed with",
                value.name);
  if (value.known.type() != tensor::ElementType::kI64)
    return fail(Code::kInvalidArgument, "its input '{}' is {}, not whole numbers", value.name,
                value.known.spec().to_string());
  const auto elements = value.known.elements<std::int64_t>();
  return Dims(elements.begin(), elements.end());
}

Result<double> Call::real(std::size_t index) const {
  const auto value = FERRY_TRY(input(index));
  if (value.expr || value.known.type() != tensor::ElementType::kF32 ||
      value.known.shape().elements() != 1)
    return fail(Code::kUnimplemented, "its input '{}' is not one constant number", value.name);
  return double{value.known.elements<float>()[0]};
}

std::int64_t Call::attribute(std::string_view name, std::int64_t fallback) const {
  const auto* found = node_.find(name);
  return found == nullptr ? fallback : found->whole;
}

double Call::attribute(std::string_view name, double fallback) const {
  const auto* found = node_.find(name);
  return found == nullptr ? fallback : double{found->real};
}

std::string Call::attribute(std::string_view name, const char* fallback) const {
  const auto* found = node_.find(name);
  return found == nullptr ? fallback : found->text;
}

Dims Call::attribute(std::string_view name, const Dims& fallback) const {
  const auto* found = node_.find(name);
  return found == nullptr ? fallback : found->wholes;
}

Result<Dims> Call::wholes(std::size_t index, std::string_view name, const Dims& fallback) const {
  if (has(index)) return wholes(index);
  return attribute(name, fallback);
}

Result<Expr> Call::checked(Expr expr) const {
  FERRY_TRY(Status(builder_.status()));
  return expr;
}

Result<Expr> Call::plain_of(const Value& value) {
  if (!value.expr) return checked(builder_.constant(value.known));
  auto dims = value.dims();
  if (value.order == Order::kImage) return checked(plain_from(value.expr, dims));
  if (value.order == Order::kPlain || !order_matters(value.image)) return value.expr;
  const auto& chw = value.image;
  const auto images = reshape(value.expr, {dims[0], chw[1], chw[2], chw[0]});
  return checked(reshape(plain_from(images, {dims[0], chw[0], chw[1], chw[2]}), dims));
}

Result<Expr> Call::image_of(const Value& value) {
  if (value.expr && value.order == Order::kImage) return value.expr;
  auto dims = value.dims();
  if (dims.size() > 4)
    return fail(Code::kUnimplemented, "'{}' has {} dimensions, an image has 4", value.name,
                dims.size());
  dims.insert(dims.begin(), 4 - dims.size(), 1);
  if (!value.expr) {
    const Move move{dims, {0, 2, 3, 1}, {dims[0], dims[2], dims[3], dims[1]}};
    return checked(builder_.constant(FERRY_TRY(moved(value.known, move))));
  }
  auto x = FERRY_TRY(plain_of(value));
  if (x.spec().shape.rank() < 4) x = reshape(x, dims);
  return checked(image_from(x, dims));
}

Result<Expr> Call::weight(const Value& value, const Move& move) {
  if (value.expr)
    return fail(Code::kUnimplemented, "its weight '{}' is not a constant", value.name);
  if (value.known.type() != tensor::ElementType::kF32)
    return fail(Code::kInvalidArgument, "its weight '{}' is {}", value.name,
                value.known.spec().to_string());
  const auto use = fmt::format("{}/{}/{}", fmt::join(move.view, ","), fmt::join(move.order, ","),
                               fmt::join(move.dims, ","));
  const auto& name = value.origin.empty() ? value.name : value.origin;
  return weight(name, move.dims, use, [&] { return moved(value.known, move); });
}

Result<Expr> Call::weight(const Value& value) {
  const auto dims = value.dims();
  Dims order(dims.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  return weight(value, {dims, order, dims});
}

Result<Expr> Call::weight(const std::string& name, const Dims& dims, const std::string& use,
                          const Make& make) {
  const auto [place, first] = import_.uses.emplace(name, use);
  if (place->second != use)
    return fail(Code::kUnimplemented, "its weight '{}' is used in two ways", name);
  const auto shape = FERRY_TRY(tensor::Shape::of(dims));
  if (first && import_.initial != nullptr) (*import_.initial)[name] = FERRY_TRY(make());
  return checked(builder_.variable(name, {tensor::ElementType::kF32, shape}));
}

bool Call::wanted(std::size_t output) const {
  if (output >= node_.outputs.size() || node_.outputs[output].empty()) return false;
  const auto& name = node_.outputs[output];
  const auto uses = [&](const NodeEntry& node) {
    return std::find(node.inputs.begin(), node.inputs.end(), name) != node.inputs.end();
  };
  const auto& nodes = import_.file.nodes;
  return name == import_.logits || std::any_of(nodes.begin(), nodes.end(), uses);
}

void Call::give(std::size_t output, Value value) {
  value.name = node_.outputs[output];
  import_.values[node_.outputs[output]] = std::move(value);
}

Result<Dims> axes_in(const Dims& axes, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  Dims all;
  for (const auto axis : axes) {
    if (axis < -count || axis >= count)
      return fail(Code::kInvalidArgument, "there is no axis {} in {} dimensions", axis, rank);
    all.push_back(axis < 0 ? axis + count : axis);
  }
  return all;
}

}  // namespace ferry::models::onnx
