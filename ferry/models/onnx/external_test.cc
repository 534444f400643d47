#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ferry/models/onnx_kit_internal.h"

// Weights in a file beside the model: read where they are, and nowhere else.

namespace ferry::models::onnx {
namespace {

using kit::Message;

class ExternalFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    auto name = (std::filesystem::temp_directory_path() / "ferry-onnx-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    outside_ = name;
    folder_ = name + "/models";
    std::filesystem::create_directories(folder_ + "/weights");
    write(folder_ + "/w.data", 2 * kBytes);
    write(folder_ + "/weights/w.data", kBytes);
    write(outside_ + "/secret.data", kBytes);
  }
  void TearDown() override { std::filesystem::remove_all(outside_); }

  static constexpr std::size_t kBytes = 4 * 3 * sizeof(float);  // of a weight

  static void write(const std::string& path, std::size_t bytes) {
    const std::vector<float> numbers(bytes / sizeof(float), 0.5F);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(numbers.data()), static_cast<std::streamsize>(bytes));
  }
  static Message weight(const std::string& name, const std::string& location,
                        const std::string& offset, const std::string& length) {
    auto made = kit::tensor(name, {4, 3}, 1).whole(14, 1);
    const auto add = [&made](const std::string& key, const std::string& value) {
      if (!value.empty()) made.message(13, Message().text(1, key).text(2, value));
    };
    add("location", location);
    add("offset", offset);
    add("length", length);
    return made;
  }
  Result<Model> model_with(const std::vector<Message>& weights) const {
    std::vector<Message> nodes = {kit::node("MatMul", {"x", "w"}, "y")};
    std::ofstream(folder_ + "/m.onnx", std::ios::binary)
        << kit::bytes_of({.input = {1, 4}, .nodes = nodes, .constants = weights});
    return make_model(folder_ + "/m.onnx", {.batch = 2});
  }
  Result<Model> model_at(const std::string& location, const std::string& offset = "0",
                         const std::string& length = std::to_string(kBytes)) const {
    return model_with({weight("w", location, offset, length)});
  }
  static void expect_refused(const Result<Model>& model, Code code, const std::string& words) {
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code(), code) << model.error().message();
    EXPECT_NE(model.error().message().find(words), std::string::npos) << model.error().message();
    EXPECT_NE(model.error().message().find("'w'"), std::string::npos) << model.error().message();
  }

  std::string outside_;
  std::string folder_;
};

TEST_F(ExternalFiles, IsReadFromTheModelsFolder) {
  for (const auto& [location, offset, length] :
       std::vector<std::array<std::string, 3>>{{"w.data", "0", "48"},
                                               {"w.data", "48", "48"},
                                               {"w.data", "48", ""},
                                               {"weights/w.data", "", ""},
                                               {"weights/../w.data", "0", "48"}}) {
    const auto model = model_at(location, offset, length);
    ASSERT_TRUE(model) << model.error().to_string();
    EXPECT_EQ(model->initial.at("w").elements<float>()[11], 0.5F);
  }
}

TEST_F(ExternalFiles, IsNotReadFromElsewhere) {
  expect_refused(model_at("../secret.data"), Code::kInvalidArgument, "not in the model's folder");
  expect_refused(model_at(outside_ + "/secret.data"), Code::kInvalidArgument,
                 "not in the model's folder");
  std::filesystem::create_symlink("../secret.data", folder_ + "/link.data");
  expect_refused(model_at("link.data"), Code::kInvalidArgument, "not in the model's folder");
  std::filesystem::create_directory_symlink("..", folder_ + "/up");
  expect_refused(model_at("up/secret.data"), Code::kInvalidArgument, "not in the model's folder");
  expect_refused(model_at("weights"), Code::kInvalidArgument, "no regular file");
  expect_refused(model_at("missing.data"), Code::kNotFound, "missing.data");
}

TEST_F(ExternalFiles, IsNotReadBeyondTheEndOfItsFile) {
  expect_refused(model_at("w.data", "49", "48"), Code::kDataLoss, "w.data");
  expect_refused(model_at("w.data", "97", ""), Code::kDataLoss, "w.data");
  expect_refused(model_at("w.data", "0", "18446744073709551615"), Code::kDataLoss, "w.data");
  expect_refused(model_at("w.data", "18446744073709551615", "48"), Code::kDataLoss, "w.data");
  expect_refused(model_at("w.data", "0", "44"), Code::kInvalidArgument, "elements");
}

TEST_F(ExternalFiles, IsNoMoreThanItsFileHas) {
  auto model = model_with(
      {weight("v", "weights/w.data", "0", "48"), weight("w", "weights/w.data", "0", "48")});
  expect_refused(model, Code::kDataLoss, "more bytes than weights/w.data");
}

TEST_F(ExternalFiles, HasNumbersForItsPlace) {
  for (const auto* number : {"-1", "x", "4x", "99999999999999999999"}) {
    const auto model = model_at("w.data", number);
    ASSERT_FALSE(model) << number;
    EXPECT_EQ(model.error().code(), Code::kDataLoss) << model.error().message();
  }
}

// What newer exporters leave to whoever reads the file.
TEST(OnnxNodes, FoldTheShapesOfTheNewExporter) {
  // Conv(x, w, Expand(CastLike(0, x), Shape(w)[0:1])): the bias of a layer that has none.
  const auto model = kit::model_of_graph(
      {.input = {1, 2, 4, 4},
       .nodes = {kit::node("Shape", {"w"}, "rows",
                           {kit::whole_attribute("start", 0), kit::whole_attribute("end", 1)}),
                 kit::node("Expand", {"rows", "one"}, "length"),
                 kit::node("CastLike", {"zero", "x"}, "nothing"),
                 kit::node("Expand", {"nothing", "length"}, "bias"),
                 kit::node("Conv", {"x", "w", "bias"}, "c"), kit::node("Flatten", {"c"}, "y")},
       .constants = {kit::noise("w", {3, 2, 3, 3}), kit::wholes("zero", {0}),
                     kit::wholes("one", {1})}});
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(model->initial.size(), 1U);
  EXPECT_TRUE(model->initial.contains("w"));
}

}  // namespace
}  // namespace ferry::models::onnx
