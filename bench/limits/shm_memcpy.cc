// Limit: one process copies its private tensor into memory that the other reads.
#include "bench/limits/args.h"
#include "bench/limits/copy.h"
#include "bench/limits/shm.h"

namespace limits {
namespace {

class OneCopy : public ShmPair {
 public:
  OneCopy(Link& link, Copy how) : ShmPair(link), how_(how) {}

  void open(std::uint64_t bytes) override {
    landing_ = room(0, bytes);
    if (link_.side() == Side::kGiver) {
      reset_flags();
      source_ = Memory(bytes);
    }
    fault_in(landing_);
    link_.meet();
  }
  void close() override {
    source_ = Memory();
    link_.meet();
    if (link_.side() == Side::kGiver) drop_room(0, landing_.size());
  }
  std::span<std::byte> source() override { return source_.bytes(); }
  void give(std::uint32_t round) override {
    copy(how_, landing_.data(), source_.bytes().data(), landing_.size());
    link_.raise(flags_.given, round, sleep_);
    link_.await(flags_.answered, round, sleep_);
  }
  Pieces take(std::uint32_t round) override {
    link_.await(flags_.given, round, sleep_);
    return taken(landing_);
  }

 private:
  Copy how_;
  Memory source_;
  std::span<std::byte> landing_;
};

}  // namespace
}  // namespace limits

int main(int argc, char** argv) {
  const auto how = limits::option(argc, argv, "--copy", {"plain", "nt"});
  return limits::serve({.name = "shm-memcpy-" + how,
                        .what = how == "nt" ? "shared memory, one copy with non-temporal stores"
                                            : "shared memory, one memcpy",
                        .min_bytes = 2,
                        .shared_bytes = limits::ShmPair::shared_for(1),
                        .make = [how](limits::Link& link) {
                          return std::make_unique<limits::OneCopy>(link, limits::copy_named(how));
                        }});
}
