#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <vector>

#include "ferry/math/elements.h"
#include "ferry/math/optimize.h"

// Loops over memory, beside memcpy. Bytes are those that a loop reads and writes.

namespace ferry::math {
namespace {

struct Floats {
  std::vector<float> a, b, c, d;
  explicit Floats(const benchmark::State& state)
      : a(static_cast<std::size_t>(state.range(0)), 1), b(a), c(a), d(a) {}
};

void moved(benchmark::State& state, std::int64_t arrays) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * arrays * 4);
}

void bench_memcpy(benchmark::State& state) {
  Floats f(state);
  for (auto _ : state) {
    std::memcpy(f.a.data(), f.b.data(), f.a.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  moved(state, 2);
}
void bench_sum_of_3(benchmark::State& state) {
  Floats f(state);
  const std::array<const float*, 3> sources = {f.b.data(), f.c.data(), f.d.data()};
  for (auto _ : state) sum({sources, 0.5F}, f.a.data(), f.a.size());
  moved(state, 4);
}
void bench_sgd_in_place(benchmark::State& state) {
  Floats f(state);
  const std::array<const float*, 1> sources = {f.b.data()};
  for (auto _ : state) sgd(f.a.data(), f.a.data(), {sources, 1}, 0.1F, f.a.size());
  moved(state, 3);
}
void bench_adam(benchmark::State& state) {
  Floats f(state);
  const std::array<const float*, 1> sources = {f.b.data()};
  for (auto _ : state)
    adam(f.a.data(), f.a.data(), f.c.data(), f.d.data(), {sources, 1}, {.rate = 0.1}, f.a.size());
  moved(state, 7);
}
void bench_tanh(benchmark::State& state) {
  Floats f(state);
  for (auto _ : state) unary(Unary::kTanh, f.a.data(), f.b.data(), f.a.size());
  moved(state, 2);
}

BENCHMARK(bench_memcpy)->Arg(4096)->Arg(1 << 24);
BENCHMARK(bench_sum_of_3)->Arg(4096)->Arg(1 << 24);
BENCHMARK(bench_sgd_in_place)->Arg(4096)->Arg(1 << 24);
BENCHMARK(bench_adam)->Arg(4096)->Arg(1 << 24);
BENCHMARK(bench_tanh)->Arg(4096)->Arg(1 << 24);

}  // namespace
}  // namespace ferry::math
