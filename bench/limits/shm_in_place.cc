// Limit: the tensor is made where the other process reads it. Nothing is copied.
#include "bench/limits/shm.h"

namespace limits {
namespace {

class InPlace : public ShmPair {
 public:
  using ShmPair::ShmPair;

  void open(std::uint64_t bytes) override {
    tensor_ = room(0, bytes);
    if (link_.side() == Side::kGiver) reset_flags();
    fault_in(tensor_);
    link_.meet();
  }
  void close() override {
    link_.meet();
    if (link_.side() == Side::kGiver) drop_room(0, tensor_.size());
  }
  std::span<std::byte> source() override { return tensor_; }
  void give(std::uint32_t round) override {
    link_.raise(flags_.given, round, sleep_);
    link_.await(flags_.answered, round, sleep_);
  }
  Pieces take(std::uint32_t round) override {
    link_.await(flags_.given, round, sleep_);
    return taken(tensor_);
  }

 private:
  std::span<std::byte> tensor_;
};

}  // namespace
}  // namespace limits

int main() {
  return limits::serve(
      {.name = "shm-in-place",
       .what = "shared memory, made in place, no copy",
       .shared_bytes = limits::ShmPair::shared_for(1),
       .make = [](limits::Link& link) { return std::make_unique<limits::InPlace>(link); }});
}
