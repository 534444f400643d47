#pragma once

#include <map>
#include <vector>

#include "ferry/runtime/program_internal.h"
#include "ferry/runtime/trace.h"

namespace ferry::runtime {

// Where the outputs of nodes are allocated: the set S of sites whose tensors are sent, found by
// tracing a step, and what follows from it. One thread.
class OutputAllocation {
 public:
  enum class Memory { kOrdinary, kRegistered, kEnd };

  explicit OutputAllocation(const Program& program);

  // A step begins; it is traced if there is nothing to go by.
  void begin_step();
  bool tracing() const { return tracing_; }
  // What a site of the item allocates; counts the item's allocations of this step.
  struct Choice {
    Memory memory = Memory::kOrdinary;
    SendEnd* end = nullptr;
    Site site;
  };
  Choice next_of(std::uint32_t item);
  void note(const tensor::Tensor& tensor, const Choice& choice);
  // A tensor is about to be sent from where it is.
  void see_send(std::uint32_t item, const tensor::Tensor& tensor);
  void end_step();

  std::uint64_t sites(Memory memory) const;

 private:
  struct Planned {
    Memory memory = Memory::kOrdinary;
    SendEnd* end = nullptr;
    std::uint32_t item = 0;  // the send
    const std::byte* given = nullptr;
  };
  struct Sent {
    std::uint32_t item = 0;
    bool whole = false;  // the buffer is the tensor
  };
  const Program& program_;
  Trace trace_;
  bool tracing_ = true;
  bool surprised_ = false;
  std::vector<std::vector<Planned>> planned_;  // by item and allocation
  std::vector<std::uint32_t> allocations_;     // of the items, in this step
  std::vector<Planned*> plan_of_send_;         // by item
  std::map<Site, std::vector<Sent>> sent_;     // as traced
};

}  // namespace ferry::runtime
