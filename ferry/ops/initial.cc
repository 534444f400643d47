#include "ferry/ops/initial.h"

#include <cmath>
#include <cstring>
#include <numbers>

#include "ferry/math/random.h"

namespace ferry::ops {
namespace {

struct Fans {
  double in = 1;
  double out = 1;
};

// How many numbers each output depends on, and how many outputs each input goes to.
Fans fans_of(const tensor::Shape& shape) {
  const auto rank = shape.rank();
  if (rank == 0) return {};
  if (rank == 1) return {static_cast<double>(shape.dim(0)), static_cast<double>(shape.dim(0))};
  double window = 1;
  for (std::size_t axis = 0; axis + 2 < rank; ++axis)
    window *= static_cast<double>(shape.dim(axis));
  return {window * static_cast<double>(shape.dim(rank - 2)),
          window * static_cast<double>(shape.dim(rank - 1))};
}

void fill_uniform(std::span<float> values, std::uint64_t key, double bound) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((2 * math::random_unit(key, i) - 1) * bound);
}

// By Box and Muller, from two numbers each.
void fill_normal(std::span<float> values, std::uint64_t key, double deviation) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto length = std::sqrt(-2 * std::log(1 - math::random_unit(key, 2 * i)));
    const auto angle = 2 * std::numbers::pi * math::random_unit(key, 2 * i + 1);
    values[i] = static_cast<float>(deviation * length * std::cos(angle));
  }
}

Status fill(std::span<float> values, const graph::Node& node, std::uint64_t key) {
  const auto initial = node.attributes.get_or<std::string>("initial", "zeros");
  const auto scale = node.attributes.get_or<double>("scale", 0);
  const auto fans = fans_of(node.outputs[0].shape);
  if (initial == "constant") {
    std::fill(values.begin(), values.end(), static_cast<float>(scale));
  } else if (initial == "uniform") {
    fill_uniform(values, key, scale);
  } else if (initial == "normal") {
    fill_normal(values, key, scale);
  } else if (initial == "glorot") {
    fill_uniform(values, key, std::sqrt(6 / (fans.in + fans.out)));
  } else if (initial == "he") {
    fill_normal(values, key, std::sqrt(2 / fans.in));
  } else {
    return fail(Code::kInvalidArgument, "variable '{}': there is no initial value '{}'", node.name,
                initial);
  }
  return {};
}

}  // namespace

Result<tensor::Tensor> initial_value(const graph::Node& node, std::uint64_t seed) {
  if (node.op->name != "Variable")
    return fail(Code::kInvalidArgument, "node '{}' is no variable", node.name);
  auto value = FERRY_TRY(make_tensor(node.outputs[0]));
  if (!value.bytes().empty()) std::memset(value.data(), 0, value.bytes().size());
  if (node.attributes.get_or<std::string>("initial", "zeros") == "zeros") return value;
  if (value.type() != tensor::ElementType::kF32)
    return fail(Code::kUnimplemented, "variable '{}' is {}; only f32 begins with other than zeros",
                node.name, value.spec().to_string());
  FERRY_TRY(fill(value.elements<float>(), node, math::random_key(seed, node.name)));
  return value;
}

Result<Tensors> initial_values(const graph::Graph& graph, std::uint64_t seed) {
  Tensors values;
  for (const auto& node : graph.nodes())
    if (node.op->name == "Variable") values[node.name] = FERRY_TRY(initial_value(node, seed));
  return values;
}

}  // namespace ferry::ops
