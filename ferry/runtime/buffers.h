#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "ferry/tensor/tensor.h"

namespace ferry::runtime {

// A piece of memory of some kind, given back with the object.
class Block {
 public:
  virtual ~Block() = default;
  virtual std::span<std::byte> bytes() const = 0;
};
using BlockMaker = std::function<Result<std::shared_ptr<Block>>(std::uint64_t bytes)>;

// Ordinary memory, aligned to 64 bytes.
Result<std::shared_ptr<Block>> make_ordinary_block(std::uint64_t bytes);

// Memory for tensors that is used again and again: after the first steps nothing is allocated. One
// thread at a time; the tensors may outlive it.
class Buffers {
 public:
  explicit Buffers(BlockMaker make) : make_(std::move(make)) {}

  // kResourceExhausted if there is no memory.
  Result<tensor::Tensor> take(const tensor::Spec& spec);
  // A tensor that take() gave and its holder needs no more. Views of it may still be in use: then
  // its memory is free when they are gone.
  void give(tensor::Tensor tensor);
  // So many blocks were made so far.
  std::uint64_t made() const { return made_; }

 private:
  using Blocks = std::vector<std::shared_ptr<Block>>;
  void collect();

  BlockMaker make_;
  std::unordered_map<std::uint64_t, Blocks> free_;  // by size
  Blocks viewed_;                                   // given back, but views are left
  std::uint64_t made_ = 0;
};

}  // namespace ferry::runtime
