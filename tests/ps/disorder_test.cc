#include "ferry/fabric/fake/provider.h"
#include "tests/ps/kit.h"

namespace ferry::ps::testing {
namespace {

using fabric::fake::Script;

// Operations late and out of order, payloads in pieces, the last one first.
class Disorder : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    Script::use_path({.maps_peer = GetParam()});
    Script::set({.seed = 7, .max_delay = 200us, .shuffle = true, .piece_bytes = 1024});
  }
  void TearDown() override {
    Script::clear();
    Script::use_path({});
  }
};

INSTANTIATE_TEST_SUITE_P(Path, Disorder, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "maps" : "maps_nothing"; });

// Whole numbers: the sum is the same in any order, and a byte that came late would show.
TEST_P(Disorder, NothingIsLostOrTakenTwice) {
  constexpr std::size_t kCount = 5000;
  for (const auto consistency : {Consistency::kSync, Consistency::kAsync}) {
#if defined(__SANITIZE_THREAD__)
    // Reads of what changes are meant to race, and are read again; fake does them as plain copies.
    if (consistency == Consistency::kAsync && !GetParam()) continue;
#endif
    Job job("fake", {.servers = 2,
                     .workers = 2,
                     .consistency = consistency,
                     .block_bytes = 4096,
                     .pool_blocks = 4});
    job.run([&](Worker& worker) {
      const auto w = must(worker.init("w", f32({kCount}), {}, {UpdateKind::kSum}, soon()));
      std::vector<float> gradient(kCount);
      std::vector<float> got(kCount);
      for (int step = 1; step <= 6; ++step) {
        for (std::size_t each = 0; each < kCount; ++each)
          gradient[each] = static_cast<float>((each + static_cast<std::size_t>(step)) % 17);
        if (step % 2 == 0) {
          (void)must(worker.push_pull(w, raw(gradient), soon()));
        } else {
          must(worker.push(w, raw(gradient), soon()));
          must(worker.end_step(soon()));
          must(worker.pull_to(w, std::as_writable_bytes(std::span(got)), soon()));
        }
        must(worker.flush(soon()));
      }
      must(worker.barrier(soon()));
      must(worker.pull_to(w, std::as_writable_bytes(std::span(got)), soon()));
      for (std::size_t each = 0; each < kCount; ++each) {
        float expected = 0;
        for (std::size_t step = 1; step <= 6; ++step)
          expected += 2 * static_cast<float>((each + step) % 17);
        ASSERT_EQ(got[each], expected) << "element " << each;
      }
      must(worker.barrier(soon()));
    });
  }
}

}  // namespace
}  // namespace ferry::ps::testing
