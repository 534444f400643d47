#include "tests/ps/counting.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

#include "ferry/base/fd.h"

namespace ferry::ps::testing {
namespace {

// Several blocks of each row on every shard.
constexpr std::size_t kRowValues = 8192;

WorkerOptions counting_options(const std::string& scheduler, const std::string& provider,
                               std::uint32_t rank) {
  auto device = device_options(provider);
  device.patience = 4;
  return {.scheduler = scheduler,
          .device = device,
          .rank = rank,
          .host = fmt::format("host {}", rank / 2)};  // where the job merges
}

}  // namespace

Counts* Counts::map(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file || ::ftruncate(file.get(), sizeof(Counts)) != 0) throw std::runtime_error("no counts");
  auto* memory = ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) throw std::runtime_error("counts cannot be mapped");
  return static_cast<Counts*>(memory);
}

CountingWorker::CountingWorker(const std::string& scheduler, const std::string& provider,
                               std::uint32_t rank, Counts& counts)
    : counts_(counts),
      worker_(must(Worker::open(counting_options(scheduler, provider, rank), in_time()))),
      w_(must(
          worker_.init("w", f32({Counts::kRanks, kRowValues}), {}, {UpdateKind::kSum}, in_time()))),
      ones_(Counts::kRanks * kRowValues) {
  std::fill_n(ones_.begin() + static_cast<std::ptrdiff_t>(rank * kRowValues), kRowValues, 1.0F);
}

void CountingWorker::step() {
  const auto rank = worker_.rank();
  must(worker_.push(w_, raw(ones_), in_time()));
  ++counts_.begun[rank];
  must(worker_.end_step(in_time()));
  must(worker_.flush(in_time()));
  ++counts_.acknowledged[rank];
}

std::vector<std::uint64_t> CountingWorker::rows() {
  const auto all = floats(must(worker_.pull(w_, in_time())), ones_.size());
  std::vector<std::uint64_t> counted;
  for (std::uint32_t rank = 0; rank < Counts::kRanks; ++rank) {
    const auto* row = all.data() + rank * kRowValues;
    counted.push_back(static_cast<std::uint64_t>(row[0]));
    for (std::size_t each = 0; each < kRowValues; ++each)
      if (row[each] != row[0])
        throw std::runtime_error(fmt::format(
            "of worker {}, {} counts in one place and {} in another", rank, row[0], row[each]));
  }
  return counted;
}

void CountingWorker::leave() { must(worker_.leave(in_time())); }

int count_for_ever(const std::vector<std::string>& words) {
  auto& counts = *Counts::map(words.at(3));
  CountingWorker worker(words.at(0), words.at(1),
                        static_cast<std::uint32_t>(std::stoul(words.at(2))), counts);
  while (counts.stop == 0) {
    worker.step();
    (void)worker.rows();
  }
  worker.leave();
  return 0;
}

}  // namespace ferry::ps::testing
