// Limit: the kernel copies from one process's private memory into the other's.
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

#include "bench/limits/shm.h"

namespace limits {
namespace {

class VmWrite : public ShmPair {
 public:
  using ShmPair::ShmPair;

  void open(std::uint64_t bytes) override {
    memory_ = Memory(bytes);
    if (link_.side() == Side::kGiver) reset_flags();
    const auto* mine = memory_.bytes().data();
    if (link_.side() == Side::kTaker) std::memcpy(link_.blackboard().data(), &mine, sizeof mine);
    link_.meet();
    std::memcpy(&theirs_, link_.blackboard().data(), sizeof theirs_);
    link_.meet();
  }
  void close() override { memory_ = Memory(); }
  std::span<std::byte> source() override { return memory_.bytes(); }
  void give(std::uint32_t round) override {
    write_all();
    link_.raise(flags_.given, round, sleep_);
    link_.await(flags_.answered, round, sleep_);
  }
  Pieces take(std::uint32_t round) override {
    link_.await(flags_.given, round, sleep_);
    return taken(memory_.bytes());
  }

 private:
  // One call moves 2 GiB less a page at most.
  void write_all() {
    const auto from = memory_.bytes();
    for (std::size_t at = 0; at < from.size();) {
      iovec local{from.data() + at, from.size() - at};
      iovec remote{theirs_ + at, from.size() - at};
      const auto count = process_vm_writev(link_.taker_pid(), &local, 1, &remote, 1, 0);
      if (count <= 0) fail_errno("process_vm_writev is refused here");
      at += static_cast<std::size_t>(count);
    }
  }

  Memory memory_;
  std::byte* theirs_ = nullptr;
};

}  // namespace
}  // namespace limits

int main() {
  return limits::serve(
      {.name = "vm-writev",
       .what = "private memory on both ends, process_vm_writev",
       .shared_bytes = limits::ShmPair::shared_for(0),
       .make = [](limits::Link& link) { return std::make_unique<limits::VmWrite>(link); }});
}
