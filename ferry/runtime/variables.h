#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "ferry/runtime/buffers.h"
#include "ferry/runtime/rendezvous.h"

namespace ferry::runtime {

// The state of one variable of a task. Thread-safe.
class Variable {
 public:
  // `versions`: an update leaves the value before it alone, for readers of other loops.
  Variable(BlockMaker make, bool versions) : memory_(std::move(make)), versions_(versions) {}

  // The newest value. Without versions its memory is updated in place, when the graph says that
  // nobody reads it any more.
  tensor::Tensor read() const;
  // Copies the value. It becomes readable for others too, if `shared` is there, from now on.
  Status assign(const tensor::Tensor& value, SharedVariable* shared, Deadline deadline);
  // Where the next value goes, and that it is there. Nobody else gets in between.
  Result<tensor::Tensor> begin_update(Deadline deadline);
  Status end_update(bool well);

 private:
  Result<tensor::Tensor> next_memory(const tensor::Spec& spec, Deadline deadline);
  Status keep(const tensor::Tensor& value);

  mutable std::mutex mutex_;  // of value_
  std::mutex updating_;
  tensor::Tensor value_;
  tensor::Tensor next_;
  SharedVariable* shared_ = nullptr;
  Buffers memory_;
  const bool versions_;
};

// The variables of a task, by name. They stay where they are. Adding is for one thread.
class Variables {
 public:
  explicit Variables(BlockMaker make = make_ordinary_block, bool versions = false)
      : make_(std::move(make)), versions_(versions) {}

  // kAlreadyExists for a second one of a name.
  Result<Variable*> add(const std::string& name);
  // kNotFound if there is none.
  Result<Variable*> find(std::string_view name) const;
  const std::map<std::string, std::unique_ptr<Variable>, std::less<>>& all() const { return all_; }

 private:
  BlockMaker make_;
  const bool versions_;
  std::map<std::string, std::unique_ptr<Variable>, std::less<>> all_;
};

}  // namespace ferry::runtime
