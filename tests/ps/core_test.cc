#include <algorithm>
#include <cmath>

#include "ferry/math/convert.h"
#include "ferry/math/optimize.h"
#include "tests/ps/kit.h"

namespace ferry::ps::testing {
namespace {

class Core : public ::testing::TestWithParam<const char*> {
 protected:
  bool maps() const { return std::string(GetParam()) != "tcp"; }
};

INSTANTIATE_TEST_SUITE_P(Provider, Core, ::testing::Values("shm", "tcp", "fake"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(Core, WhatWasPushedIsPulled) {
  Job job(GetParam(), {.block_bytes = 4096});
  auto worker = job.worker();
  const auto first = noise(5000, 1);
  const auto w = must(worker.init("w", f32({5000}), raw(first), {UpdateKind::kSum}, soon()));
  EXPECT_EQ(floats(must(worker.pull(w, soon())), 5000), first);
  auto expected = first;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    const auto gradient = noise(5000, 100 + step);
    for (std::size_t each = 0; each < expected.size(); ++each) expected[each] += gradient[each];
    const auto pulled = must(worker.push_pull(w, raw(gradient), soon()));
    EXPECT_EQ(pulled.in_place(), maps());
    EXPECT_EQ(floats(pulled, 5000), expected) << "step " << step;
  }
}

TEST_P(Core, GradientsFromTheWorkersOwnMemoryAreReadInPlace) {
  Job job(GetParam(), {.block_bytes = 4096});
  auto worker = job.worker();
  const auto spec = f32({20000});
  const auto w = must(worker.init("w", spec, {}, {UpdateKind::kSum}, soon()));
  const auto gradient = must(worker.allocate(spec, soon()));
  std::vector<float> expected(20000);
  for (std::uint64_t step = 1; step <= 10; ++step) {
    const auto values = noise(20000, step);
    std::copy(values.begin(), values.end(), gradient.elements<float>().begin());
    for (std::size_t each = 0; each < expected.size(); ++each) expected[each] += values[each];
    EXPECT_EQ(floats(must(worker.push_pull(w, gradient.bytes(), soon())), 20000), expected);
  }
  EXPECT_EQ(worker.stats().pushed_in_place, maps() ? 10U : 0U);
  EXPECT_EQ(job.server().stats().in_place, maps() ? 10U : 0U);
}

// Several servers and shards, workers whose gradients are in place or not; the sequential model is
// written with the library's own loops, in the order of ranks.
TEST_P(Core, SynchronousTrainingEqualsTheSequentialModelBitForBit) {
  constexpr std::size_t kCount = 30011;
  constexpr std::uint32_t kWorkers = 3;
  constexpr std::uint64_t kSteps = 8;
  Job job(GetParam(),
          {.servers = 2, .workers = kWorkers, .mean = true, .block_bytes = 4096, .pool_blocks = 6},
          2);
  const auto gradient_of = [](std::uint32_t rank, std::uint64_t step) {
    return noise(kCount, 1000 * rank + step);
  };
  std::vector<float> weights = noise(kCount, 7);
  std::vector<float> velocity(kCount);
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    std::vector<std::vector<float>> all;
    std::vector<const float*> parts;
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) all.push_back(gradient_of(rank, step));
    for (const auto& one : all) parts.push_back(one.data());
    math::momentum(weights.data(), weights.data(), velocity.data(), {parts, 1.0F / kWorkers},
                   {0.1F, 0.9F}, kCount);
  }
  job.run([&](Worker& worker) {
    const Update update{.kind = UpdateKind::kMomentum, .rate = 0.1, .momentum = 0.9};
    const auto w = must(worker.init("w", f32({kCount}), raw(noise(kCount, 7)), update, soon()));
    const auto place = must(worker.allocate(f32({kCount}), soon()));
    std::vector<float> last;
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      const auto gradient = gradient_of(worker.rank(), step);
      const bool in_place = (worker.rank() + step) % 2 == 0;
      if (in_place) std::copy(gradient.begin(), gradient.end(), place.elements<float>().begin());
      const auto from = in_place ? std::span<const std::byte>(place.bytes()) : raw(gradient);
      last = floats(must(worker.push_pull(w, from, soon())), kCount);
    }
    EXPECT_EQ(last, weights) << "worker " << worker.rank();
  });
}

TEST_P(Core, UpdatesOfAllKinds) {
  constexpr std::size_t kCount = 3000;
  std::uint64_t calls = 0;
  Job job(GetParam(), {.block_bytes = 65536}, 1, [&](ServerOptions& server) {
    server.functions["sign"] = [&calls](const UpdateCall& call) {
      ++calls;
      for (std::size_t each = 0; each < call.count; ++each)
        call.updated[each] =
            call.weights[each] - std::copysign(0.5F, call.gradient.sources[0][each]);
    };
  });
  auto worker = job.worker();
  const auto first = noise(kCount, 1);
  const auto g1 = noise(kCount, 2);
  const auto g2 = noise(kCount, 3);
  struct Case {
    const char* name;
    Update update;
  };
  const std::vector<Case> cases = {{"assign", {UpdateKind::kAssign}},
                                   {"sgd", {.kind = UpdateKind::kSgd, .rate = 0.25}},
                                   {"adam", {.kind = UpdateKind::kAdam, .rate = 0.01}},
                                   {"sign", {.kind = UpdateKind::kFunction, .function = "sign"}}};
  std::vector<Parameter> parameters;
  for (const auto& each : cases)
    parameters.push_back(
        must(worker.init(each.name, f32({kCount}), raw(first), each.update, soon())));
  for (const auto* gradient : {&g1, &g2}) {
    for (const auto parameter : parameters) must(worker.push(parameter, raw(*gradient), soon()));
    must(worker.end_step(soon()));
  }
  const auto pulled = [&](std::size_t index) {
    return floats(must(worker.pull(parameters[index], soon())), kCount);
  };
  EXPECT_EQ(pulled(0), g2);
  auto sgd = first;
  auto adam = first;
  auto sign = first;
  std::vector<float> m(kCount);
  std::vector<float> v(kCount);
  double t = 0;
  for (const auto* gradient : {&g1, &g2}) {
    const float* part = gradient->data();
    math::sgd(sgd.data(), sgd.data(), {{&part, 1}, 1}, 0.25F, kCount);
    math::adam(adam.data(), adam.data(), m.data(), v.data(), {{&part, 1}, 1},
               {.rate = 0.01, .t = ++t}, kCount);
    for (std::size_t each = 0; each < kCount; ++each) sign[each] -= std::copysign(0.5F, part[each]);
  }
  EXPECT_EQ(pulled(1), sgd);
  EXPECT_EQ(pulled(2), adam);
  EXPECT_EQ(pulled(3), sign);
  EXPECT_EQ(calls, 2U);
}

TEST_P(Core, NarrowTypesAreSummedInF32) {
  for (const auto type : {ElementType::kF16, ElementType::kBf16}) {
    constexpr std::size_t kCount = 7001;
    Job job(GetParam(), {.workers = 2, .block_bytes = 4096, .pool_blocks = 4});
    const auto to_bits = [&](const std::vector<float>& values) {
      std::vector<std::uint16_t> bits(values.size());
      if (type == ElementType::kF16)
        math::f16_from_f32(values.data(), bits.data(), bits.size());
      else
        math::bf16_from_f32(values.data(), bits.data(), bits.size());
      return bits;
    };
    const auto to_floats = [&](const std::vector<std::uint16_t>& bits) {
      std::vector<float> values(bits.size());
      if (type == ElementType::kF16)
        math::f32_from_f16(bits.data(), values.data(), bits.size());
      else
        math::f32_from_bf16(bits.data(), values.data(), bits.size());
      return values;
    };
    const auto first = to_bits(noise(kCount, 1));
    auto expected = to_floats(first);
    for (std::uint64_t step = 1; step <= 5; ++step) {
      const auto a = to_floats(to_bits(noise(kCount, step * 10)));
      const auto b = to_floats(to_bits(noise(kCount, step * 10 + 1)));
      for (std::size_t each = 0; each < kCount; ++each) expected[each] += a[each] + b[each];
    }
    job.run([&](Worker& worker) {
      const Spec spec{type, must(Shape::of({kCount}))};
      const auto w = must(worker.init("w", spec, raw(first), {UpdateKind::kSum}, soon()));
      std::vector<std::uint16_t> last(kCount);
      for (std::uint64_t step = 1; step <= 5; ++step) {
        const auto gradient = to_bits(noise(kCount, step * 10 + worker.rank()));
        must(worker.push(w, raw(gradient), soon()));
        must(worker.end_step(soon()));
        must(worker.pull_to(w, std::as_writable_bytes(std::span(last)), soon()));
      }
      EXPECT_EQ(last, to_bits(expected));
    });
  }
}

TEST_P(Core, RowsArePushedAndPulledByKey) {
  constexpr std::uint64_t kRows = 1000;
  constexpr std::uint64_t kWidth = 33;
  for (const auto consistency : {Consistency::kSync, Consistency::kAsync}) {
    Job job(GetParam(), {.servers = 2,
                         .workers = 2,
                         .consistency = consistency,
                         .block_bytes = 16896,
                         .pool_blocks = 4});
    // Whole numbers, so that the order of sums does not matter.
    std::vector<float> expected(kRows * kWidth);
    const auto rows_of = [](std::uint32_t rank, std::uint64_t step) {
      std::mt19937_64 random(rank * 77 + step);
      std::vector<std::uint64_t> rows(300);
      for (auto& row : rows) row = random() % kRows;
      return rows;
    };
    const auto value = [](std::uint64_t row, std::uint64_t step) {
      return static_cast<float>(row % 13 + step);
    };
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      for (std::uint64_t step = 1; step <= 4; ++step)
        for (const auto row : rows_of(rank, step))
          for (std::uint64_t each = 0; each < kWidth; ++each)
            expected[row * kWidth + each] += value(row, step);
    job.run([&](Worker& worker) {
      const auto w = must(worker.init("e", f32({kRows, kWidth}), {}, {UpdateKind::kSum}, soon()));
      must(worker.barrier(soon()));
      for (std::uint64_t step = 1; step <= 4; ++step) {
        const auto rows = rows_of(worker.rank(), step);
        std::vector<float> values;
        for (const auto row : rows) values.insert(values.end(), kWidth, value(row, step));
        must(worker.push_rows(w, rows, raw(values), soon()));
        must(worker.end_step(soon()));
      }
      must(worker.flush(soon()));
      must(worker.barrier(soon()));
      EXPECT_EQ(floats(must(worker.pull(w, soon())), expected.size()), expected);
      const std::vector<std::uint64_t> wanted = {999, 0, 511, 512, 0, 3};
      std::vector<float> got(wanted.size() * kWidth);
      must(worker.pull_rows(w, wanted, std::as_writable_bytes(std::span(got)), soon()));
      for (std::size_t each = 0; each < wanted.size(); ++each)
        for (std::uint64_t at = 0; at < kWidth; ++at)
          ASSERT_EQ(got[each * kWidth + at], expected[wanted[each] * kWidth + at]);
      must(worker.barrier(soon()));
    });
  }
}

TEST_P(Core, RowsOfOneWorkerAndAllOfAnotherAreOneSum) {
  constexpr std::uint64_t kRows = 64;
  constexpr std::uint64_t kWidth = 16;
  Job job(GetParam(), {.workers = 3, .block_bytes = 4096, .pool_blocks = 3});
  const std::vector<std::uint64_t> rows = {1, 5, 63};
  job.run([&](Worker& worker) {
    const auto w = must(worker.init("w", f32({kRows, kWidth}), {}, {UpdateKind::kSum}, soon()));
    std::vector<float> expected(kRows * kWidth);
    for (std::uint32_t step = 0; step < 6; ++step) {
      // Who pushes everything changes; the others push rows.
      const auto dense = step % 3;
      const float value = static_cast<float>(step + 1);
      if (worker.rank() == dense) {
        const std::vector<float> all(kRows * kWidth, value);
        must(worker.push(w, raw(all), soon()));
        must(worker.end_step(soon()));
        must(worker.flush(soon()));
      } else {
        const std::vector<float> some(rows.size() * kWidth, value);
        must(worker.push_rows(w, rows, raw(some), soon()));
        must(worker.end_step(soon()));
        must(worker.flush(soon()));
      }
      for (std::uint64_t row = 0; row < kRows; ++row) {
        const bool touched = std::find(rows.begin(), rows.end(), row) != rows.end();
        for (std::uint64_t each = 0; each < kWidth; ++each)
          expected[row * kWidth + each] += value * (touched ? 3.0F : 1.0F);
      }
      ASSERT_EQ(floats(must(worker.pull(w, soon())), expected.size()), expected) << step;
    }
  });
}

// Every block holds one number everywhere; a torn one would hold two.
TEST_P(Core, NoBlockIsEverTorn) {
  constexpr std::size_t kCount = 16384;
  Job job(
      GetParam(),
      {.workers = 3, .consistency = Consistency::kAsync, .block_bytes = 8192, .pool_blocks = 12});
  job.run([&](Worker& worker) {
    const auto w = must(worker.init("w", f32({kCount}), {}, {UpdateKind::kSum}, soon()));
    const std::vector<float> ones(kCount, 1.0F);
    const auto check = [&](std::span<const float> all) {
      for (std::size_t block = 0; block < kCount; block += 2048)
        for (std::size_t each = 1; each < 2048; ++each)
          ASSERT_EQ(all[block + each], all[block]) << "block " << block / 2048;
    };
    std::vector<float> copy(kCount);
    for (int round = 0; round < 60; ++round) {
      if (worker.rank() != 0) must(worker.push(w, raw(ones), soon()));
      const auto pulled = must(worker.pull(w, soon()));
      check(floats(pulled, kCount));
      must(worker.pull_to(w, std::as_writable_bytes(std::span(copy)), soon()));
      check(copy);
      check(floats(pulled, kCount));  // what is leased does not change
    }
    must(worker.flush(soon()));
    must(worker.barrier(soon()));
    EXPECT_EQ(floats(must(worker.pull(w, soon())), kCount), std::vector<float>(kCount, 120.0F));
    must(worker.barrier(soon()));
  });
}

TEST_P(Core, NobodyIsFurtherAheadThanTheStalenessAllows) {
  Job job(GetParam(), {.workers = 2, .consistency = Consistency::kBounded, .staleness = 2});
  std::atomic<std::uint64_t> slow{0};
  job.run([&](Worker& worker) {
    const auto w = must(worker.init("w", f32({100}), {}, {UpdateKind::kSum}, soon()));
    const std::vector<float> ones(100, 1.0F);
    for (std::uint64_t step = 1; step <= 12; ++step) {
      if (worker.rank() == 0) {
        std::this_thread::sleep_for(3ms);
        slow = step;
      }
      must(worker.push(w, raw(ones), soon()));
      must(worker.end_step(soon()));
      (void)must(worker.pull(w, soon()));
      if (worker.rank() == 1) {
        EXPECT_LE(worker.step(), slow + 2);
      }
    }
    must(worker.flush(soon()));
    must(worker.barrier(soon()));
    EXPECT_EQ(floats(must(worker.pull(w, soon())), 100), std::vector<float>(100, 24.0F));
    must(worker.barrier(soon()));
  });
}

}  // namespace
}  // namespace ferry::ps::testing
