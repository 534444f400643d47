#include "ferry/interop/kvstore/kvstore.h"

#include "ferry/math/optimize.h"
#include "tests/ps/kit.h"

namespace ferry::ps::testing {
namespace {

using interop::KVKey;
using interop::KVStore;
using tensor::Tensor;

// A tensor with memory of its own.
Tensor tensor_of(const Spec& spec, const std::vector<float>& values) {
  auto memory = std::make_shared<std::vector<float>>(values);
  return must(Tensor::over(spec, std::as_writable_bytes(std::span(*memory)), memory));
}
Tensor filled(const Spec& spec, float value) {
  return tensor_of(spec,
                   std::vector<float>(static_cast<std::size_t>(spec.shape.elements()), value));
}
std::vector<float> values_of(const Tensor& tensor) { return floats(tensor.bytes()); }
std::vector<float> all_of(std::size_t count, float value) {
  return std::vector<float>(count, value);
}

// A store for each worker of a job, on a thread of its own; what they throw fails the test.
void run_stores(const std::string& provider, const JobOptions& options,
                const std::function<void(KVStore&)>& body) {
  Job job(provider, options);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < options.workers; ++rank)
    threads.emplace_back([&, rank] {
      try {
        auto worker = job.worker_options();
        worker.rank = rank;
        const bool sync = options.consistency == Consistency::kSync;
        auto store = must(KVStore::create(sync ? "dist_sync" : "dist_async", worker, soon()));
        body(store);
        must(store.close(soon()));
      } catch (const std::exception& problem) {
        ADD_FAILURE() << "worker " << rank << ": " << problem.what();
      }
    });
  for (auto& thread : threads) thread.join();
}

class KVStores : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Provider, KVStores, ::testing::Values("shm", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(KVStores, InStepEverybodyPullsTheSumOfAll) {
  const JobOptions options{.servers = 2, .workers = 3, .block_bytes = 4096};
  run_stores(GetParam(), options, [](KVStore& store) {
    EXPECT_EQ(store.num_workers(), 3U);
    const auto spec = f32({40, 50});
    // The first value is that of rank 0.
    const auto mine = static_cast<float>(store.rank());
    must(store.init("w", filled(spec, 7 + mine), soon()));
    auto out = filled(spec, 0);
    must(store.pull("w", out, soon()));
    EXPECT_EQ(values_of(out), all_of(2000, 7));
    for (int step = 1; step <= 5; ++step) {
      // Two devices: 1 + 2 + 3 and 10 times as much.
      const auto value = static_cast<float>(step) * (mine + 1);
      const Tensor devices[] = {filled(spec, value), filled(spec, 10 * value)};
      Tensor outs[] = {filled(spec, 0), filled(spec, 0)};
      must(store.push("w", devices, soon()));
      must(store.pull("w", outs, soon()));
      for (const auto& each : outs)
        EXPECT_EQ(values_of(each), all_of(2000, 66 * static_cast<float>(step)));
    }
  });
}

TEST_P(KVStores, ManyKeysOfOneStepArePushedThenPulled) {
  run_stores(GetParam(), {.servers = 2, .workers = 2, .block_bytes = 4096}, [](KVStore& store) {
    const auto spec = f32({3000});
    std::vector<KVKey> keys;
    std::vector<Tensor> first;
    for (int key = 0; key < 8; ++key) {
      keys.emplace_back(key);
      first.push_back(filled(spec, 0));
    }
    must(store.init(keys, first, soon()));
    must(store.set_optimizer({.kind = UpdateKind::kSum}, soon()));
    auto value = filled(spec, 0);
    for (int step = 1; step <= 4; ++step) {
      for (int key = 0; key < 8; ++key) {
        // The memory may be used again at once.
        for (auto& each : value.elements<float>()) each = static_cast<float>(key + 1);
        must(store.push(key, value, soon()));
      }
      for (int key = 0; key < 8; ++key) {
        must(store.pull(key, value, soon()));
        EXPECT_EQ(values_of(value), all_of(3000, static_cast<float>(2 * step * (key + 1))));
      }
    }
  });
}

// Twice in a row without a pull: two steps.
TEST_P(KVStores, PushesOfOneKeyAddUpUnderAnOptimizer) {
  run_stores(GetParam(), {.workers = 2, .block_bytes = 4096}, [](KVStore& store) {
    const auto spec = f32({100});
    must(store.set_optimizer({.kind = UpdateKind::kSgd, .rate = 0.5}, soon()));
    must(store.init("w", filled(spec, 100), soon()));
    for (int each = 0; each < 3; ++each) must(store.push("w", filled(spec, 2), soon()));
    must(store.barrier(soon()));
    auto out = filled(spec, 0);
    must(store.pull("w", out, soon()));
    EXPECT_EQ(values_of(out), all_of(100, 100 - 3 * 2));
  });
}

TEST_P(KVStores, AnOptimizerMayComeAfterTheKeys) {
  run_stores(GetParam(), {.servers = 2, .workers = 2, .block_bytes = 4096}, [](KVStore& store) {
    const auto spec = f32({2000});
    must(store.init("w", filled(spec, 1), soon()));
    auto out = filled(spec, 0);
    must(store.pushpull("w", {{filled(spec, 4)}}, {&out, 1}, soon()));
    EXPECT_EQ(values_of(out), all_of(2000, 8));
    const Update adam{.kind = UpdateKind::kAdam, .rate = 0.1};
    must(store.set_optimizer(adam, soon()));
    must(store.pull("w", out, soon()));
    EXPECT_EQ(values_of(out), all_of(2000, 8));

    auto weights = all_of(2000, 8);
    auto first = all_of(2000, 0);
    auto second = all_of(2000, 0);
    for (std::uint64_t step = 1; step <= 4; ++step) {
      const auto gradients = {noise(2000, step), noise(2000, 100 + step)};
      std::vector<const float*> sources;
      for (const auto& gradient : gradients) sources.push_back(gradient.data());
      math::adam(weights.data(), weights.data(), first.data(), second.data(), {sources},
                 {adam.rate, adam.beta1, adam.beta2, adam.epsilon, static_cast<double>(step)},
                 2000);
      const auto mine = tensor_of(spec, *(gradients.begin() + store.rank()));
      must(store.pushpull("w", {&mine, 1}, {&out, 1}, soon()));
      EXPECT_EQ(values_of(out), weights) << "step " << step;
    }
    // Another one begins with what is there.
    must(store.set_optimizer({.kind = UpdateKind::kSum}, soon()));
    must(store.pushpull("w", {{filled(spec, 0)}}, {&out, 1}, soon()));
    EXPECT_EQ(values_of(out), weights);
  });
}

TEST_P(KVStores, WithoutStepsAWorkerSeesItsOwnPushes) {
  const JobOptions options{
      .servers = 2, .workers = 3, .consistency = Consistency::kAsync, .block_bytes = 4096};
  run_stores(GetParam(), options, [](KVStore& store) {
    const auto spec = f32({5000});
    must(store.init("w", filled(spec, 0), soon()));
    EXPECT_EQ(code_of(store.push("w", filled(spec, 1), soon())), Code::kFailedPrecondition);
    must(store.set_optimizer({.kind = UpdateKind::kSum}, soon()));
    auto out = filled(spec, 0);
    auto before = values_of(out);  // blocks of different shards are not equally far
    for (int each = 1; each <= 10; ++each) {
      const Tensor devices[] = {filled(spec, 1), filled(spec, 1)};
      if (each % 2 == 0) {
        must(store.pushpull("w", devices, {&out, 1}, soon()));
      } else {
        must(store.push("w", devices, soon()));
        must(store.pull("w", out, soon()));
      }
      const auto now = values_of(out);
      for (std::size_t at = 0; at < now.size(); ++at) ASSERT_GE(now[at], before[at] + 2) << at;
      before = now;
    }
    must(store.barrier(soon()));
    must(store.pull("w", out, soon()));
    EXPECT_EQ(values_of(out), all_of(5000, 60));
  });
}

TEST_P(KVStores, RowsArePulledInTheOrderThatIsAskedFor) {
  run_stores(GetParam(), {.servers = 2, .workers = 2, .block_bytes = 4096}, [](KVStore& store) {
    std::vector<float> rows(std::size_t{300} * 7);
    for (std::size_t each = 0; each < rows.size(); ++each) rows[each] = static_cast<float>(each);
    must(store.init(5, tensor_of(f32({300, 7}), rows), soon()));
    const std::vector<std::uint64_t> wanted = {299, 0, 150, 150};
    auto out = filled(f32({4, 7}), 0);
    must(store.row_sparse_pull(5, wanted, out, soon()));
    for (std::size_t row = 0; row < wanted.size(); ++row)
      for (std::size_t each = 0; each < 7; ++each)
        EXPECT_EQ(values_of(out)[row * 7 + each], static_cast<float>(wanted[row] * 7 + each));
    EXPECT_EQ(code_of(store.row_sparse_pull(5, std::vector<std::uint64_t>{300},
                                            filled(f32({1, 7}), 0), soon())),
              Code::kOutOfRange);
    EXPECT_EQ(code_of(store.row_sparse_pull(5, wanted, filled(f32({3, 7}), 0), soon())),
              Code::kInvalidArgument);
  });
}

// Rank 1 says another shape: it is told, and the key is there all the same.
TEST_P(KVStores, AShapeThatIsNotRankZerosIsRefused) {
  run_stores(GetParam(), {.workers = 2}, [](KVStore& store) {
    const auto made = store.init("w", filled(f32({store.rank() == 0 ? 8 : 9}), 0), soon());
    EXPECT_EQ(code_of(made), store.rank() == 0 ? Code::kOk : Code::kInvalidArgument);
    must(store.init("v", filled(f32({3}), 0), soon()));
  });
}

// What goes wrong is the same wherever the values are.
void check_refusals(KVStore& store) {
  const auto spec = f32({4, 2});
  auto value = filled(spec, 1);
  must(store.init("w", value, soon()));
  EXPECT_EQ(code_of(store.init("w", value, soon())), Code::kAlreadyExists);
  EXPECT_EQ(
      code_of(store.init(std::vector<KVKey>{"a", "a"}, std::vector<Tensor>{value, value}, soon())),
      Code::kAlreadyExists);
  EXPECT_EQ(code_of(store.init(std::vector<KVKey>{"a", "b"}, {&value, 1}, soon())),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(store.init(3, value, soon())), Code::kInvalidArgument);
  EXPECT_EQ(code_of(store.push("x", value, soon())), Code::kNotFound);
  EXPECT_EQ(code_of(store.pull("x", value, soon())), Code::kNotFound);
  EXPECT_EQ(code_of(store.pull(3, value, soon())), Code::kInvalidArgument);
  const auto other = filled(f32({2, 4}), 0);
  EXPECT_EQ(code_of(store.push("w", other, soon())), Code::kInvalidArgument);
  EXPECT_EQ(code_of(store.push("w", std::vector<Tensor>{value, other}, soon())),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(store.push("w", std::span<const Tensor>(), soon())), Code::kInvalidArgument);
  EXPECT_EQ(code_of(store.pull("w", other, soon())), Code::kInvalidArgument);
  EXPECT_EQ(code_of(store.pushpull("w", {&value, 1}, {&other, 1}, soon())), Code::kInvalidArgument);
  std::vector<std::uint16_t> halves(8);
  const auto half = must(
      Tensor::over({ElementType::kF16, spec.shape}, std::as_writable_bytes(std::span(halves))));
  EXPECT_EQ(code_of(store.init("h", half, soon())), Code::kUnimplemented);
  // None of these has left a trace.
  must(store.pull("w", value, soon()));
  EXPECT_EQ(values_of(value), all_of(8, 1));
}

TEST_P(KVStores, Refusals) { run_stores(GetParam(), {}, check_refusals); }

TEST(KVStoreLocal, Refusals) {
  auto store = must(KVStore::create("local", soon()));
  check_refusals(store);
  EXPECT_EQ(code_of(store.set_optimizer({.kind = UpdateKind::kFunction}, soon())),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(KVStore::create("nccl", soon())), Code::kInvalidArgument);
}

TEST(KVStoreLocal, AStoreNeedsAJobOfItsKind) {
  Job job("shm", {.consistency = Consistency::kAsync});
  EXPECT_EQ(code_of(KVStore::create("dist_sync", job.worker_options(), soon())),
            Code::kFailedPrecondition);
}

TEST(KVStoreLocal, SumsAndOptimizes) {
  auto store = must(KVStore::create("local", soon()));
  EXPECT_EQ(store.rank(), 0U);
  EXPECT_EQ(store.num_workers(), 1U);
  const auto spec = f32({3, 2});
  must(store.init(9, filled(spec, 1), soon()));
  auto out = filled(spec, 0);
  const Tensor devices[] = {filled(spec, 2), filled(spec, 3), filled(spec, 4)};
  must(store.push(9, devices, soon()));
  must(store.pull(9, out, soon()));
  EXPECT_EQ(values_of(out), all_of(6, 9));

  must(store.set_optimizer({.kind = UpdateKind::kMomentum, .rate = 0.5, .momentum = 0.5}, soon()));
  auto weights = all_of(6, 9);
  auto velocity = all_of(6, 0);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const auto gradient = noise(6, step);
    const float* sources[] = {gradient.data()};
    math::momentum(weights.data(), weights.data(), velocity.data(), {sources}, {0.5F, 0.5F}, 6);
    const auto mine = tensor_of(spec, gradient);
    must(store.pushpull(9, {&mine, 1}, {&out, 1}, soon()));
    EXPECT_EQ(values_of(out), weights);
  }
  auto row = filled(f32({1, 2}), 0);
  must(store.row_sparse_pull(9, std::vector<std::uint64_t>{2}, row, soon()));
  EXPECT_EQ(values_of(row), std::vector<float>(weights.begin() + 4, weights.end()));
  must(store.barrier(soon()));
  must(store.close(soon()));
}

}  // namespace
}  // namespace ferry::ps::testing
