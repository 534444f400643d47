#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "ferry/models/model.h"
#include "ferry/models/onnx/onnx.h"
#include "ferry/ops/initial.h"

// Models that PyTorch made answer as they did there (tests/data/onnx/make.py).

namespace ferry::models::onnx {
namespace {

constexpr std::int64_t kBatch = 3;

std::string path_of(const std::string& name) {
  return fmt::format("{}/onnx/{}.onnx", FERRY_TEST_DATA, name);
}

std::vector<float> expected_logits(const std::string& name) {
  std::ifstream file(fmt::format("{}/onnx/logits.txt", FERRY_TEST_DATA));
  std::vector<float> logits;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first) || first != name) continue;
    for (float value = 0; words >> value;) logits.push_back(value);
  }
  return logits;
}

// The numbers of make.py, which counts in ONNX's order.
tensor::Tensor input_of_file(const ModelInput& input) {
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
    tensor.elements<float>()[i] = static_cast<float>(7919 * number % 1000) / 250 - 2;
  }
  return tensor;
}

struct Answer {
  graph::Graph graph;
  std::vector<float> logits;
  std::vector<float> loss;
};

// The logits are what the accuracy is computed from.
Answer answer_of(const Model& model) {
  Answer answer;
  graph::Builder builder(answer.graph);
  const auto tower = model.tower(builder);
  EXPECT_TRUE(builder.status()) << builder.status().error().to_string();
  if (!builder.status()) return answer;
  const auto accuracy = tower.metrics.at("accuracy").output();
  const auto logits = answer.graph.node(accuracy.node).inputs[0];
  auto variables = *ops::initial_values(answer.graph, 1);
  for (const auto& [name, value] : model.initial) {
    EXPECT_TRUE(variables.contains(name)) << name;
    variables[name] = value;
  }
  ops::Tensors feeds;
  for (const auto& input : model.inputs) feeds[input.name] = input_of_file(input);
  for (auto& label : feeds["labels"].elements<std::int32_t>()) label = 1;
  const std::vector fetches = {logits, tower.loss.output()};
  const auto fetched = ops::evaluate(answer.graph, variables, feeds, fetches);
  EXPECT_TRUE(fetched) << fetched.error().to_string();
  if (!fetched) return answer;
  const auto elements = (*fetched)[0].elements<float>();
  answer.logits.assign(elements.begin(), elements.end());
  answer.loss = {(*fetched)[1].elements<float>()[0]};
  return answer;
}

std::size_t count_of(const graph::Graph& graph, std::string_view op) {
  return static_cast<std::size_t>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                                [&](const auto& n) { return n.op->name == op; }));
}

class FromPyTorch : public ::testing::TestWithParam<const char*> {};

TEST_P(FromPyTorch, AnswersTheSame) {
  const auto model = make_model(path_of(GetParam()), {.batch = kBatch});
  ASSERT_TRUE(model) << model.error().to_string();
  const auto answer = answer_of(*model);
  const auto expected = expected_logits(GetParam());
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(answer.logits.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(answer.logits[i], expected[i], 1e-4) << i;
  EXPECT_EQ(count_of(answer.graph, "Variable"), model->initial.size());
}

INSTANTIATE_TEST_SUITE_P(Files, FromPyTorch,
                         ::testing::Values("lenet", "resnet", "vgg", "inception", "lstm", "gru",
                                           "tokens"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Onnx, ConvolutionsNeedNoTransposes) {
  for (const auto* name : {"lenet", "resnet", "vgg", "inception"}) {
    const auto model = make_model(path_of(name), {.batch = kBatch});
    ASSERT_TRUE(model) << model.error().to_string();
    EXPECT_EQ(count_of(answer_of(*model).graph, "Transpose"), 0U) << name;
  }
}

TEST(Onnx, SmallImagesAreFedWithRealOnes) {
  const auto lenet = make_model(path_of("lenet"), {.batch = 7});
  ASSERT_TRUE(lenet);
  EXPECT_EQ(lenet->feeds, Feeds::kImages);
  EXPECT_EQ(lenet->inputs[0].name, "images");
  EXPECT_EQ(lenet->inputs[0].spec.to_string(), "f32[7, 28, 28, 1]");
  const auto lstm = make_model(path_of("lstm"), {.batch = 7});
  ASSERT_TRUE(lstm);
  EXPECT_EQ(lstm->feeds, Feeds::kSynthetic);
  EXPECT_EQ(lstm->inputs[0].below, 20);
  EXPECT_EQ(lstm->inputs[0].spec.to_string(), "i32[7, 5]");
  EXPECT_EQ(lstm->inputs[1].below, 4);
}

TEST(Onnx, ThereMustBeAFile) {
  const auto model = make_model("/nowhere/x.onnx", {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), Code::kNotFound);
  EXPECT_NE(model.error().message().find("/nowhere/x.onnx"), std::string::npos);
}

}  // namespace
}  // namespace ferry::models::onnx
