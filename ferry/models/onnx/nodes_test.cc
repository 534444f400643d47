#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "ferry/models/onnx_kit_internal.h"

// Nodes one by one, in files written by hand.

namespace ferry::models::onnx {
namespace {

using namespace kit;
using ::testing::HasSubstr;

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_FALSE(a.empty());
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
}

// A convolution of images 2 x 5 x 6 whose places are all classes.
Graph conv_graph(const std::vector<Message>& attributes) {
  return {{3, 2, 5, 6},
          {node("Conv", {"x", "w", "b"}, "c", attributes), node("Flatten", {"c"}, "y")},
          {noise("w", {4, 2, 2, 3}), noise("b", {4})}};
}
Graph pool_graph(const std::string& op, const std::vector<Message>& attributes) {
  return {{3, 2, 5, 6}, {node(op, {"x"}, "c", attributes), node("Flatten", {"c"}, "y")}};
}

TEST(OnnxNodes, PadAsTheyAreTold) {
  const auto strides = wholes_attribute("strides", {1, 2});
  const auto pads = [&](const Dims& given) {
    return logits_of(conv_graph({strides, wholes_attribute("pads", given)}));
  };
  const auto automatic = [&](const std::string& how) {
    return logits_of(conv_graph({strides, text_attribute("auto_pad", how)}));
  };
  expect_near(automatic("SAME_UPPER"), pads({0, 0, 1, 1}));
  expect_near(automatic("SAME_LOWER"), pads({1, 1, 0, 0}));
  expect_near(automatic("VALID"), pads({0, 0, 0, 0}));
  expect_near(automatic("NOTSET"), pads({0, 0, 0, 0}));
}

TEST(OnnxNodes, AverageOverPaddingOrNot) {
  const auto window = wholes_attribute("kernel_shape", {3, 3});
  const auto pads = wholes_attribute("pads", {1, 1, 1, 1});
  const auto counts = whole_attribute("count_include_pad", 1);
  const Graph padded{{3, 2, 5, 6},
                     {node("Pad", {"x", "pads"}, "p"), node("AveragePool", {"p"}, "c", {window}),
                      node("Flatten", {"c"}, "y")},
                     {wholes("pads", {0, 0, 1, 1, 0, 0, 1, 1})}};
  const auto with = logits_of(pool_graph("AveragePool", {window, pads, counts}));
  expect_near(with, logits_of(padded));
  const auto without = logits_of(pool_graph("AveragePool", {window, pads}));
  EXPECT_NEAR(with[0] * 9, without[0] * 4, 1e-5);  // a corner
}

TEST(OnnxNodes, CountPlacesThatReachOverTheEdge) {
  const auto window = wholes_attribute("kernel_shape", {2, 2});
  const auto strides = wholes_attribute("strides", {2, 4});
  const auto ceil = whole_attribute("ceil_mode", 1);
  // 5 rows have 3 places, the last over the edge; of 6 columns all places are whole.
  const auto reached = logits_of(pool_graph("MaxPool", {window, strides, ceil}));
  EXPECT_EQ(reached.size(), 3U * 2 * 3 * 2);
  expect_near(reached, logits_of(pool_graph(
                           "MaxPool", {window, strides, wholes_attribute("pads", {0, 0, 1, 0})})));
}

TEST(OnnxNodes, MultiplyAndAdd) {
  const Graph gemm{{3, 4},
                   {node("Gemm", {"x", "w", "b"}, "y",
                         {whole_attribute("transB", 1), real_attribute("alpha", 2),
                          real_attribute("beta", 0.5)})},
                   {noise("w", {5, 4}), noise("b", {5})}};
  const Graph parts{
      {3, 4},
      {node("Transpose", {"w"}, "t"), node("MatMul", {"x", "t"}, "m"), node("Add", {"m", "m"}, "a"),
       node("Div", {"b", "two"}, "h"), node("Sum", {"a", "h"}, "y")},
      {noise("w", {5, 4}), noise("b", {5}), tensor("two", {}, 1).real(4, 2)}};
  expect_near(logits_of(gemm), logits_of(parts));
}

TEST(OnnxNodes, TrainTheBiasOfAProduct) {
  const auto model = model_of_graph({{3, 4},
                                     {node("MatMul", {"x", "w"}, "m"), node("Add", {"b", "m"}, "a"),
                                      node("Add", {"a", "c"}, "y")},
                                     {noise("w", {4, 5}), noise("b", {5}), noise("c", {5})}});
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_TRUE(model->initial.contains("w"));
  EXPECT_TRUE(model->initial.contains("b"));
  EXPECT_FALSE(model->initial.contains("c"));
}

TEST(OnnxNodes, ReadNumbersInAllTheirForms) {
  const std::vector<Message> nodes = {node("Gemm", {"x", "w"}, "y")};
  const auto with = [&](const Message& w) { return logits_of({{3, 2}, nodes, {w}}); };
  const auto expected = with(tensor("w", {2, 1}, 1).real(4, 0.5F).real(4, -2));
  expect_near(with(tensor("w", {2, 1}, 10).whole(5, 0x3800).whole(5, 0xc000)), expected);
  expect_near(with(tensor("w", {2, 1}, 10).text(9, {'\0', '\x38', '\0', '\xc0'})), expected);
  const std::array<double, 2> wide = {0.5, -2};
  const std::string raw(reinterpret_cast<const char*>(wide.data()), sizeof(wide));
  expect_near(with(tensor("w", {2, 1}, 11).text(9, raw)), expected);
  expect_near(with(tensor("w", {2, 1}, 11).text(10, raw)), expected);
}

TEST(OnnxNodes, KeepTheOrderOfFlattenedImages) {
  // Elements in ONNX's order, whatever comes in between.
  const std::vector<Message> weights = {noise("w", {60, 5}), wholes("back", {0, 2, 5, 6}),
                                        noise("one", {2, 1, 1})};
  const Graph simple{
      {3, 2, 5, 6}, {node("Flatten", {"x"}, "f"), node("MatMul", {"f", "w"}, "y")}, weights};
  const Graph moved{{3, 2, 5, 6},
                    {node("Flatten", {"x"}, "f"), node("Add", {"f", "none"}, "a"),
                     node("MatMul", {"a", "w"}, "y")},
                    {weights[0], tensor("none", {60}, 1).text(9, std::string(240, '\0'))}};
  const Graph back{{3, 2, 5, 6},
                   {node("Flatten", {"x"}, "f"), node("Reshape", {"f", "back"}, "i"),
                    node("Mul", {"i", "one"}, "m"), node("Div", {"m", "one"}, "d"),
                    node("Reshape", {"d", "rows"}, "r"), node("MatMul", {"r", "w"}, "y")},
                   {weights[0], weights[1], weights[2], wholes("rows", {-1, 60})}};
  expect_near(logits_of(simple), logits_of(moved));
  expect_near(logits_of(simple), logits_of(back));
}

// Two rows for each sample, and back.
TEST(OnnxNodes, MayJoinTheBatchWithOtherDimensions) {
  const auto with = [](std::int64_t batch, const Dims& there, const Dims& back) {
    return logits_of({{batch, 4},
                      {node("Reshape", {"x", "there"}, "r"), node("MatMul", {"r", "w"}, "m"),
                       node("Reshape", {"m", "back"}, "y")},
                      {noise("w", {2, 3}), wholes("there", there), wholes("back", back)}});
  };
  const auto expected = with(3, {6, 2}, {3, 6});
  expect_near(with(-1, {-1, 2}, {-1, 6}), expected);  // made for any batch
  expect_near(with(1, {-1, 2}, {1, 6}), expected);    // for other ones
  expect_near(with(1, {2, 2}, {1, 6}), expected);
  expect_near(with(5, {10, 2}, {5, 6}), expected);
  const Graph open{{1, 2, 2, 2}, {node("Reshape", {"x", "s"}, "y")}, {wholes("s", {1, -1})}};
  EXPECT_EQ(logits_of(open).size(), 24U);
}

TEST(OnnxNodes, LeaveTheLastSoftmaxToTheLoss) {
  const std::vector<Message> weights = {noise("w", {4, 5})};
  const Graph simple{{3, 4}, {node("MatMul", {"x", "w"}, "y")}, weights};
  for (const auto* op : {"Softmax", "LogSoftmax"}) {
    const Graph ended{{3, 4}, {node("MatMul", {"x", "w"}, "m"), node(op, {"m"}, "y")}, weights};
    expect_near(logits_of(ended), logits_of(simple));
  }
}

TEST(OnnxNodes, DropInTraining) {
  const auto model =
      model_of_graph({{3, 4},
                      {node("MatMul", {"x", "w"}, "m"), node("Dropout", {"m", "rate"}, "y")},
                      {noise("w", {4, 5}), tensor("rate", {}, 1).real(4, 0.25F)}});
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(count_of(answer_of(*model).graph, "Dropout"), 1U);
}

// What ONNX says of a GRU whose state is reset before the product: z, r, then the candidate.
// W and R are [3 H, I] and [3 H, H], b is [6 H], x and h one row.
std::vector<double> gru_step(const std::vector<double>& x, const std::vector<double>& h,
                             const std::vector<float>& w, const std::vector<float>& r,
                             const std::vector<float>& b) {
  const auto units = h.size();
  const auto sum = [&](std::size_t gate, std::size_t unit, const std::vector<double>& state) {
    const auto row = gate * units + unit;
    double all = double{b[row]} + double{b[3 * units + row]};
    for (std::size_t i = 0; i < x.size(); ++i) all += x[i] * double{w[row * x.size() + i]};
    for (std::size_t i = 0; i < units; ++i) all += state[i] * double{r[row * units + i]};
    return all;
  };
  const auto squash = [](double value) { return 1 / (1 + std::exp(-value)); };
  auto reset = h;
  for (std::size_t i = 0; i < units; ++i) reset[i] *= squash(sum(1, i, h));
  std::vector<double> next(units);
  for (std::size_t i = 0; i < units; ++i) {
    const auto update = squash(sum(0, i, h));
    next[i] = (1 - update) * std::tanh(sum(2, i, reset)) + update * h[i];
  }
  return next;
}

TEST(OnnxNodes, ResetTheStateOfAGruBeforeTheProduct) {
  const Graph graph{
      {3, 4, 2},
      {node("Transpose", {"x"}, "t", {wholes_attribute("perm", {1, 0, 2})}),
       two_outputs("GRU", {"t", "w", "r", "b"}, "", "h"), node("Squeeze", {"h", "axis"}, "y")},
      {noise("w", {1, 9, 2}), noise("r", {1, 9, 3}), noise("b", {1, 18}), wholes("axis", {0})}};
  const auto logits = logits_of(graph);
  std::vector<float> expected;
  for (std::size_t sample = 0; sample < 3; ++sample) {
    std::vector<double> h(3);
    for (std::size_t step = 0; step < 4; ++step) {
      const auto at = (sample * 4 + step) * 2;
      h = gru_step({fed_number(at), fed_number(at + 1)}, h, noise_numbers(18), noise_numbers(27),
                   noise_numbers(18));
    }
    expected.insert(expected.end(), h.begin(), h.end());
  }
  expect_near(logits, expected);
}

struct Refused {
  Graph graph;
  Code code;
  std::vector<std::string> words;
};

std::vector<Refused> refused() {
  const auto w = noise("w", {4, 4});
  return {
      {conv_graph({whole_attribute("group", 2)}), Code::kUnimplemented, {"the Conv", "groups"}},
      {conv_graph({wholes_attribute("dilations", {2, 1})}), Code::kUnimplemented, {"dilations"}},
      {conv_graph({wholes_attribute("strides", {0, 1})}), Code::kInvalidArgument, {"strides"}},
      {conv_graph({text_attribute("auto_pad", "SOME")}), Code::kInvalidArgument, {"SOME"}},
      {{{3, 4}, {node("Erf", {"x"}, "y")}}, Code::kUnimplemented, {"the Erf", "Erf"}},
      {{{3, 4}, {node("Relu", {"z"}, "y")}}, Code::kInvalidArgument, {"the Relu", "'z'"}},
      {{{3, 4}, {node("Relu", {}, "y")}}, Code::kInvalidArgument, {"no input"}},
      {{{3, 4}, {node("Relu", {"x"}, "z")}}, Code::kInvalidArgument, {"'y'"}},
      {{{3, 4, 5}, {node("Relu", {"x"}, "y")}}, Code::kInvalidArgument, {"classes"}},
      {{{3, 4}, {node("Relu", {"x"}, "y")}, {}, 16}, Code::kUnimplemented, {"'x'", "16"}},
      {{{3, -1}, {node("Relu", {"x"}, "y")}}, Code::kInvalidArgument, {"'x'", "known"}},
      {{{3, 4}, {node("Gemm", {"x", "w"}, "y")}, {tensor("w", {4, 4}, 1).whole(14, 1)}},
       Code::kUnimplemented,
       {"'w'", "one file"}},
      {{{3, 4}, {node("Gemm", {"x", "w"}, "y")}, {tensor("w", {4, 4}, 1).real(4, 1)}},
       Code::kInvalidArgument,
       {"'w'", "[4, 4]"}},
      {{{3, 4}, {node("Gemm", {"x", "w"}, "y")}, {noise("w", {5, 4})}},
       Code::kInvalidArgument,
       {"the Gemm"}},
      {{{3, 4},
        {node("MatMul", {"x", "w"}, "m"),
         node("Gemm", {"m", "w"}, "y", {whole_attribute("transB", 1)})},
        {w}},
       Code::kUnimplemented,
       {"'w'", "two ways"}},
      {{{3, 4}, {node("Reshape", {"x", "s"}, "y")}, {wholes("s", {-1, -1})}},
       Code::kInvalidArgument,
       {"the Reshape"}},
      {{{3, 2, 4, 4},
        {node("LRN", {"x"}, "l", {whole_attribute("size", 4)}), node("Flatten", {"l"}, "y")}},
       Code::kUnimplemented,
       {"even"}},
  };
}

TEST(OnnxNodes, SayWhatTheyCannotDo) {
  for (const auto& each : refused()) {
    const auto model = model_of_graph(each.graph);
    ASSERT_FALSE(model) << each.words[0];
    EXPECT_EQ(model.error().code(), each.code) << model.error().to_string();
    for (const auto& word : each.words) EXPECT_THAT(model.error().message(), HasSubstr(word));
  }
}

// Whether it is accepted or not: nothing worse happens.
void expect_mild(const std::string& bytes) {
  const auto model = model_of_bytes(bytes);
  if (model) return;
  const auto code = model.error().code();
  EXPECT_TRUE(code == Code::kDataLoss || code == Code::kInvalidArgument ||
              code == Code::kUnimplemented || code == Code::kOutOfRange ||
              code == Code::kResourceExhausted)
      << model.error().to_string();
}

TEST(OnnxFiles, ThatEndTooEarlyAreRefused) {
  const auto bytes = bytes_of(conv_graph({}));
  ASSERT_TRUE(model_of_bytes(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size) expect_mild(bytes.substr(0, size));
  const auto cut = model_of_bytes(bytes.substr(0, bytes.size() / 2));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code(), Code::kDataLoss);
  EXPECT_THAT(cut.error().message(), HasSubstr("byte"));
}

TEST(OnnxFiles, WithAnyByteChangedDoNoHarm) {
  const auto bytes = bytes_of(conv_graph({wholes_attribute("pads", {1, 1, 1, 1})}));
  for (std::size_t place = 0; place < bytes.size(); ++place)
    for (const auto value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      auto changed = bytes;
      changed[place] = static_cast<char>(value);
      expect_mild(changed);
    }
}

TEST(OnnxFiles, ThatAreNoneAreRefused) {
  for (const auto& bytes : {std::string(), std::string("hello, this is not a model"),
                            std::string(100, '\xff'), std::string("\x0b\x0c")}) {
    const auto model = model_of_bytes(bytes);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code(), Code::kDataLoss) << model.error().to_string();
  }
}

// Each of thirty nodes doubles what was there.
TEST(OnnxFiles, WhoseConstantsGrowAreRefused) {
  Graph graph{{3, 4}, {}, {noise("c0", {1, 1024})}};
  for (int i = 0; i < 30; ++i)
    graph.nodes.push_back(node("Concat", {fmt::format("c{}", i), fmt::format("c{}", i)},
                               fmt::format("c{}", i + 1), {whole_attribute("axis", 0)}));
  graph.nodes.push_back(node("Gemm", {"x", "c30"}, "y"));
  const auto model = model_of_graph(graph);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace ferry::models::onnx
