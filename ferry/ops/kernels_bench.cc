#include <benchmark/benchmark.h>

#include <map>
#include <numeric>

#include "ferry/graph/builder.h"
#include "ferry/ops/evaluate.h"
#include "ferry/ops/onednn_internal.h"

// Kernels beside the same work asked of oneDNN directly, in the layouts that it likes best: what a
// kernel takes more is its reorders and its own overhead. Work is in floating-point operations.

namespace ferry::ops {
namespace {

using tensor::Shape;
using tensor::Spec;
using tensor::Tensor;
using Dims = std::vector<std::int64_t>;

Tensor filled(const Spec& spec) {
  auto made = *make_tensor(spec);
  if (spec.type == tensor::ElementType::kF32)
    for (auto& value : made.elements<float>()) value = 0.5F;
  return made;
}
Tensor filled(const Dims& dims) { return filled({tensor::ElementType::kF32, *Shape::of(dims)}); }

// Memory is there from the first run on.
class BenchContext final : public KernelContext {
 public:
  explicit BenchContext(std::vector<Tensor> inputs) : inputs_(std::move(inputs)) {}
  std::size_t inputs() const override { return inputs_.size(); }
  const Tensor& input(std::size_t index) const override { return inputs_[index]; }
  Result<Tensor> output(std::uint32_t index, const Spec& spec) override {
    if (outputs_.count(index) == 0) outputs_[index] = filled(spec);
    return outputs_[index];
  }
  void pass(std::uint32_t, Tensor) override {}
  Result<std::span<std::byte>> scratch(std::uint64_t bytes) override {
    const auto call = calls_++;
    if (call == scratch_.size())
      scratch_.push_back(
          filled({tensor::ElementType::kU8, *Shape::of({static_cast<std::int64_t>(bytes)})}));
    return scratch_[call].bytes();
  }
  Result<Tensor> variable(std::string_view) override { return fail(Code::kNotFound, "none"); }
  Result<Tensor> fed(std::string_view) override { return fail(Code::kNotFound, "none"); }
  std::uint64_t step() const override { return 1; }
  void begin() { calls_ = 0; }

 private:
  std::vector<Tensor> inputs_;
  std::map<std::uint32_t, Tensor> outputs_;
  std::vector<Tensor> scratch_;
  std::size_t calls_ = 0;
};

void run_kernel(benchmark::State& state, std::string_view op, const std::vector<Dims>& inputs,
                const graph::Attributes& attributes, double work) {
  graph::Graph graph;
  graph::Builder builder(graph);
  std::vector<graph::Expr> from;
  std::vector<Tensor> tensors;
  for (const auto& dims : inputs) {
    tensors.push_back(filled(dims));
    from.push_back(builder.input("x", tensors.back().spec()));
  }
  const auto node = builder.add(op, from, attributes);
  const auto kernel = *make_kernel(graph.node(node.output().node));
  BenchContext context(tensors);
  for (auto _ : state) {
    context.begin();
    if (!kernel->run(context)) state.SkipWithError("the kernel failed");
  }
  state.counters["work"] = benchmark::Counter(work, benchmark::Counter::kIsIterationInvariantRate);
}

void matmul_kernel(benchmark::State& state) {
  const auto n = state.range(0);
  run_kernel(state, "MatMul", {{n, n}, {n, n}}, {}, 2.0 * static_cast<double>(n * n * n));
}

void matmul_onednn(benchmark::State& state) {
  const auto n = state.range(0);
  using Tag = dnnl::memory::format_tag;
  const auto any = layout({n, n}, Tag::any);
  use_threads();
  const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(any, any, any), engine());
  const dnnl::matmul primitive(desc);
  dnnl::memory a(desc.src_desc(), engine());
  dnnl::memory b(desc.weights_desc(), engine());
  dnnl::memory y(desc.dst_desc(), engine());
  for (auto _ : state) {
    primitive.execute(stream(), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}});
    stream().wait();
  }
  state.counters["work"] = benchmark::Counter(2.0 * static_cast<double>(n * n * n),
                                              benchmark::Counter::kIsIterationInvariantRate);
}

// Images of size x size, C to O channels, filters of K x K.
struct ConvSize {
  std::int64_t n, size, c, o, k, stride;
  explicit ConvSize(const benchmark::State& state)
      : n(state.range(0)),
        size(state.range(1)),
        c(state.range(2)),
        o(state.range(3)),
        k(state.range(4)),
        stride(state.range(5)) {}
  std::int64_t pad() const { return k / 2; }
  std::int64_t out() const { return (size + 2 * pad() - k) / stride + 1; }
  double work() const { return 2.0 * static_cast<double>(n * out() * out() * c * o * k * k); }
  Dims x() const { return {n, size, size, c}; }
  Dims w() const { return {k, k, c, o}; }
  Dims y() const { return {n, out(), out(), o}; }
  graph::Attributes attributes() const {
    return {{"strides", Dims{stride, stride}}, {"pads", Dims{pad(), pad(), pad(), pad()}}};
  }
};

void conv_kernel(benchmark::State& state) {
  const ConvSize s(state);
  run_kernel(state, "Conv2D", {s.x(), s.w()}, s.attributes(), s.work());
}
void conv_grad_input_kernel(benchmark::State& state) {
  const ConvSize s(state);
  run_kernel(state, "Conv2DGradInput", {s.y(), s.w(), s.x()}, s.attributes(), s.work());
}
void conv_grad_filter_kernel(benchmark::State& state) {
  const ConvSize s(state);
  run_kernel(state, "Conv2DGradFilter", {s.y(), s.x(), s.w()}, s.attributes(), s.work());
}

// Runs a primitive over memory in its own layouts.
void run_primitive(benchmark::State& state, const dnnl::primitive& primitive,
                   const std::vector<std::pair<int, dnnl::memory::desc>>& arguments, double work) {
  std::unordered_map<int, dnnl::memory> memory;
  for (const auto& [argument, desc] : arguments) {
    memory.emplace(argument, dnnl::memory(desc, engine()));
    std::fill_n(static_cast<float*>(memory[argument].get_data_handle()), desc.get_size() / 4, 0.5F);
  }
  for (auto _ : state) {
    primitive.execute(stream(), memory);
    stream().wait();
  }
  state.counters["work"] = benchmark::Counter(work, benchmark::Counter::kIsIterationInvariantRate);
}

dnnl::memory::desc free_layout(const dnnl::memory::dims& dims) {
  return layout(dims, dnnl::memory::format_tag::any);
}

// The three primitives, which differ in nothing but their kind.
struct RawConv {
  ConvSize s;
  dnnl::memory::desc x, w, y;
  dnnl::memory::dims strides, pads;
  explicit RawConv(const benchmark::State& state)
      : s(state),
        x(free_layout({s.n, s.c, s.size, s.size})),
        w(free_layout({s.o, s.c, s.k, s.k})),
        y(free_layout({s.n, s.o, s.out(), s.out()})),
        strides{s.stride, s.stride},
        pads{s.pad(), s.pad()} {
    use_threads();
  }
  dnnl::convolution_forward::primitive_desc forward() const {
    return {dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training,
                                            dnnl::algorithm::convolution_direct, x, w, y, strides,
                                            pads, pads),
            engine()};
  }
};

void conv_onednn(benchmark::State& state) {
  const RawConv raw(state);
  const auto desc = raw.forward();
  run_primitive(state, dnnl::convolution_forward(desc),
                {{DNNL_ARG_SRC, desc.src_desc()},
                 {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                 {DNNL_ARG_DST, desc.dst_desc()}},
                raw.s.work());
}
void conv_grad_input_onednn(benchmark::State& state) {
  const RawConv raw(state);
  using Backward = dnnl::convolution_backward_data;
  const Backward::primitive_desc desc(Backward::desc(dnnl::algorithm::convolution_direct, raw.x,
                                                     raw.w, raw.y, raw.strides, raw.pads, raw.pads),
                                      engine(), raw.forward());
  run_primitive(state, Backward(desc),
                {{DNNL_ARG_DIFF_SRC, desc.diff_src_desc()},
                 {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                 {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()}},
                raw.s.work());
}
void conv_grad_filter_onednn(benchmark::State& state) {
  const RawConv raw(state);
  using Backward = dnnl::convolution_backward_weights;
  const Backward::primitive_desc desc(Backward::desc(dnnl::algorithm::convolution_direct, raw.x,
                                                     raw.w, raw.y, raw.strides, raw.pads, raw.pads),
                                      engine(), raw.forward());
  run_primitive(state, Backward(desc),
                {{DNNL_ARG_SRC, desc.src_desc()},
                 {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()},
                 {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()}},
                raw.s.work());
}

void conv_sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({8, 56, 64, 64, 3, 1})
      ->Args({8, 28, 128, 256, 1, 1})
      ->Args({8, 14, 256, 256, 3, 1})
      ->Args({8, 112, 3, 64, 7, 2})
      ->UseRealTime();
}

// A layer of 1024 over 32 rows: one step, and a whole sequence. The limit of both is matmul_onednn.
constexpr std::int64_t kRows = 32;
constexpr std::int64_t kState = 1024;
constexpr double kStepWork = 2.0 * kRows * (2 * kState) * (4 * kState);

void lstm_cell_kernel(benchmark::State& state) {
  const Dims h = {kRows, kState};
  run_kernel(state, "LstmCell", {h, h, h, {2 * kState, 4 * kState}, {4 * kState}}, {}, kStepWork);
}
void lstm_kernel(benchmark::State& state) {
  const auto steps = state.range(0);
  const Dims h = {kRows, kState};
  run_kernel(state, "Lstm", {{steps, kRows, kState}, h, h, {2 * kState, 4 * kState}, {4 * kState}},
             {}, kStepWork * static_cast<double>(steps));
}
void lstm_grad_kernel(benchmark::State& state) {
  const auto steps = state.range(0);
  const Dims h = {kRows, kState};
  const Dims all = {steps, kRows, kState};
  run_kernel(state, "LstmGrad",
             {all, all, h, h, {2 * kState, 4 * kState}, all, all, {steps, kRows, 4 * kState}}, {},
             2 * kStepWork * static_cast<double>(steps));
}

BENCHMARK(matmul_kernel)->Arg(128)->Arg(512)->Arg(1024)->UseRealTime();
BENCHMARK(matmul_onednn)->Arg(128)->Arg(512)->Arg(1024)->UseRealTime();
BENCHMARK(lstm_cell_kernel)->UseRealTime();
BENCHMARK(lstm_kernel)->Arg(80)->UseRealTime();
BENCHMARK(lstm_grad_kernel)->Arg(80)->UseRealTime();
BENCHMARK(conv_kernel)->Apply(conv_sizes);
BENCHMARK(conv_onednn)->Apply(conv_sizes);
BENCHMARK(conv_grad_input_kernel)->Apply(conv_sizes);
BENCHMARK(conv_grad_input_onednn)->Apply(conv_sizes);
BENCHMARK(conv_grad_filter_kernel)->Apply(conv_sizes);
BENCHMARK(conv_grad_filter_onednn)->Apply(conv_sizes);

}  // namespace
}  // namespace ferry::ops
