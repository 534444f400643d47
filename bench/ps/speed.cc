#include <algorithm>
#include <thread>

#include "bench/ps/crew.h"
#include "bench/ps/ps.h"
#include "ferry/base/clock.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/stats.h"

// Steps by block size, consistency, and number of workers and servers.

namespace ferry::bench {
namespace {

struct Way {
  const char* provider;
  bool async;
  std::uint32_t servers;
  std::uint32_t workers;
  std::uint64_t block;
  bool merge = false;

  std::string name() const {
    return fmt::format("{}, {}{}, {} server{}", provider, async ? "async" : "sync",
                       merge ? ", merged" : "", servers, servers == 1 ? "" : "s");
  }
};

std::vector<Way> all_ways(bool quick) {
  constexpr std::uint64_t kKibi = 1024;
  std::vector<Way> ways;
  for (const auto* provider : {"shm", "tcp"})
    for (const bool async : {false, true}) {
      for (const std::uint64_t block : {64 * kKibi, 256 * kKibi, 1024 * kKibi, 4096 * kKibi})
        ways.push_back({provider, async, 1, 2, block});
      for (const std::uint32_t workers : {1U, 4U, 8U, 16U, 32U})
        if (!quick || workers <= 4) ways.push_back({provider, async, 1, workers, 256 * kKibi});
      for (const std::uint32_t servers : {2U, 4U, 8U, 16U, 32U})
        if (!quick || servers <= 2) ways.push_back({provider, async, servers, 2, 256 * kKibi});
    }
  for (const std::uint32_t workers : {2U, 4U, 8U})
    if (!quick || workers <= 4) ways.push_back({"tcp", false, 1, workers, 256 * kKibi, true});
  return ways;
}

// Seconds of the steps of one worker, from memory that servers of this host may map; what came back
// is looked at.
Result<double> step_often(const BenchCrew& crew, bool async, std::uint32_t workers, int steps) {
  auto worker = FERRY_TRY(crew.worker());
  const auto spec = FERRY_TRY(BenchCrew::model());
  const auto in_time = BenchCrew::in_time;
  const auto w = FERRY_TRY(worker.init("w", spec, {}, {ps::UpdateKind::kSum}, in_time()));
  const auto gradient = FERRY_TRY(worker.allocate(spec, in_time()));
  for (auto& value : gradient.elements<float>()) value = 1;
  FERRY_TRY(worker.barrier(in_time()));
  const auto begin = now_ns();
  for (int step = 0; step < steps; ++step)
    FERRY_TRY(worker.push_pull(w, gradient.bytes(), in_time()));
  FERRY_TRY(worker.flush(in_time()));
  const auto took = static_cast<double>(now_ns() - begin) / 1e9;
  const auto pulled = FERRY_TRY(worker.pull(w, in_time()));
  const auto last = *reinterpret_cast<const float*>(pulled.views().front().bytes.data());
  const auto all = static_cast<float>(steps) * static_cast<float>(workers);
  if (async ? last < static_cast<float>(steps) || last > all : last != all)
    return fail(Code::kDataLoss, "{} after {} steps of {} workers", last, steps, workers);
  return took;
}

Result<double> speed_of(const PsPlan& plan, const Way& way) {
  ps::JobOptions job{.servers = way.servers, .workers = way.workers, .block_bytes = way.block};
  job.pool_blocks = std::max(64U, 2 * way.workers);
  if (way.async) job.consistency = ps::Consistency::kAsync;
  job.merge = way.merge;
  const auto crew = FERRY_TRY(BenchCrew::start(plan, way.provider, job));
  const int steps = std::max(4, (plan.quick ? 40 : 160) / static_cast<int>(way.workers));
  std::vector<Result<double>> ended(way.workers);
  std::vector<std::thread> threads;
  threads.reserve(ended.size());
  for (auto& one : ended)
    threads.emplace_back([&] { one = step_often(crew, way.async, way.workers, steps); });
  for (auto& thread : threads) thread.join();
  double seconds = 0;  // of the slowest
  for (auto& one : ended) seconds = std::max(seconds, FERRY_TRY(std::move(one)));
  if (cli::InterruptGuard::interrupted()) return fail(Code::kCancelled, "interrupted");
  const auto model = FERRY_TRY(BenchCrew::model());
  const auto bytes = FERRY_TRY(model.bytes());
  return static_cast<double>(bytes) * steps * way.workers / seconds / 1e9;
}

}  // namespace

Result<std::vector<PsSpeed>> measure_speeds(const PsPlan& plan) {
  const auto ways = all_ways(plan.quick);
  std::vector<std::vector<double>> found(ways.size());
  const int turns = std::max(1, plan.turns / 2);
  for (int turn = 1; turn <= turns; ++turn) {
    fmt::print(stderr, "speed, turn {} of {}\n", turn, turns);
    for (std::size_t each = 0; each < ways.size(); ++each)
      found[each].push_back(FERRY_TRY(speed_of(plan, ways[each])));
  }
  std::vector<PsSpeed> speeds;
  for (std::size_t each = 0; each < ways.size(); ++each)
    speeds.push_back(
        {ways[each].name(), ways[each].block, ways[each].workers, cli::median(found[each])});
  return speeds;
}

}  // namespace ferry::bench
