#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/graph/graph.h"
#include "ferry/runtime/buffers.h"
#include "ferry/runtime/rendezvous.h"
#include "ferry/runtime/variables.h"

namespace ferry::runtime {

// What a step is fed with: the name of an Input node, and its value.
struct Feed {
  std::string_view name;
  tensor::Tensor value;
};

struct ExecutorOptions {
  std::vector<graph::Output> fetches = {};  // what run() returns
  BlockMaker registered = nullptr;          // memory that peers may touch; none: ordinary memory
};

struct ExecutorStats {
  std::uint64_t steps = 0;
  std::uint64_t operators = 0;
  std::uint64_t polls = 0;  // that said no
  std::uint64_t waits = 0;  // with nothing left but polls
  std::uint64_t traced_steps = 0;
  std::uint64_t sites_in_place = 0;    // that allocate from the end of a crossing
  std::uint64_t sites_registered = 0;  // that allocate memory that peers may touch
  std::uint64_t blocks = 0;            // of memory that were ever allocated
};

// Runs the graph of one task, or one loop of it, step by step (docs/design/dataflow.md). The first
// step is traced, and so is one after a step that was not as expected. One thread; kernels may use
// more. Must not outlive the graph, the variables and the rendezvous.
class Executor {
 public:
  // kUnimplemented for an operator without a kernel, kNotFound for a variable that is not there.
  // Without a rendezvous, the graph has no sends and receives.
  static Result<std::unique_ptr<Executor>> open(const graph::Graph& graph, Variables& variables,
                                                Rendezvous* rendezvous, ExecutorOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // One step; steps are numbered from 1. The fetched tensors: those that came from other tasks are
  // let go of before the next step. A failure names the node, and ends the executor: its variables
  // may be those of the middle of a step.
  Result<std::vector<tensor::Tensor>> run(std::uint64_t step, std::span<const Feed> feeds,
                                          Deadline deadline);
  ExecutorStats stats() const;

 private:
  class Core;
  explicit Executor(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace ferry::runtime
