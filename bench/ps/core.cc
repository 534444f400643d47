#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "bench/ps/crew.h"
#include "bench/ps/ps.h"
#include "ferry/base/clock.h"
#include "ferry/cli/common/child.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/fabric/device.h"
#include "ferry/math/sum.h"
#include "ferry/ps/exchange.h"
#include "ferry/ps/worker.h"

namespace ferry::bench {
namespace {

using std::chrono::seconds;
using tensor::ElementType;
using tensor::Spec;

constexpr std::size_t kMebi = std::size_t{1} << 20;

Deadline in_time() { return Deadline::after(seconds(60)); }

Result<Spec> floats_of(std::size_t bytes) {
  const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
  return Spec{ElementType::kF32, FERRY_TRY(tensor::Shape::of({count}))};
}

// Scheduler, server and a place to write to, in a process of their own.
struct PsServer {
  cli::ChildProgram child;
  std::string scheduler;
  std::string sink;
  pid_t pid = 0;

  static Result<PsServer> start(const PsPlan& plan, const std::string& provider, bool async,
                                std::size_t block, int workers = 1) {
    auto child = FERRY_TRY(cli::ChildProgram::start(
        plan.self, {"ps-server", "--provider", provider, "--block", fmt::format("{}", block),
                    "--workers", fmt::format("{}", workers), async ? "--async" : "--sync"}));
    auto line = FERRY_TRY(child.read_line(in_time()));
    const auto one = line.find(' ');
    const auto two = line.find(' ', one + 1);
    if (one == std::string::npos || two == std::string::npos)
      return fail(Code::kInternal, "the benchmark's server says '{}'", line);
    return PsServer{std::move(child), line.substr(0, one), line.substr(one + 1, two - one - 1),
                    static_cast<pid_t>(std::stol(line.substr(two + 1)))};
  }
  Result<ps::Worker> worker(const std::string& provider) const {
    return ps::Worker::open({.scheduler = scheduler, .device = bench_device(provider)}, in_time());
  }
  std::uint64_t resident_kib() const {
    std::ifstream status(fmt::format("/proc/{}/status", pid));
    std::string word;
    while (status >> word)
      if (word == "VmRSS:") {
        std::uint64_t kib = 0;
        status >> kib;
        return kib;
      }
    return 0;
  }
};

// Seconds of one call, over as many as fill a tenth of a second, after as long a warm-up.
Result<double> time_of(const std::function<Status()>& call, double least = 0.1) {
  for (std::uint64_t count = 1;; count *= 2) {
    const auto begin = now_ns();
    for (std::uint64_t each = 0; each < count; ++each) FERRY_TRY(call());
    const auto took = static_cast<double>(now_ns() - begin) / 1e9;
    if (cli::InterruptGuard::interrupted()) return fail(Code::kCancelled, "interrupted");
    if (took >= least && count > 1) return took / static_cast<double>(count);
    if (took >= 4 * least) return took;
  }
}

// 100,000 values pushed and pulled.
Result<double> rounds_per_second(const PsPlan& plan, const std::string& provider) {
  auto server = FERRY_TRY(PsServer::start(plan, provider, false, 256 << 10));
  auto worker = FERRY_TRY(server.worker(provider));
  const auto spec = FERRY_TRY(floats_of(400'000));
  const auto parameter = FERRY_TRY(worker.init("w", spec, {}, {ps::UpdateKind::kSum}, in_time()));
  const auto gradient = FERRY_TRY(worker.allocate(spec, in_time()));
  for (auto& value : gradient.elements<float>()) value = 1;
  const auto round = [&]() -> Status {
    const auto pulled = FERRY_TRY(worker.push_pull(parameter, gradient.bytes(), in_time()));
    const auto* first = reinterpret_cast<const float*>(pulled.views().front().bytes.data());
    if (*first != static_cast<float>(worker.step()))
      return fail(Code::kDataLoss, "pulled {} after {} steps", *first, worker.step());
    return {};
  };
  FERRY_TRY(time_of(round));
  return 1 / FERRY_TRY(time_of(round, 0.3));
}

Result<double> zeromq_rounds(const PsPlan& plan) {
  auto child = FERRY_TRY(
      cli::ChildProgram::start(plan.zeromq, {"1", "100000", plan.quick ? "300" : "1000"}));
  const auto line = FERRY_TRY(child.read_line(in_time()));
  const std::string_view wanted = "ok rounds_per_second=";
  if (!line.starts_with(wanted)) return fail(Code::kInternal, "{}: {}", plan.zeromq, line);
  return std::stod(line.substr(wanted.size()));
}

// GB/s of pushes that nobody adds up, and of the fabric's own writes of the same blocks.
Result<std::pair<double, double>> push_speeds(const PsPlan& plan, const std::string& provider,
                                              std::size_t block) {
  constexpr std::size_t kBytes = 16 * kMebi;
  constexpr int kAtATime = 4;
  auto server = FERRY_TRY(PsServer::start(plan, provider, true, block));
  auto worker = FERRY_TRY(server.worker(provider));
  const auto spec = FERRY_TRY(floats_of(kBytes));
  const auto parameter = FERRY_TRY(worker.init("w", spec, {}, {ps::UpdateKind::kNone}, in_time()));
  const std::vector<std::byte> gradient(kBytes);
  const auto push = [&]() -> Status {
    std::array<ps::Loan, kAtATime> loans;
    for (auto& loan : loans) loan = FERRY_TRY(worker.lend_gradient(parameter, gradient, in_time()));
    return worker.flush(in_time());
  };
  auto device = FERRY_TRY(fabric::Device::open(bench_device(provider)));
  auto channel = FERRY_TRY(device.connect(server.sink));
  const auto sink = FERRY_TRY(channel.look_up("sink", in_time()));
  auto source = FERRY_TRY(device.allocate(kBytes));
  const auto write = [&]() -> Status {
    std::deque<fabric::Transfer> going;
    for (std::size_t at = 0; at < kAtATime * kBytes; at += block)
      going.push_back(
          channel.write(source.bytes().subspan(at % kBytes, block), {sink, at % sink.length}));
    for (auto& transfer : going) FERRY_TRY(transfer.wait());
    return {};
  };
  FERRY_TRY(push());
  FERRY_TRY(write());
  const auto ours = FERRY_TRY(time_of(push));
  const auto fabric = FERRY_TRY(time_of(write));
  return std::pair(kAtATime * kBytes / ours / 1e9, kAtATime * kBytes / fabric / 1e9);
}

// A step with one worker reads gradient and weights, and writes weights: as much as a sum of two.
Result<std::pair<double, double>> sum_speeds(const PsPlan& plan) {
  constexpr std::size_t kBytes = 64 * kMebi;
  auto server = FERRY_TRY(PsServer::start(plan, "shm", false, kMebi));
  auto worker = FERRY_TRY(server.worker("shm"));
  const auto spec = FERRY_TRY(floats_of(kBytes));
  const auto parameter = FERRY_TRY(worker.init("w", spec, {}, {ps::UpdateKind::kSum}, in_time()));
  const auto gradient = FERRY_TRY(worker.allocate(spec, in_time()));
  for (auto& value : gradient.elements<float>()) value = 1;
  const auto step = [&]() -> Status {
    FERRY_TRY(worker.push_pull(parameter, gradient.bytes(), in_time()));
    return {};
  };
  const std::size_t count = kBytes / sizeof(float);
  std::vector<float> a(count, 1);
  std::vector<float> b(count, 2);
  std::vector<float> to(count);
  const auto sum = [&]() -> Status {
    const float* both[] = {a.data(), b.data()};
    math::sum({both}, to.data(), count);
    return {};
  };
  FERRY_TRY(step());
  FERRY_TRY(step());
  FERRY_TRY(sum());
  const auto ours = FERRY_TRY(time_of(step));
  const auto bound = FERRY_TRY(time_of(sum));
  return std::pair(kBytes / ours / 1e9, kBytes / bound / 1e9);
}

// Pulls a second, in place and by copy.
Result<std::pair<double, double>> pull_speeds(const PsPlan& plan, std::size_t bytes) {
  auto server = FERRY_TRY(PsServer::start(plan, "shm", false, 256 << 10));
  auto worker = FERRY_TRY(server.worker("shm"));
  const auto spec = FERRY_TRY(floats_of(bytes));
  const auto parameter = FERRY_TRY(worker.init("w", spec, {}, {ps::UpdateKind::kSum}, in_time()));
  std::vector<std::byte> copy(bytes);
  const auto in_place = [&]() -> Status {
    auto pulled = FERRY_TRY(worker.pull(parameter, in_time()));
    if (!pulled.in_place()) return fail(Code::kInternal, "the pull was not in place");
    return pulled.release();
  };
  const auto copied = [&] { return worker.pull_to(parameter, copy, in_time()); };
  FERRY_TRY(copied());
  const auto ours = FERRY_TRY(time_of(in_place));
  const auto other = FERRY_TRY(time_of(copied));
  return std::pair(1 / ours, 1 / other);
}

// MiB that the process of scheduler and server grows by with each worker beyond the first.
Result<double> growth(const PsPlan& plan) {
  constexpr int kWorkers = 32;
  auto server = FERRY_TRY(PsServer::start(plan, "shm", true, 256 << 10, kWorkers));
  const auto spec = FERRY_TRY(floats_of(4 * kMebi));
  const std::vector<std::byte> gradient(4 * kMebi);
  std::vector<ps::Worker> workers;
  std::uint64_t with_one = 0;
  for (int count = 1; count <= kWorkers; ++count) {
    auto device = bench_device("shm");
    device.arena_bytes = 8 * kMebi;
    workers.push_back(
        FERRY_TRY(ps::Worker::open({.scheduler = server.scheduler, .device = device}, in_time())));
    auto& worker = workers.back();
    const auto parameter = FERRY_TRY(worker.init("w", spec, {}, {ps::UpdateKind::kSum}, in_time()));
    FERRY_TRY(worker.push(parameter, gradient, in_time()));
    FERRY_TRY(worker.flush(in_time()));
    FERRY_TRY(worker.pull(parameter, in_time()));
    if (count == 1) with_one = server.resident_kib();
  }
  const auto with_all = server.resident_kib();
  return (static_cast<double>(with_all) - static_cast<double>(with_one)) / 1024 / (kWorkers - 1);
}

// Workers that compute and exchange 4 MiB at the same time. Computation is a sleep, as a GPU's is
// to the processor, and differs from worker to worker, so that they meet at all moments of a step.
constexpr std::array<int, 3> kComputeMs = {25, 30, 37};

void emulate_compute(std::size_t worker) {
  std::this_thread::sleep_for(std::chrono::milliseconds(kComputeMs[worker]));
}

// Means of the workers' steps.
struct Overlapped {
  double step_ms = 0;
  double alone_ms = 0;  // computation with no exchange
  double stale_ms = 0;
  double stale_versions = 0;
};

Result<Overlapped> overlap_of(const PsServer& server, const std::string& provider, bool adaptive,
                              std::size_t number, int steps) {
  auto worker = FERRY_TRY(server.worker(provider));
  const auto spec = FERRY_TRY(floats_of(4 * kMebi));
  const auto parameter = FERRY_TRY(worker.init("w", spec, {}, {ps::UpdateKind::kSum}, in_time()));
  FERRY_TRY(worker.barrier(in_time()));
  const auto ms_of = [steps](std::int64_t ns) { return static_cast<double>(ns) / 1e6 / steps; };
  Overlapped measured;
  const auto alone = now_ns();
  for (int each = 0; each < steps; ++each) emulate_compute(number);
  measured.alone_ms = ms_of(now_ns() - alone);
  auto exchange = FERRY_TRY(
      ps::Exchange::open(std::move(worker), {&parameter, 1}, {.adaptive = adaptive}, in_time()));
  for (auto& value : exchange.buffers().gradients[0].elements<float>()) value = 1;
  const auto step = [&]() -> Status {
    emulate_compute(number);
    return exchange.end_step(in_time());
  };
  for (int each = 0; each < 10; ++each) FERRY_TRY(step());  // the averages settle
  const auto before = exchange.stats();
  const auto begin = now_ns();
  for (int each = 0; each < steps; ++each) FERRY_TRY(step());
  measured.step_ms = ms_of(now_ns() - begin);
  const auto after = exchange.stats();
  measured.stale_ms = ms_of((after.staleness - before.staleness).count());
  measured.stale_versions =
      static_cast<double>(after.stale_versions - before.stale_versions) / steps;
  worker = FERRY_TRY(exchange.close(in_time()));
  FERRY_TRY(worker.leave(in_time()));
  return measured;
}

Result<Overlapped> overlap(const PsPlan& plan, const std::string& provider, bool adaptive) {
  auto server = FERRY_TRY(PsServer::start(plan, provider, true, 256 << 10, kComputeMs.size()));
  std::array<Result<Overlapped>, kComputeMs.size()> each;
  std::vector<std::thread> threads;
  for (std::size_t number = 0; number < each.size(); ++number)
    threads.emplace_back([&, number] {
      each[number] = overlap_of(server, provider, adaptive, number, plan.quick ? 20 : 60);
    });
  for (auto& thread : threads) thread.join();
  Overlapped mean;
  for (auto& one : each) {
    const auto measured = FERRY_TRY(std::move(one));
    mean.step_ms += measured.step_ms / kComputeMs.size();
    mean.alone_ms += measured.alone_ms / kComputeMs.size();
    mean.stale_ms += measured.stale_ms / kComputeMs.size();
    mean.stale_versions += measured.stale_versions / kComputeMs.size();
  }
  return mean;
}

Status add_turn(const PsPlan& plan, std::vector<PsFigure>& figures) {
  std::size_t next = 0;
  const auto add = [&](const std::pair<double, double>& pair) {
    figures[next].ours.push_back(pair.first);
    figures[next++].other.push_back(pair.second);
  };
  for (const auto* provider : {"shm", "tcp"}) {
    const auto ours = FERRY_TRY(rounds_per_second(plan, provider));
    const auto peer = plan.zeromq.empty() ? Result<double>(1.0) : zeromq_rounds(plan);
    if (!peer) return tl::unexpected<Error>(peer.error());
    add({ours, *peer});
  }
  for (const auto* provider : {"shm", "tcp"})
    for (const std::size_t block : {256 * 1024UL, kMebi, 4 * kMebi})
      add(FERRY_TRY(push_speeds(plan, provider, block)));
  add(FERRY_TRY(sum_speeds(plan)));
  for (const std::size_t bytes : {kMebi, 16 * kMebi, 128 * kMebi})
    add(FERRY_TRY(pull_speeds(plan, bytes)));
  const auto grown = FERRY_TRY(growth(plan));
  add({grown, 1.0});
  for (const auto* provider : {"shm", "tcp"}) {
    const auto adaptive = FERRY_TRY(overlap(plan, provider, true));
    const auto at_once = FERRY_TRY(overlap(plan, provider, false));
    add({adaptive.step_ms, adaptive.alone_ms});
    add({adaptive.stale_ms, at_once.stale_ms});
    constexpr double kHardlyAny = 0.01;  // 0 has no ratio
    add({std::max(adaptive.stale_versions, kHardlyAny),
         std::max(at_once.stale_versions, kHardlyAny)});
  }
  return {};
}

std::vector<PsFigure> all_figures() {
  std::vector<PsFigure> all;
  const auto add = [&](std::string id, std::string sentence, std::string unit, double bound,
                       bool at_most = false) {
    all.push_back(
        {std::move(id), std::move(sentence), std::move(unit), bound, at_most, {}, {}, {}});
  };
  add("rounds-shm", "push + pull of 100,000 f32, shm, against ZeroMQ", "rounds/s", 10);
  add("rounds-tcp", "push + pull of 100,000 f32, tcp, against ZeroMQ", "rounds/s", 2);
  for (const auto* provider : {"shm", "tcp"})
    for (const auto* block : {"256 KiB", "1 MiB", "4 MiB"})
      add(fmt::format("push-{}", provider),
          fmt::format("push of {} blocks, {}, against the fabric's write", block, provider), "GB/s",
          0.95);
  add("sum", "push with f32 sum, shm, against the sum itself", "GB/s", 0.85);
  for (const auto* size : {"1 MiB", "16 MiB", "128 MiB"})
    add("pull", fmt::format("pull of {} in place, against a copying pull", size), "pulls/s", 20);
  add("memory", "server memory for each worker more, 1 to 32", "MiB", 1, true);
  for (const auto* provider : {"shm", "tcp"}) {
    add(fmt::format("overlap-{}", provider),
        fmt::format("step that exchanges 4 MiB meanwhile, {}, against computation alone", provider),
        "ms", 1.03, true);
    add(fmt::format("age-{}", provider),
        fmt::format("age of weights with adaptive pulls, {}, against pulls at once", provider),
        "ms", 0.5, true);
    add(fmt::format("versions-{}", provider),
        fmt::format("versions behind with adaptive pulls, {}, against pulls at once", provider),
        "versions", 0.5, true);
  }
  return all;
}

}  // namespace

Result<std::vector<PsFigure>> measure_ps(const PsPlan& plan) {
  auto figures = all_figures();
  for (int turn = 1; turn <= plan.turns; ++turn) {
    fmt::print(stderr, "turn {} of {}\n", turn, plan.turns);
    FERRY_TRY(add_turn(plan, figures));
  }
  if (plan.zeromq.empty())
    for (auto& figure : figures)
      if (figure.id.starts_with("rounds"))
        figure.skipped = "ferry-peer-zeromq is not built; install libzmq3-dev";
  return figures;
}

}  // namespace ferry::bench
