#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "ferry/ps/server/part_internal.h"

namespace ferry::ps {

// The parts of a shard, numbered in the order in which they came; one that was removed keeps its
// number. Belongs to the shard's thread.
class PartList {
 public:
  std::uint32_t add(std::unique_ptr<Part> part) {
    parts_.push_back(std::move(part));
    return static_cast<std::uint32_t>(parts_.size() - 1);
  }
  void remove(std::uint32_t number) {
    parts_[number]->drain();
    parts_[number].reset();
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(parts_.size()); }
  // Null: there is none, whatever a worker says.
  Part* find(std::uint32_t number) const {
    return number < parts_.size() ? parts_[number].get() : nullptr;
  }
  Part* of_tensor(std::uint32_t tensor) const {
    const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const auto& part) {
      return part != nullptr && part->tensor() == tensor;
    });
    return found == parts_.end() ? nullptr : found->get();
  }
  template <typename F>
  void for_each(F&& f) const {
    for (const auto& part : parts_)
      if (part != nullptr) f(*part);
  }
  template <typename F>
  bool any_of(F&& f) const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const auto& part) { return part != nullptr && f(*part); });
  }

 private:
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace ferry::ps
