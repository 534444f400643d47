// Limit: both processes copy, each one half. The tensor's source is shared memory too.
#include "bench/limits/args.h"
#include "bench/limits/copy.h"
#include "bench/limits/shm.h"

namespace limits {
namespace {

// Below this the hand-shake costs more than the half copy saves.
constexpr std::uint64_t kAlone = 2048;

class BothCopy : public ShmPair {
 public:
  BothCopy(Link& link, Copy how) : ShmPair(link), how_(how) {}

  void open(std::uint64_t bytes) override {
    source_ = room(0, bytes);
    landing_ = room(1, bytes);
    // Whole lines for each, so that no line is written by both.
    half_ = bytes < kAlone ? bytes : bytes / 2 / 64 * 64;
    if (link_.side() == Side::kGiver) reset_flags();
    fault_in(source_);
    fault_in(landing_);
    link_.meet();
  }
  void close() override {
    link_.meet();
    if (link_.side() != Side::kGiver) return;
    drop_room(0, source_.size());
    drop_room(1, source_.size());
  }
  std::span<std::byte> source() override { return source_; }
  void give(std::uint32_t round) override {
    if (half_ < source_.size()) link_.raise(flags_.half_given, round, sleep_);
    copy(how_, landing_.data(), source_.data(), half_);
    link_.raise(flags_.given, round, sleep_);
    link_.await(flags_.answered, round, sleep_);
  }
  Pieces take(std::uint32_t round) override {
    if (half_ < source_.size()) {
      link_.await(flags_.half_given, round, sleep_);
      copy(how_, landing_.data() + half_, source_.data() + half_, source_.size() - half_);
    }
    link_.await(flags_.given, round, sleep_);
    return taken(landing_);
  }

 private:
  Copy how_;
  std::uint64_t half_ = 0;
  std::span<std::byte> source_;
  std::span<std::byte> landing_;
};

}  // namespace
}  // namespace limits

int main(int argc, char** argv) {
  const auto how = limits::option(argc, argv, "--copy", {"plain", "nt"});
  return limits::serve({.name = "shm-both-" + how,
                        .what = how == "nt"
                                    ? "shared memory, each side copies half, non-temporal stores"
                                    : "shared memory, each side copies half",
                        .shared_bytes = limits::ShmPair::shared_for(2),
                        .make = [how](limits::Link& link) {
                          return std::make_unique<limits::BothCopy>(link, limits::copy_named(how));
                        }});
}
