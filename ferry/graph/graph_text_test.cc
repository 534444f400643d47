#include "ferry/graph/graph_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ferry/base/base64.h"
#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/graph/optimizer.h"

namespace ferry::graph {
namespace {

using tensor::ElementType;
using tensor::Shape;

TEST(Base64, GoesThereAndBack) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 300; ++i) {
    const auto text = to_base64(bytes);
    const auto again = from_base64(text);
    ASSERT_TRUE(again) << text;
    EXPECT_EQ(*again, bytes);
    bytes.push_back(static_cast<std::byte>(i * 37));
  }
  EXPECT_EQ(to_base64(std::as_bytes(std::span("any", 3))), "YW55");
  EXPECT_EQ(to_base64(std::as_bytes(std::span("an", 2))), "YW4=");
  for (const auto* odd : {"YW5", "YW5=", "Y===", "====", "YW4=YW55", "YW 5", "YR=="})
    EXPECT_FALSE(from_base64(odd)) << odd;
}

const OpDef* any_op() {
  static const bool kOnce = [] {
    OpDef def;
    def.name = "TestOfText";
    def.infer = [](const Inference&) -> Result<std::vector<tensor::Spec>> {
      return std::vector<tensor::Spec>{{}, {}};
    };
    return register_op(def).has_value();
  }();
  return kOnce ? find_op("TestOfText") : nullptr;
}

tensor::Tensor three_halves() {
  auto share = std::make_shared<std::vector<float>>(std::vector<float>{1.5F, -0.0F, 3e-39F});
  return *tensor::Tensor::over({ElementType::kF32, *Shape::of({3})},
                               std::as_writable_bytes(std::span(*share)), share);
}

TEST(GraphText, KeepsAttributesOfAllKinds) {
  ASSERT_NE(any_op(), nullptr);
  Graph graph;
  const Attributes attributes = {{"bool", true},
                                 {"int", std::numeric_limits<std::int64_t>::min()},
                                 {"most", std::numeric_limits<std::int64_t>::max()},
                                 {"float", 0.1},
                                 {"whole float", 2.0},
                                 {"inf", -std::numeric_limits<double>::infinity()},
                                 {"nan", std::nan("")},
                                 {"text", std::string("\"quoted\" \n\\ \u00e9")},
                                 {"ints", std::vector<std::int64_t>{-1, 0, 7}},
                                 {"none", std::vector<std::int64_t>{}},
                                 {"type", ElementType::kBf16},
                                 {"shape", *Shape::of({-1, 3})},
                                 {"tensor", three_halves()}};
  ASSERT_TRUE(graph.add({.op = "TestOfText", .name = "odd \"name\"", .attributes = attributes}));
  const auto text = to_text(graph);
  ASSERT_TRUE(text) << text.error().to_string();
  const auto again = from_text(*text);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(*to_text(*again), *text);
  const auto& read = again->node(0).attributes;
  ASSERT_EQ(read.all().size(), attributes.all().size());
  for (const auto& [name, value] : attributes.all())
    EXPECT_EQ(read.all().at(name).index(), value.index()) << name;
  EXPECT_EQ(*read.get<bool>("bool"), true);
  EXPECT_EQ(*read.get<double>("float"), 0.1);
  EXPECT_TRUE(std::isnan(*read.get<double>("nan")));
  EXPECT_EQ(*read.get<std::int64_t>("int"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(*read.get<std::vector<std::int64_t>>("ints"), (std::vector<std::int64_t>{-1, 0, 7}));
  EXPECT_EQ(*read.get<ElementType>("type"), ElementType::kBf16);
  EXPECT_EQ(*read.get<Shape>("shape"), *Shape::of({-1, 3}));
  EXPECT_EQ(*read.get<std::string>("text"), *attributes.get<std::string>("text"));
  const auto bytes = read.get<tensor::Tensor>("tensor")->bytes();
  EXPECT_EQ(std::memcmp(bytes.data(), three_halves().bytes().data(), bytes.size()), 0);
}

// A cell, its loss, gradients and an update: several outputs, control edges, places.
TEST(GraphText, IsReadAsTheSameGraph) {
  Graph graph;
  Builder builder(graph);
  const auto on = builder.on("/job:worker/task:0");
  const auto x = builder.input("x", {ElementType::kF32, *Shape::of({-1, 3})});
  const auto h = builder.input("h", {ElementType::kF32, *Shape::of({-1, 2})});
  const auto w = builder.variable("w", {ElementType::kF32, *Shape::of({5, 8})});
  const auto b = builder.variable("b", {ElementType::kF32, *Shape::of({8})});
  const auto loss = mean(lstm_cell(x, {h, h}, w, b).c);
  const auto flow = gradients(loss, std::vector{w});
  const auto done = apply_gradients(Optimizer::adam(), w, builder.constant(0.1F), flow);
  ASSERT_TRUE(builder.status()) << builder.status().error().to_string();
  graph.order(done.output().node, builder.add("Group", {}).output().node);
  const auto text = to_text(graph);
  ASSERT_TRUE(text);
  const auto again = from_text(*text);
  ASSERT_TRUE(again) << again.error().to_string();
  ASSERT_EQ(again->size(), graph.size());
  for (const auto& node : graph.nodes()) {
    const auto& read = again->node(node.id);
    EXPECT_EQ(read.name, node.name);
    EXPECT_EQ(read.op, node.op);
    EXPECT_EQ(read.inputs, node.inputs);
    EXPECT_EQ(read.after, node.after);
    EXPECT_EQ(read.task, node.task);
    EXPECT_EQ(read.outputs, node.outputs);
  }
  EXPECT_EQ(*to_text(*again), *text);
}

// Why a list of nodes, or a whole text, is refused.
std::string refused(const std::string& nodes) {
  const auto whole = nodes.rfind('{', 0) == 0 && nodes.find("\"version\"") != std::string::npos;
  const auto text = whole ? nodes : "{\"version\": 1, \"nodes\": [" + nodes + "]}";
  const auto graph = from_text(text);
  return graph ? "nothing wrong" : graph.error().to_string();
}

constexpr auto kX =
    R"({"name":"x","op":"Input","attributes":{"type":{"type":"f32"},"shape":{"shape":[2]}}})";

TEST(GraphText, NamesWhatIsWrongWithNodes) {
  const auto x = std::string(kX) + ",";
  EXPECT_EQ(refused(kX), "nothing wrong");
  EXPECT_EQ(refused(R"({"name":"y","op":"Nothing"})"),
            "NOT_FOUND: node 0 of a graph's text ('y'): node 'y' asks for the operator Nothing, "
            "which there is not; register_op() adds one");
  EXPECT_EQ(refused(x + R"({"name":"y","op":"Neg","inputs":["z"]})"),
            "INVALID_ARGUMENT: node 1 of a graph's text ('y'): its input 'z', output 0, is in no "
            "node");
  EXPECT_EQ(refused(x + R"({"name":"y","op":"Neg","inputs":[["x",1]]})"),
            "INVALID_ARGUMENT: node 1 of a graph's text ('y'): its input 'x', output 1, is in no "
            "node");
  EXPECT_EQ(
      refused(R"({"name":"a","op":"Neg","inputs":["b"]},{"name":"b","op":"Neg","inputs":["a"]})"),
      "INVALID_ARGUMENT: node 0 of a graph's text ('a'): its input 'b' does not come before "
      "it: the inputs make a cycle, or the nodes are out of order");
  EXPECT_EQ(refused(x + kX),
            "INVALID_ARGUMENT: node 1 of a graph's text ('x'): there are two "
            "nodes 'x'");
  EXPECT_EQ(refused(R"({"op":"Group"})"),
            "INVALID_ARGUMENT: node 0 of a graph's text (''): 'name' should be a text");
  EXPECT_EQ(refused(R"({"name":"g","op":"Group","colour":1})"),
            "INVALID_ARGUMENT: node 0 of a graph's text ('g'): 'colour' means nothing there");
  EXPECT_EQ(refused("7"), "INVALID_ARGUMENT: node 0 of a graph's text (''): it is not in braces");
}

TEST(GraphText, NamesWhatIsWrongWithEdges) {
  EXPECT_EQ(refused(R"({"name":"g","op":"Group","after":["h"]})"),
            "INVALID_ARGUMENT: node 'g' waits for 'h', which there is not");
  EXPECT_EQ(
      refused(R"({"name":"g","op":"Group","after":["h"]},{"name":"h","op":"Group","after":["g"]})"),
      "INVALID_ARGUMENT: the graph has a cycle: g -> h -> g");
  EXPECT_EQ(refused(R"({"name":"g","op":"Group","after":[1]})"),
            "INVALID_ARGUMENT: node 0 of a graph's text ('g'): 'after' should name nodes");
  EXPECT_EQ(refused(R"({"name":"g","op":"Group","inputs":{}})"),
            "INVALID_ARGUMENT: node 0 of a graph's text ('g'): 'inputs' should be a list");
  EXPECT_EQ(refused(R"({"name":"g","op":"Group","inputs":[7]})"),
            "INVALID_ARGUMENT: node 0 of a graph's text ('g'): an input is \"name\" or "
            "[\"name\", index]");
}

TEST(GraphText, NamesWhatIsWrongWithAttributes) {
  const auto with = [](const std::string& attribute) {
    auto text = refused(R"({"name":"c","op":"Const","attributes":{"value":)" + attribute + "}}");
    const std::string begin = "INVALID_ARGUMENT: node 0 of a graph's text ('c'): ";
    return text.rfind(begin, 0) == 0 ? text.substr(begin.size()) : text;
  };
  EXPECT_EQ(with("1"), "attribute 'value': an attribute is {\"kind\": value}");
  EXPECT_EQ(with(R"({"colour":1})"), "attribute 'value': there is no kind of attribute 'colour'");
  EXPECT_EQ(with(R"({"int":1})"), "node 'c' (Const): attribute 'value' is of another kind");
  EXPECT_EQ(with(R"({"int":9223372036854775808})"),
            "attribute 'value': an int is a whole number of 64 bits");
  EXPECT_EQ(with(R"({"int":1.5})"), "attribute 'value': an int is a whole number of 64 bits");
  EXPECT_EQ(with(R"({"float":"one"})"),
            "attribute 'value': a float is a number, or 'nan', 'inf' or '-inf'");
  EXPECT_EQ(with(R"({"bool":1})"), "attribute 'value': a bool is true or false");
  EXPECT_EQ(with(R"({"tensor":{"type":"f32"}})"),
            "attribute 'value': a tensor has a type, a shape and base64");
  EXPECT_EQ(with(R"({"tensor":{"type":"f32","shape":[1],"base64":"AAA="}})"),
            "attribute 'value': f32[1] takes 4 bytes, not 2");
  EXPECT_EQ(with(R"({"tensor":{"type":"f32","shape":[-1],"base64":""}})"),
            "attribute 'value': the shape [?] has no size yet");
  EXPECT_EQ(with(R"({"shape":[-2]})"),
            "attribute 'value': dimension 0 of a shape is -2; it is at least 0, or -1");
}

TEST(GraphText, NamesWhatIsNoGraphAtAll) {
  const auto code = [](std::string_view text, const TextLimits& limits = {}) {
    const auto graph = from_text(text, limits);
    return graph ? Code::kOk : graph.error().code();
  };
  EXPECT_EQ(code(""), Code::kInvalidArgument);
  EXPECT_EQ(code("[]"), Code::kInvalidArgument);
  EXPECT_EQ(code("{}"), Code::kInvalidArgument);
  EXPECT_EQ(code(R"({"version": 2, "nodes": []})"), Code::kInvalidArgument);
  EXPECT_EQ(code(R"({"version": 1, "nodes": {}})"), Code::kInvalidArgument);
  EXPECT_EQ(code("{\"version\": 1, \"nodes\": [\"\xff\"]}"), Code::kInvalidArgument);
  EXPECT_EQ(code(R"({"version": 1, "nodes": []})"), Code::kOk);
  EXPECT_EQ(code(R"({"version": 1, "nodes": []})", {.bytes = 10}), Code::kResourceExhausted);
  EXPECT_EQ(code(R"({"version": 1, "nodes": [1, 2]})", {.nodes = 1}), Code::kResourceExhausted);
  EXPECT_EQ(code(std::string(1000000, '[')), Code::kResourceExhausted);
  EXPECT_EQ(code(R"({"version": 1, "nodes": [], "a": "\"[[[[[[[[[[[[[[[[[[[["})"),
            Code::kInvalidArgument);
}

TEST(GraphText, IsUtf8) {
  Graph graph;
  ASSERT_TRUE(graph.add({.op = "Group", .name = "\xff"}));
  EXPECT_EQ(to_text(graph).error().code(), Code::kInvalidArgument);
}

TEST(GraphDot, DrawsTasksAsBoxes) {
  Graph graph;
  Builder builder(graph);
  const auto x = builder.input("x \"1\"", {ElementType::kF32, *Shape::of({-1})});
  graph.place(x.output().node, "/job:ps/task:0");
  const auto y = -x;
  graph.order(x.output().node, y.output().node);
  EXPECT_EQ(to_dot(graph),
            "digraph {\n"
            "    n1 [label=\"Neg\\nNeg\", shape=box];\n"
            "  subgraph cluster_0 {\n"
            "    label=\"/job:ps/task:0\";\n"
            "    n0 [label=\"x \\\"1\\\"\\nInput\", shape=box];\n"
            "  }\n"
            "  n0 -> n1 [label=\"f32[?]\"];\n"
            "  n0 -> n1 [style=dashed];\n"
            "}\n");
}

}  // namespace
}  // namespace ferry::graph
