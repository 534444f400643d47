#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ferry/graph/builder.h"
#include "ferry/math/random.h"
#include "ferry/ops/evaluate.h"

// What the tests of kernels share.

namespace ferry::ops::kit {

using graph::Attributes;
using graph::Expr;
using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;
using tensor::Tensor;
using Dims = std::vector<std::int64_t>;

inline Spec spec(const Dims& dims, ElementType type = ElementType::kF32) {
  return {type, *Shape::of(dims)};
}

template <class T>
Tensor tensor_of(const Dims& dims, const std::vector<T>& values, ElementType type) {
  auto made = *make_tensor(spec(dims, type));
  EXPECT_EQ(made.bytes().size(), values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(made.data(), values.data(), made.bytes().size());
  return made;
}
inline Tensor floats(const Dims& dims, const std::vector<float>& values) {
  return tensor_of(dims, values, ElementType::kF32);
}
inline Tensor ints(const Dims& dims, const std::vector<std::int32_t>& values) {
  return tensor_of(dims, values, ElementType::kI32);
}
// Numbers between low and high.
inline Tensor noise(const Dims& dims, std::uint64_t key, double low = -1, double high = 1) {
  auto made = *make_tensor(spec(dims));
  const auto values = made.elements<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(low + (high - low) * math::random_unit(key, i));
  return made;
}
inline Tensor copy_of(const Tensor& tensor) {
  auto made = *make_tensor(tensor.spec());
  if (!tensor.bytes().empty()) std::memcpy(made.data(), tensor.data(), tensor.bytes().size());
  return made;
}
inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin());
}

inline std::vector<float> values(const Tensor& tensor) {
  const auto elements = tensor.elements<float>();
  return {elements.begin(), elements.end()};
}
inline std::vector<std::int32_t> int_values(const Tensor& tensor) {
  const auto elements = tensor.elements<std::int32_t>();
  return {elements.begin(), elements.end()};
}

// Within `tolerance`, or that share of what is expected.
inline void expect_close(const Tensor& found, const std::vector<double>& expected,
                         double tolerance = 1e-5) {
  const auto elements = found.elements<float>();
  ASSERT_EQ(elements.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(elements[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "at " << i;
}

// One node in a graph of its own. Floats reach it by way of memory that it may reuse.
struct OneNode {
  graph::Graph graph;
  Tensors feeds;
  Status status;
  graph::NodeId node = 0;

  OneNode(std::string_view op, const std::vector<Tensor>& inputs, const Attributes& attributes) {
    graph::Builder builder(graph);
    std::vector<Expr> from;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto name = "input" + std::to_string(i);
      feeds[name] = inputs[i];
      from.push_back(builder.input(name, inputs[i].spec()));
      if (inputs[i].type() == ElementType::kF32)
        from.back() = builder.add("Scale", {from.back()}, {{"factor", 1.0}});
    }
    node = builder.add(op, from, attributes).output().node;
    status = builder.status();
  }
  Result<std::vector<Tensor>> run(bool reuse, std::uint64_t step) {
    FERRY_TRY(status);
    std::vector<graph::Output> fetches;
    for (std::uint32_t i = 0; i < graph.node(node).outputs.size(); ++i)
      fetches.push_back({node, i});
    Tensors variables;
    return evaluate(graph, variables, feeds, fetches, {.step = step, .reuse = reuse});
  }
};

// The outputs of one operator. Reusing memory and not doing so give the same bits, and inputs stay
// as they are.
inline Result<std::vector<Tensor>> run_op(std::string_view op, const std::vector<Tensor>& inputs,
                                          const Attributes& attributes = {},
                                          std::uint64_t step = 1) {
  OneNode one(op, inputs, attributes);
  std::vector<Tensor> before;
  for (const auto& input : inputs) before.push_back(copy_of(input));
  auto with = FERRY_TRY(one.run(true, step));
  const auto without = FERRY_TRY(one.run(false, step));
  for (std::size_t i = 0; i < with.size(); ++i)
    EXPECT_TRUE(same_bits(with[i], without[i])) << op << ": reuse changes output " << i;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(same_bits(inputs[i], before[i])) << op << ": input " << i << " was written";
  return with;
}

// All outputs, or output 0, of a run that must succeed.
inline std::vector<Tensor> results_of(std::string_view op, const std::vector<Tensor>& inputs,
                                      const Attributes& attributes = {}, std::uint64_t step = 1) {
  auto outputs = run_op(op, inputs, attributes, step);
  EXPECT_TRUE(outputs) << outputs.error().to_string();
  return outputs ? *std::move(outputs) : std::vector<Tensor>(8);
}
inline Tensor result_of(std::string_view op, const std::vector<Tensor>& inputs,
                        const Attributes& attributes = {}) {
  const auto outputs = results_of(op, inputs, attributes);
  return outputs.empty() ? Tensor() : outputs[0];
}

template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::kOk : result.error().code();
}

}  // namespace ferry::ops::kit
