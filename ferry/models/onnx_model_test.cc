#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "ferry/models/onnx_kit_internal.h"

// Models that PyTorch made answer as they did there (tests/data/onnx/make.py, make_dynamo.py).

namespace ferry::models::onnx {
namespace {

using kit::answer_of;
using kit::count_of;

constexpr std::int64_t kBatch = 3;

std::string path_of(const std::string& name) {
  return fmt::format("{}/onnx/{}.onnx", FERRY_TEST_DATA, name);
}

std::vector<float> expected_logits(const std::string& name) {
  const bool dynamo = name.starts_with("dynamo_");
  std::ifstream file(fmt::format("{}/onnx/{}logits.txt", FERRY_TEST_DATA, dynamo ? "dynamo_" : ""));
  std::vector<float> logits;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first) || first != name) continue;
    for (float value = 0; words >> value;) logits.push_back(value);
  }
  return logits;
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
                                           "tokens", "dynamo_norm", "dynamo_norm_eval",
                                           "dynamo_resnet", "dynamo_lstm"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Onnx, ConvolutionsNeedNoTransposes) {
  for (const auto* name : {"lenet", "resnet", "vgg", "inception"}) {
    const auto model = make_model(path_of(name), {.batch = kBatch});
    ASSERT_TRUE(model) << model.error().to_string();
    EXPECT_EQ(count_of(answer_of(*model).graph, "Transpose"), 0U) << name;
  }
}

// The exporter writes a layer without a bias as one that adds zeros: they are not trained.
TEST(Onnx, TheNewExportersLayersHaveTheWeightsOfTheModelAndNoMore) {
  const auto model = make_model(path_of("dynamo_norm"), {.batch = kBatch});
  ASSERT_TRUE(model) << model.error().to_string();
  std::vector<std::string> names;
  for (const auto& [name, value] : model->initial) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"bn.bias", "bn.weight", "conv.weight", "fc.weight",
                                      "out.bias", "out.weight", "rows.bias", "rows.weight"}));
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
