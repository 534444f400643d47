#include "tests/ps/roles.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "ferry/math/optimize.h"
#include "ferry/math/sum.h"
#include "tests/ps/counting.h"

namespace ferry::ps::testing {

std::vector<std::string> Training::arguments(std::uint32_t rank) const {
  return {"--role",
          role,
          scheduler,
          provider,
          std::to_string(rank),
          std::to_string(workers),
          std::to_string(steps),
          std::to_string(victim),
          std::to_string(victim_step),
          how,
          std::to_string(count),
          std::to_string(patience),
          std::to_string(hit),
          std::to_string(signal),
          std::to_string(hosts)};
}

std::array<Parameter, 2> Training::init(Worker& worker, Deadline deadline) const {
  const Update update{.kind = UpdateKind::kMomentum, .rate = 0.1, .momentum = 0.9};
  const auto spec = f32({static_cast<std::int64_t>(count)});
  return {must(worker.init("a", spec, {}, update, deadline)),
          must(worker.init("b", spec, {}, update, deadline))};
}

Training Training::parse(const std::vector<std::string>& words, std::uint32_t& rank) {
  Training training;
  training.scheduler = words.at(0);
  training.provider = words.at(1);
  rank = static_cast<std::uint32_t>(std::stoul(words.at(2)));
  training.workers = static_cast<std::uint32_t>(std::stoul(words.at(3)));
  training.steps = std::stoull(words.at(4));
  training.victim = static_cast<std::uint32_t>(std::stoul(words.at(5)));
  training.victim_step = std::stoull(words.at(6));
  training.how = words.at(7);
  training.count = std::stoull(words.at(8));
  training.patience = std::stod(words.at(9));
  training.hit = std::stoi(words.at(10));
  training.signal = std::stoi(words.at(11));
  training.hosts = static_cast<std::uint32_t>(std::stoul(words.at(12)));
  return training;
}

namespace {

std::vector<float> gradient_of(std::uint32_t rank, std::uint64_t step, std::size_t count,
                               int which) {
  return noise(count, 10'000 * rank + 10 * step + static_cast<std::uint64_t>(which));
}

// Adds up the gradients of each host: what leaves it. Hosts are in the order of their lowest ranks.
void merge_hosts(std::vector<std::vector<float>>& gradients,
                 const std::vector<std::uint32_t>& ranks, std::uint32_t hosts) {
  std::vector<std::vector<float>> sums;
  std::vector<std::uint32_t> seen;
  for (const auto rank : ranks) {
    const auto host = rank % hosts;
    if (std::find(seen.begin(), seen.end(), host) != seen.end()) continue;
    seen.push_back(host);
    std::vector<const float*> parts;
    for (std::size_t each = 0; each < ranks.size(); ++each)
      if (ranks[each] % hosts == host) parts.push_back(gradients[each].data());
    math::sum({parts, 1.0F}, sums.emplace_back(gradients[0].size()).data(), gradients[0].size());
  }
  gradients = std::move(sums);
}

// Hosts merge from the third step on, but for the first one without a worker that died.
bool is_merged(const Training& training, std::uint64_t step) {
  const bool died = training.how != "none" && training.how != "paused";
  const auto anew = training.victim_step + (training.how == "after" ? 1 : 0);
  return training.hosts > 0 && step > 2 && !(died && step == anew);
}

// What two tensors are after all steps, if the victim's last step counts or not.
std::vector<std::vector<float>> sequential(const Training& training) {
  const auto last = training.how == "after"    ? training.victim_step
                    : training.how == "paused" ? training.steps
                                               : training.victim_step - 1;
  std::vector<std::vector<float>> weights(2, std::vector<float>(training.count));
  std::vector<std::vector<float>> velocity = weights;
  for (std::uint64_t step = 1; step <= training.steps; ++step) {
    for (int which = 0; which < 2; ++which) {
      std::vector<std::vector<float>> all;
      std::vector<std::uint32_t> ranks;
      for (std::uint32_t rank = 0; rank < training.workers; ++rank) {
        if (rank == training.victim && step > last) continue;
        all.push_back(gradient_of(rank, step, training.count, which));
        ranks.push_back(rank);
      }
      if (is_merged(training, step)) merge_hosts(all, ranks, training.hosts);
      std::vector<const float*> parts;
      for (const auto& one : all) parts.push_back(one.data());
      const auto at = static_cast<std::size_t>(which);
      math::momentum(weights[at].data(), weights[at].data(), velocity[at].data(), {parts, 1.0F},
                     {0.1F, 0.9F}, training.count);
    }
  }
  return weights;
}

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

// Waits until servers have taken all that the worker has posted: the entries of a ring are taken in
// order, and init() returns when those with the first values were. Two blocks, since jobs here have
// up to two shards. What a dead worker has posted and nobody has taken does not count.
void await_taken(Worker& worker, Deadline deadline) {
  constexpr std::int64_t kTwoBlocks = 2 * 4096 / sizeof(float);
  must(worker.init(fmt::format("end of {}", worker.rank()), f32({kTwoBlocks}), {},
                   {UpdateKind::kSum}, deadline));
}

int train(const std::vector<std::string>& words) {
  std::uint32_t rank = 0;
  const auto training = Training::parse(words, rank);
  auto device = device_options(training.provider);
  device.patience = training.patience;
  const auto in_time = [&] {
    return Deadline::after(std::chrono::duration_cast<Nanos>(30s * training.patience));
  };
  WorkerOptions options{.scheduler = training.scheduler, .device = device, .rank = rank};
  if (training.hosts > 0) options.host = fmt::format("host {}", rank % training.hosts);
  auto worker = must(Worker::open(options, in_time()));
  const auto parameters = training.init(worker, in_time());
  if (training.how != "after") must(worker.barrier(in_time()));
  const auto place = must(worker.allocate(must(worker.spec(parameters[0])), in_time()));
  for (std::uint64_t step = 1; step <= training.steps; ++step) {
    const bool last = rank == training.victim && step == training.victim_step;
    const auto a = gradient_of(rank, step, training.count, 0);
    const auto b = gradient_of(rank, step, training.count, 1);
    std::copy(a.begin(), a.end(), place.elements<float>().begin());
    // One of them in the worker's memory that servers may map, one not.
    must(worker.push(parameters[0], place.bytes(), in_time()));
    if (last && training.how == "between") {
      std::this_thread::sleep_for(100ms);  // it lands, and is added up where slots are few
      die();
    }
    if (last && (training.how == "stopped" || training.how == "paused")) ::raise(SIGSTOP);
    const bool hits = training.hit != 0 && rank == 0 && step == training.victim_step;
    const auto began = now_ns();
    if (hits) ::kill(training.hit, training.signal);
    must(worker.push(parameters[1], raw(b), in_time()));
    if (last && training.how == "before") die();
    must(worker.end_step(in_time()));
    if (last && training.how == "after") {
      await_taken(worker, in_time());
      die();
    }
    must(worker.flush(in_time()));
    if (hits)
      std::printf("the step in which a server was lost took %lld ms\n",
                  static_cast<long long>((now_ns() - began) / 1'000'000));
  }
  const auto expected = sequential(training);
  for (std::size_t which = 0; which < 2; ++which)
    if (floats(must(worker.pull(parameters[which], in_time())), training.count) !=
        expected[which]) {
      std::fprintf(stderr, "worker %u: tensor %zu is not what it should be\n", rank, which);
      return 1;
    }
  must(worker.leave(in_time()));
  return worker.stats().begun_anew > 0 ? Training::kBegunAnew : 0;
}

// Adds whole numbers, and rows of them, without steps in common: each push that was acknowledged is
// in the sum once.
int add(const std::vector<std::string>& words) {
  std::uint32_t rank = 0;
  const auto training = Training::parse(words, rank);
  auto worker = must(Worker::open(
      {.scheduler = training.scheduler, .device = device_options(training.provider), .rank = rank},
      soon()));
  constexpr std::int64_t kRow = 8;
  const auto rows = static_cast<std::int64_t>(training.count) / kRow;
  const auto spec = f32({rows, kRow});
  const auto w = must(worker.init("w", spec, {}, {UpdateKind::kSum}, soon()));
  const auto place = must(worker.allocate(spec, soon()));
  std::vector<std::uint64_t> keys;
  for (std::int64_t row = 0; row < rows; row += 3) keys.push_back(static_cast<std::uint64_t>(row));
  const std::vector<float> row_values(keys.size() * kRow, 3.0F);
  const std::vector<float> own(static_cast<std::size_t>(rows * kRow), 2.0F);
  std::fill(place.elements<float>().begin(), place.elements<float>().end(), 1.0F);
  must(worker.barrier(soon()));
  for (std::uint64_t step = 1; step <= training.steps; ++step) {
    must(worker.push(w, place.bytes(), soon()));
    if (training.hit != 0 && rank == 0 && step == training.victim_step)
      ::kill(training.hit, training.signal);
    must(worker.push(w, raw(own), soon()));
    must(worker.push_rows(w, keys, raw(row_values), soon()));
    must(worker.end_step(soon()));
    (void)must(worker.pull(w, soon()));
    must(worker.flush(soon()));
  }
  must(worker.barrier(soon()));
  const auto all = floats(must(worker.pull(w, soon())), static_cast<std::size_t>(rows * kRow));
  const auto pushes = static_cast<float>(training.steps * training.workers);
  for (std::size_t each = 0; each < all.size(); ++each) {
    const bool with_rows = each / kRow % 3 == 0;
    const float expected = pushes * (with_rows ? 6.0F : 3.0F);
    if (all[each] == expected) continue;
    std::fprintf(stderr, "worker %u: element %zu is %g, not %g\n", rank, each,
                 static_cast<double>(all[each]), static_cast<double>(expected));
    return 1;
  }
  must(worker.barrier(soon()));
  must(worker.leave(soon()));
  return 0;
}

int serve(const std::vector<std::string>& words) {
  auto device = device_options(words.at(1));
  if (words.size() > 2) device.patience = std::stod(words.at(2));
  auto server = must(Server::open({.scheduler = words.at(0), .device = device}, soon()));
  const auto ended = server.wait(Deadline::after(5min));  // slow builds train for long
  return ended ? 0 : kServerEnded + static_cast<int>(ended.error().code());
}

int schedule(const std::vector<std::string>& words) {
  Scheduling scheduling{.folder = words.at(0)};
  const auto number = [&](std::size_t at) {
    return static_cast<std::uint32_t>(std::stoul(words.at(at)));
  };
  scheduling.job.servers = number(1);
  scheduling.job.workers = number(2);
  scheduling.job.replicas = number(3);
  scheduling.job.pool_blocks = number(4);
  scheduling.job.block_bytes = number(5);
  scheduling.away = std::chrono::milliseconds(number(6));
  auto scheduler = must(Scheduler::open(scheduling.options()));
  const auto file = scheduling.folder + "/endpoint";
  std::ofstream(file + ".new") << scheduler.endpoint();
  std::filesystem::rename(file + ".new", file);
  const auto ended = scheduler.wait(Deadline::after(5min));
  if (!ended) std::fprintf(stderr, "scheduler: %s\n", ended.error().to_string().c_str());
  return ended ? 0 : kServerEnded + static_cast<int>(ended.error().code());
}

}  // namespace

SchedulerOptions Scheduling::options() const {
  return {.job = job, .device = device_options("tcp"), .state = state(), .away = away};
}

Process Scheduling::start() const {
  std::vector<std::string> words = {"--role", "schedule", folder};
  for (const std::uint64_t number :
       {std::uint64_t{job.servers}, std::uint64_t{job.workers}, std::uint64_t{job.replicas},
        std::uint64_t{job.pool_blocks}, job.block_bytes, static_cast<std::uint64_t>(away / 1ms)})
    words.push_back(std::to_string(number));
  return Process::start(words);
}

std::string Scheduling::endpoint() const {
  for (const auto deadline = soon(); !deadline.expired(); std::this_thread::sleep_for(2ms)) {
    std::string text;
    if (std::ifstream(folder + "/endpoint") >> text) return text;
  }
  throw std::runtime_error("the scheduler does not say where it is");
}

int play(const std::string& name, const std::vector<std::string>& arguments) {
  if (name == "train") return train(arguments);
  if (name == "add") return add(arguments);
  if (name == "serve") return serve(arguments);
  if (name == "count") return count_for_ever(arguments);
  if (name == "schedule") return schedule(arguments);
  if (name == "pull-late") return pull_late(arguments);
  std::fprintf(stderr, "no role %s\n", name.c_str());
  return 2;
}

}  // namespace ferry::ps::testing
