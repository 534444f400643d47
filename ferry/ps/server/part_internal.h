#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ferry/fabric/device.h"
#include "ferry/ps/server/contributions_internal.h"
#include "ferry/ps/server/weights_internal.h"
#include "ferry/ps/wire/messages_internal.h"

namespace ferry::ps {

// What one shard has of one tensor: its weights, and what workers have contributed to the open
// step. Belongs to the shard's thread, but for clear_seat().
class Part {
 public:
  // kResourceExhausted if there is no memory for it.
  static Result<std::unique_ptr<Part>> make(fabric::Device& device, const TensorInfo& info,
                                            std::uint32_t run, const JobOptions& job,
                                            const UpdateFunction* function);

  std::uint32_t tensor() const { return tensor_; }
  const PartLayout& layout() const { return weights_.planes().layout(); }
  std::uint64_t row_bytes() const { return weights_.row_bytes(); }
  const fabric::Region& table() const { return weights_.planes().table(); }
  const fabric::Region& seats() const { return weights_.planes().seats(); }
  // Ends the leases of that worker. For any thread.
  void clear_seat(std::uint32_t rank) const { weights_.planes().clear_seat(rank); }
  // Called now and then while no plane can be written: ends the leases of the dead.
  void while_blocked(std::function<void()> call) {
    weights_.planes().while_blocked(std::move(call));
  }
  // Sends the newest version of a block to a worker.
  void send_back(std::uint32_t block, fabric::Channel& channel, const fabric::RemoteAt& to) {
    weights_.planes().send(block, channel, to);
  }
  // Waits until nothing of it is being sent any more.
  void drain() const { weights_.planes().drain(); }

  bool has_values() const { return weights_.planes().has_values(); }
  PartImage empty_image() const { return weights_.empty_image(); }
  PartImage image() const { return weights_.image(); }
  void restore(PartImage image) { weights_.restore(std::move(image)); }
  // Its values are those of another copy after that step: first values of before do not count.
  void set_copied_after(std::uint64_t step) { copied_after_ = step; }
  std::optional<std::uint64_t> copied_after() const { return copied_after_; }

  void assign(std::uint32_t block, const std::byte* values) { weights_.assign(block, values); }
  // Updates at once, from one gradient or several.
  void apply(std::uint32_t block, std::span<const Source> sources, float scale);
  void apply_rows(const RowSource& rows);

  Contributions& contributions() { return contributions_; }
  const Contributions& contributions() const { return contributions_; }
  // Ends the step: applies its contributions. Calls `applied` for each block that was published.
  void apply_step(float scale, const std::function<void(std::uint32_t)>& applied);

 private:
  Part(std::uint32_t tensor, Weights weights)
      : tensor_(tensor),
        weights_(std::move(weights)),
        contributions_(layout(), weights_.type(), row_bytes()),
        adder_(weights_.type()) {}
  // Updates a block with what was contributed to it: rows, gradients, or a sum.
  void apply_contributions(std::uint32_t block, float scale);

  std::uint32_t tensor_;
  Weights weights_;
  Contributions contributions_;
  GradientSum adder_;
  std::vector<float> sum_;             // of narrow gradients, or one row
  std::vector<const float*> sources_;  // of f32
  std::optional<std::uint64_t> copied_after_;
};

}  // namespace ferry::ps
