#pragma once

#include <memory>
#include <vector>

#include "ferry/ops/kernel.h"
#include "ferry/runtime/rendezvous.h"
#include "ferry/runtime/variables.h"

namespace ferry::runtime {

// One value of a step, that is, one output of a node: an index into Executor's values.
using ValueId = std::uint32_t;

// A node, prepared to run.
struct Item {
  enum class Kind { kCompute, kPoll, kSend, kReceive };

  const graph::Node* node = nullptr;
  Kind kind = Kind::kCompute;
  std::unique_ptr<ops::Kernel> kernel;
  SendEnd* send = nullptr;
  ReceiveEnd* receive = nullptr;
  std::uint32_t crossing = 0;
  Variable* updated = nullptr;
  std::vector<ValueId> inputs;
  ValueId first_output = 0;
  std::vector<std::uint32_t> next;  // items that wait for this one; twice if for two reasons
  std::uint32_t waits_for = 0;
};

// A graph as an executor runs it.
struct Program {
  std::vector<Item> items;           // inputs first
  std::vector<std::uint32_t> uses;   // of each value, by items and fetches
  std::vector<std::uint32_t> first;  // items that wait for none, those that others need first
  std::vector<ValueId> fetches;
};

Result<Program> make_program(const graph::Graph& graph, Variables& variables,
                             Rendezvous* rendezvous, std::span<const graph::Output> fetches);

}  // namespace ferry::runtime
