#pragma once

#include <deque>
#include <string>
#include <vector>

#include "ferry/runtime/executor.h"
#include "ferry/runtime/output_allocation_internal.h"
#include "ferry/runtime/program_internal.h"

namespace ferry::runtime {

// A tensor in a step, and whose memory it is.
struct Value {
  tensor::Tensor tensor;
  Buffers* home = nullptr;  // goes back there; none: somebody else sees to it
  bool writable = false;    // an operator may write over it, if it is the last to use it
  std::uint32_t uses_left = 0;
};

class Executor::Core final : ops::KernelContext {
 public:
  Core(Program program, Variables& variables, Rendezvous* rendezvous, ExecutorOptions options)
      : program_(std::move(program)),
        allocation_(program_),
        variables_(variables),
        rendezvous_(rendezvous),
        ordinary_(make_ordinary_block),
        registered_(options.registered ? options.registered : make_ordinary_block),
        scratch_(make_ordinary_block),
        values_(program_.uses.size()),
        waits_for_(program_.items.size()) {}

  Result<std::vector<tensor::Tensor>> run(std::uint64_t step, std::span<const Feed> feeds,
                                          Deadline deadline);
  ExecutorStats stats() const;

 private:
  using Kind = Item::Kind;

  // The step.
  Status begin(std::uint64_t step, std::span<const Feed> feeds, Deadline deadline);
  Status advance();
  Result<bool> try_poll(std::uint32_t at);
  Result<bool> poll_send(std::uint32_t at);
  Status compute(std::uint32_t at);
  Status begin_update();
  void finish(std::uint32_t at);
  void make_ready(std::uint32_t at);
  Status wait_for_polls();
  bool any_may_be_ready() const;
  std::string waiting_for() const;
  tl::unexpected<Error> named(const Error& error, const Item& item) const;
  void drop_use(ValueId value_id);
  void drop(ValueId value_id);
  std::vector<tensor::Tensor> fetch();

  // KernelContext: of the item that runs.
  std::size_t inputs() const override { return item_->inputs.size(); }
  const tensor::Tensor& input(std::size_t index) const override {
    return values_[item_->inputs[index]].tensor;
  }
  Result<tensor::Tensor> output(std::uint32_t index, const tensor::Spec& spec) override;
  void pass(std::uint32_t index, tensor::Tensor value) override;
  Result<std::span<std::byte>> scratch(std::uint64_t bytes) override;
  Result<tensor::Tensor> variable(std::string_view name) override {
    return FERRY_TRY(variables_.find(name))->read();
  }
  Result<tensor::Tensor> fed(std::string_view name) override;
  std::uint64_t step() const override { return step_; }

  Result<bool> reuse(std::uint32_t index, const tensor::Spec& spec);
  Status allocate(const tensor::Spec& spec, Value& value);

  Program program_;
  OutputAllocation allocation_;
  Variables& variables_;
  Rendezvous* rendezvous_;
  Buffers ordinary_;
  Buffers registered_;
  Buffers scratch_;
  std::vector<tensor::Tensor> scratch_in_use_;

  std::uint64_t step_ = 0;
  std::span<const Feed> feeds_;
  Deadline deadline_;
  std::vector<Value> values_;
  std::vector<std::uint32_t> waits_for_;
  std::deque<std::uint32_t> ready_;
  std::deque<std::uint32_t> polls_;
  std::vector<bool> sending_ = std::vector<bool>(program_.items.size());
  std::size_t done_ = 0;
  const Item* item_ = nullptr;  // that runs, and its number
  std::uint32_t at_ = 0;
  bool updating_ = false;  // it holds its variable
  tensor::Tensor next_value_;
  bool broken_ = false;
  ExecutorStats stats_;
};

}  // namespace ferry::runtime
