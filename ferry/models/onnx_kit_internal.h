#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "ferry/models/onnx/values.h"
#include "ferry/models/onnx_model_internal.h"
#include "ferry/ops/initial.h"

// What the tests of imported models share: files written by hand, and what models answer.

namespace ferry::models::onnx::kit {

// A protobuf message that is being written.
class Message {
 public:
  Message& whole(std::uint32_t number, std::int64_t value) {
    tag(number, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& real(std::uint32_t number, float value) {
    tag(number, 5);
    text_ += std::string(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Message& text(std::uint32_t number, const std::string& value) {
    tag(number, 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  Message& message(std::uint32_t number, const Message& value) { return text(number, value.text_); }
  const std::string& bytes() const { return text_; }

 private:
  void tag(std::uint32_t number, std::uint32_t kind) { varint(number << 3U | kind); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) text_ += static_cast<char>(value | 0x80U);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

inline Message whole_attribute(const std::string& name, std::int64_t value) {
  return Message().text(1, name).whole(3, value).whole(20, 2);
}
inline Message real_attribute(const std::string& name, float value) {
  return Message().text(1, name).real(2, value).whole(20, 1);
}
inline Message text_attribute(const std::string& name, const std::string& value) {
  return Message().text(1, name).text(4, value).whole(20, 3);
}
inline Message wholes_attribute(const std::string& name, const Dims& values) {
  auto made = Message().text(1, name).whole(20, 7);
  for (const auto value : values) made.whole(8, value);
  return made;
}

inline Message node(const std::string& op, const std::vector<std::string>& inputs,
                    const std::string& output, const std::vector<Message>& attributes = {}) {
  Message made;
  for (const auto& input : inputs) made.text(1, input);
  made.text(2, output).text(3, "the " + op).text(4, op);
  for (const auto& attribute : attributes) made.message(5, attribute);
  return made;
}

inline Message two_outputs(const std::string& op, const std::vector<std::string>& inputs,
                           const std::string& first, const std::string& second) {
  return node(op, inputs, first).text(2, second);
}

// A name, dimensions and a type; what holds the elements is up to the caller.
inline Message tensor(const std::string& name, const Dims& dims, std::int64_t type) {
  Message made;
  for (const auto dim : dims) made.whole(1, dim);
  return made.whole(2, type).text(8, name);
}
// Around zero.
inline std::vector<float> noise_numbers(std::int64_t count) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < count; ++i)
    numbers.push_back(static_cast<float>((i * 37 + 11) % 29) / 14 - 1);
  return numbers;
}
inline Message noise(const std::string& name, const Dims& dims) {
  const auto numbers = noise_numbers(product_of(dims));
  const auto* raw = reinterpret_cast<const char*>(numbers.data());
  return tensor(name, dims, 1).text(9, std::string(raw, numbers.size() * sizeof(float)));
}
inline Message wholes(const std::string& name, const Dims& values) {
  auto made = tensor(name, {static_cast<std::int64_t>(values.size())}, 7);
  for (const auto value : values) made.whole(7, value);
  return made;
}

// A file whose graph goes from x to y.
struct Graph {
  Dims input;
  std::vector<Message> nodes;
  std::vector<Message> constants = {};
  std::int64_t input_type = 1;
};
inline std::string bytes_of(const Graph& graph) {
  Message shape;
  for (const auto dim : graph.input) shape.message(1, Message().whole(1, dim));
  const auto type = Message().message(1, Message().whole(1, graph.input_type).message(2, shape));
  Message body;
  for (const auto& each : graph.nodes) body.message(1, each);
  for (const auto& each : graph.constants) body.message(5, each);
  body.message(11, Message().text(1, "x").message(2, type)).message(12, Message().text(1, "y"));
  return Message().whole(1, 7).message(7, body).message(8, Message().whole(2, 14)).bytes();
}

inline Result<Model> model_of_bytes(const std::string& text, std::int64_t batch = 3) {
  auto bytes = std::make_shared<std::vector<std::byte>>(text.size());
  if (!text.empty()) std::memcpy(bytes->data(), text.data(), text.size());
  auto file = parse_file(std::move(bytes));
  if (!file) return tl::unexpected(file.error());
  return model_of(*std::move(file), "by hand", {.batch = batch});
}
inline Result<Model> model_of_graph(const Graph& graph) { return model_of_bytes(bytes_of(graph)); }

// Element i of what models are fed with, in ONNX's order; of whole numbers it is 7919 i mod 20.
inline float fed_number(std::size_t i) { return static_cast<float>(7919 * i % 1000) / 250 - 2; }
inline tensor::Tensor fed_to(const ModelInput& input) {
  auto tensor = *ops::make_tensor(input.spec);
  const auto& shape = input.spec.shape;
  const auto count = static_cast<std::size_t>(shape.elements());
  if (input.spec.type == tensor::ElementType::kI32) {
    for (std::size_t i = 0; i < count; ++i)
      tensor.elements<std::int32_t>()[i] = static_cast<std::int32_t>(7919 * i % 20);
    return tensor;
  }
  const bool image = shape.rank() == 4;
  const auto places = image ? static_cast<std::size_t>(shape.dim(1) * shape.dim(2)) : 1;
  const auto channels = image ? static_cast<std::size_t>(shape.dim(3)) : 1;
  for (std::size_t i = 0; i < count; ++i) {
    const auto sample = i / (places * channels);
    const auto place = i / channels % places;
    const auto number = (sample * channels + i % channels) * places + place;
    tensor.elements<float>()[i] = fed_number(number);
  }
  return tensor;
}

struct Answer {
  graph::Graph graph;
  std::vector<float> logits;
};

// The logits are what the accuracy is computed from.
inline Answer answer_of(const Model& model) {
  Answer answer;
  graph::Builder builder(answer.graph);
  const auto tower = model.tower(builder);
  EXPECT_TRUE(builder.status()) << builder.status().error().to_string();
  if (!builder.status()) return answer;
  const auto accuracy = tower.metrics.at("accuracy").output();
  const std::vector fetches = {answer.graph.node(accuracy.node).inputs[0]};
  auto variables = *ops::initial_values(answer.graph, 1);
  for (const auto& [name, value] : model.initial) {
    EXPECT_TRUE(variables.contains(name)) << name;
    variables[name] = value;
  }
  ops::Tensors feeds;
  for (const auto& input : model.inputs) feeds[input.name] = fed_to(input);
  const auto fetched = ops::evaluate(answer.graph, variables, feeds, fetches);
  EXPECT_TRUE(fetched) << fetched.error().to_string();
  if (!fetched) return answer;
  const auto elements = (*fetched)[0].elements<float>();
  answer.logits.assign(elements.begin(), elements.end());
  return answer;
}
inline std::vector<float> logits_of(const Graph& graph) {
  const auto model = model_of_graph(graph);
  EXPECT_TRUE(model) << model.error().to_string();
  return model ? answer_of(*model).logits : std::vector<float>();
}

inline std::size_t count_of(const graph::Graph& graph, std::string_view op) {
  std::size_t count = 0;
  for (const auto& each : graph.nodes()) count += each.op->name == op ? 1 : 0;
  return count;
}

}  // namespace ferry::models::onnx::kit
