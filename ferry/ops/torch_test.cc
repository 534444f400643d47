#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ferry/ops/kit_internal.h"

// The same numbers from PyTorch, where there is one.

namespace ferry::ops {
namespace {

using namespace kit;

// An operator, and its outputs as Python sees them: expressions of a, b, c... and so on, the
// inputs.
struct TorchCase {
  std::string op;
  std::vector<Tensor> inputs;
  Attributes attributes;
  std::string setup;  // Python before the expressions
  std::vector<std::string> outputs;
};

constexpr const char* kPrelude = R"(
import torch, struct
import torch.nn.functional as F
def load(name, dims, kind):
    data = bytearray(open(name, 'rb').read())
    return torch.frombuffer(data, dtype=kind).reshape(dims).clone()
def save(name, value):
    flat = value.detach().to(torch.float32).contiguous().reshape(-1).tolist()
    open(name, 'wb').write(struct.pack('%df' % len(flat), *flat))
def nchw(x): return x.permute(0, 3, 1, 2)
def nhwc(x): return x.permute(0, 2, 3, 1)
def oihw(w): return w.permute(3, 2, 0, 1)
def slope(y, dy, x): return torch.autograd.grad(y, x, dy)[0]
)";

class Torch {
 public:
  Torch() {
    std::string name = (std::filesystem::temp_directory_path() / "ferry-torch-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~Torch() { std::filesystem::remove_all(folder_); }
  Torch(const Torch&) = delete;
  Torch& operator=(const Torch&) = delete;

  static bool there() {
    static const bool found = std::system("python3 -c 'import torch' >/dev/null 2>&1") == 0;
    return found;
  }

  void add(std::size_t number, const TorchCase& one) {
    for (std::size_t i = 0; i < one.inputs.size(); ++i) {
      const auto& x = one.inputs[i];
      const auto file = path(fmt::format("{}-{}.in", number, i));
      std::ofstream(file, std::ios::binary)
          .write(reinterpret_cast<const char*>(x.data()),
                 static_cast<std::streamsize>(x.bytes().size()));
      const auto dims = x.shape().dims();
      script_ +=
          fmt::format("{} = load('{}', [{}], torch.{}).requires_grad_({})\n",
                      static_cast<char>('a' + i), file, fmt::join(dims.begin(), dims.end(), ", "),
                      x.type() == ElementType::kF32 ? "float32" : "int32",
                      x.type() == ElementType::kF32 ? "True" : "False");
    }
    script_ += one.setup + "\n";
    for (std::size_t i = 0; i < one.outputs.size(); ++i)
      script_ += fmt::format("save('{}', {})\n", path(fmt::format("{}-{}.out", number, i)),
                             one.outputs[i]);
  }
  bool run() {
    std::ofstream(path("script.py")) << kPrelude << script_;
    return std::system(fmt::format("python3 {}", path("script.py")).c_str()) == 0;
  }
  std::vector<double> output(std::size_t number, std::size_t index) {
    std::ifstream file(path(fmt::format("{}-{}.out", number, index)), std::ios::binary);
    std::vector<double> all;
    for (float value = 0; file.read(reinterpret_cast<char*>(&value), sizeof(value));)
      all.push_back(double{value});
    return all;
  }

 private:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
  std::string script_;
};

std::vector<TorchCase> image_cases() {
  const auto x = noise({2, 9, 8, 5}, 1);
  const auto w = noise({3, 3, 5, 7}, 2);
  const Attributes conv = {{"strides", Dims{2, 1}}, {"pads", Dims{1, 1, 1, 1}}};
  const auto dy = noise({2, 5, 8, 7}, 3);
  const std::string y = "nhwc(F.conv2d(nchw({}), oihw({}), stride=(2, 1), padding=1))";
  const Attributes pool = {
      {"window", Dims{3, 2}}, {"strides", Dims{2, 2}}, {"pads", Dims{1, 1, 1, 1}}};
  const std::string max = "nhwc(F.max_pool2d(nchw({}), (3, 2), (2, 2), (1, 1)))";
  const std::string mean =
      "nhwc(F.avg_pool2d(nchw({}), (3, 2), (2, 2), (1, 1), count_include_pad=False))";
  const auto pooled = result_of("MaxPool", {x}, pool);
  const auto dpooled = noise({2, 5, 5, 5}, 4);
  const auto as = [](const std::string& text, auto... names) {
    return fmt::format(fmt::runtime(text), names...);
  };
  return {{"Conv2D", {x, w}, conv, "", {as(y, "a", "b")}},
          {"Conv2DGradInput", {dy, w, x}, conv, "", {"slope(" + as(y, "c", "b") + ", a, c)"}},
          {"Conv2DGradFilter", {dy, x, w}, conv, "", {"slope(" + as(y, "b", "c") + ", a, c)"}},
          {"MaxPool", {x}, pool, "", {as(max, "a")}},
          {"MaxPoolGrad", {dpooled, x, pooled}, pool, "", {"slope(" + as(max, "b") + ", a, b)"}},
          {"AvgPool", {x}, pool, "", {as(mean, "a")}},
          {"AvgPoolGrad", {dpooled, x}, pool, "", {"slope(" + as(mean, "b") + ", a, b)"}}};
}

std::vector<TorchCase> norm_cases() {
  const Attributes lrn = {{"size", std::int64_t{5}}, {"alpha", 0.3}, {"beta", 0.75}, {"bias", 1.5}};
  const auto x = noise({2, 3, 4, 6}, 1);
  const std::string by_torch = "nhwc(F.local_response_norm(nchw(b), 5, 0.3, 0.75, 1.5))";
  return {{"BatchNorm",
           {x, noise({6}, 2), noise({6}, 3)},
           {{"epsilon", 1e-3}},
           "",
           {"nhwc(F.batch_norm(nchw(a), None, None, b, c, True, 0.1, 1e-3))", "a.mean((0, 1, 2))",
            "a.var((0, 1, 2), unbiased=False)"}},
          {"LrnGrad", {noise({2, 3, 4, 6}, 4), x}, lrn, "", {"slope(" + by_torch + ", a, b)"}},
          {"Softmax", {noise({5, 9}, 1)}, {}, "", {"torch.softmax(a, -1)"}},
          {"SoftmaxCrossEntropy",
           {noise({4, 9}, 1, -3, 3), ints({4}, {0, 8, -1, 3})},
           {},
           "loss = F.cross_entropy(a, b.long(), ignore_index=-1, reduction='none')",
           {"loss", "slope(loss.sum(), torch.tensor(1.0), a)"}}};
}

std::vector<TorchCase> recurrent_cases() {
  const std::string cell =
      "h, c2 = torch.lstm_cell(a, (b, c), d[:3].t(), d[3:].t(), e, torch.zeros(16))";
  return {
      {"LstmCell",
       {noise({2, 3}, 1), noise({2, 4}, 2), noise({2, 4}, 3), noise({7, 16}, 4), noise({16}, 5)},
       {},
       cell,
       {"h", "c2"}},
      {"Lstm",
       {noise({6, 2, 3}, 1), noise({2, 4}, 2), noise({2, 4}, 3), noise({7, 16}, 4), noise({16}, 5)},
       {},
       "y, _, _ = torch.lstm(a, (b[None], c[None]), [d[:3].t(), d[3:].t(), e, torch.zeros(16)], "
       "True, 1, 0.0, False, False, False)",
       {"y"}}};
}

TEST(AgainstPyTorch, TheSameNumbers) {
  if (!Torch::there()) GTEST_SKIP() << "python3 cannot import torch (Debian: python3-torch)";
  std::vector<TorchCase> cases;
  for (const auto& part : {image_cases(), norm_cases(), recurrent_cases()})
    cases.insert(cases.end(), part.begin(), part.end());
  Torch torch;
  for (std::size_t i = 0; i < cases.size(); ++i) torch.add(i, cases[i]);
  ASSERT_TRUE(torch.run());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto found = results_of(cases[i].op, cases[i].inputs, cases[i].attributes);
    for (std::size_t out = 0; out < cases[i].outputs.size(); ++out) {
      SCOPED_TRACE(cases[i].op + " output " + std::to_string(out));
      expect_close(found[out], torch.output(i, out), 2e-5);
    }
  }
}

TEST(AgainstPyTorch, TheSameAdam) {
  if (!Torch::there()) GTEST_SKIP() << "python3 cannot import torch (Debian: python3-torch)";
  Torch torch;
  const auto w = noise({7}, 1);
  const auto g = noise({7}, 2);
  torch.add(0, {"",
                {w, g},
                {},
                "how = torch.optim.Adam([a], lr=0.1, betas=(0.8, 0.95), eps=1e-3)\n"
                "a.grad = b.detach()\n"
                "for _ in range(3): how.step()",
                {"a"}});
  ASSERT_TRUE(torch.run());
  graph::Graph graph;
  graph::Builder builder(graph);
  std::vector<Expr> inputs;
  Tensors variables = {{"w", copy_of(w)},
                       {"m", floats({7}, std::vector<float>(7))},
                       {"v", floats({7}, std::vector<float>(7))},
                       {"t", floats({}, {0})}};
  for (const auto* name : {"w", "m", "v", "t"})
    inputs.push_back(builder.variable(name, variables[name].spec()));
  inputs.push_back(builder.constant(0.1F));
  inputs.push_back(builder.constant(g));
  const auto updated =
      builder.add("ApplyAdam", inputs, {{"beta1", 0.8}, {"beta2", 0.95}, {"epsilon", 1e-3}});
  for (std::uint64_t step = 1; step <= 3; ++step)
    ASSERT_TRUE(evaluate(graph, variables, {}, std::vector{updated.output()}, {.step = step}));
  expect_close(variables["w"], torch.output(0, 0), 1e-5);
}

}  // namespace
}  // namespace ferry::ops
