#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ferry/fabric/device.h"
#include "ferry/ps/server/snapshot_internal.h"
#include "ferry/ps/wire/layout_internal.h"
#include "ferry/ps/wire/messages_internal.h"

namespace ferry::ps {

// A gradient of one block, where a worker has put it.
struct Source {
  std::uint32_t rank = 0;
  const std::byte* data = nullptr;
};

// Rows of a gradient: keys within the part, and as many rows of values. Both were checked.
struct RowSource {
  std::span<const std::uint64_t> keys;
  const std::byte* values = nullptr;
};

// What one shard has of one tensor: versions of its blocks, and what the update remembers. Belongs
// to the shard's thread, but for the seats, which workers write and clear_seat() clears.
class Part {
 public:
  // kResourceExhausted if there is no memory for it.
  static Result<std::unique_ptr<Part>> make(fabric::Device& device, const TensorInfo& info,
                                            std::uint32_t run, const JobOptions& job,
                                            const UpdateFunction* function);

  const PartLayout& layout() const { return layout_; }
  std::uint32_t tensor() const { return tensor_; }
  std::uint32_t run() const { return run_; }
  std::uint64_t row_bytes() const { return row_bytes_; }
  const fabric::Region& table() const { return table_; }
  // The line of one worker.
  const fabric::Region& seats() const { return seats_; }
  void clear_seat(std::uint32_t rank) const;
  // Called now and then while no plane can be written: takes the dead off their seats.
  void while_blocked(std::function<void()> call) { while_blocked_ = std::move(call); }

  // Sends the newest version of a block to a worker. The plane stays as it is until it has left.
  void send_back(std::uint32_t block, fabric::Channel& channel, const fabric::RemoteAt& to);
  // Waits until nothing of it is being sent any more.
  void drain() const;

  // All that has to be kept, and the other way round: `image` has the sizes that this part needs.
  PartImage empty_image() const;
  PartImage image() const;
  void restore(PartImage image);
  bool has_values() const;
  // Its values are those of another copy after that step: first values of before are none.
  void came_by_image(std::uint64_t step) { came_after_ = step; }
  std::optional<std::uint64_t> came_after() const { return came_after_; }

  // At once, from one contribution or several.
  void apply(std::uint32_t block, std::span<const Source> sources, float scale);
  void assign(std::uint32_t block, const std::byte* data);
  void apply_rows(const RowSource& rows);

  // Contributions to the open step. They stay where they are until the step is applied, or until
  // fold() has added those up to `rank` to the block's accumulator.
  void pend(std::uint32_t block, const Source& source);
  bool contributed(std::uint32_t block, std::uint32_t rank) const;
  void fold(std::uint32_t block, std::uint32_t rank);
  void fold_rows(const RowSource& rows, std::uint32_t rank);
  bool folded(std::uint32_t rank) const;
  bool pending() const { return !touched_.empty(); }
  // The step: forget one worker's part, forget all, or apply.
  void drop(std::uint32_t rank);
  void forget();
  // Calls `applied` for each block that was published.
  void apply_pending(float scale, const std::function<void(std::uint32_t)>& applied);

 private:
  struct Block {
    std::uint64_t version = 0;
    std::uint64_t updates = 0;
    std::uint32_t plane = 0;
    std::uint64_t born[kPlanes] = {};  // epochs: became current, ceased to be
    std::uint64_t died[kPlanes] = {};
    std::vector<Source> pending;             // by rank
    std::vector<std::uint32_t> added;        // ranks that are in the accumulator
    std::vector<std::uint64_t> row_touched;  // rows within the part, as they came
  };
  Part() = default;
  std::byte* plane_data(std::uint32_t block, std::uint32_t plane) const;
  bool in_use(const Block& block, std::uint32_t plane) const;
  bool take_plane(std::uint32_t block, std::uint32_t plane);
  std::uint32_t free_plane(std::uint32_t block);
  std::uint32_t plane_for_rows(std::uint32_t block);
  void publish(std::uint32_t block, std::uint32_t plane);
  std::uint64_t elements(std::uint32_t block) const;
  void add_to(float* sum, bool first, const std::byte* data, std::uint64_t count);
  void update_block(std::uint32_t block, const Update& update, std::span<const float* const> parts,
                    float scale);
  void update_row(std::uint32_t block, std::uint32_t plane, std::uint64_t row,
                  const float* gradient, float scale);
  void widen(const std::byte* from, float* to, std::uint64_t count) const;
  void narrow(const float* from, std::byte* to, std::uint64_t count) const;
  void touch(std::uint32_t block);
  void make_dense(std::uint32_t block);
  float* sums_of(std::uint32_t block);

  std::uint32_t tensor_ = 0;
  std::uint32_t run_ = 0;
  PartLayout layout_;
  tensor::ElementType type_ = tensor::ElementType::kF32;
  std::uint64_t row_bytes_ = 0;
  std::uint32_t workers_ = 0;
  Update update_;
  const UpdateFunction* function_ = nullptr;
  fabric::Region table_;
  fabric::Region seats_;
  std::vector<Block> blocks_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> leaving_;  // sends from each plane of each block
  std::vector<std::uint32_t> touched_;                     // blocks with something pending
  std::vector<float> sums_;                                // accumulators, made when first needed
  std::vector<float> master_;                              // of narrow types
  std::vector<float> states_[2];
  std::vector<std::uint64_t> row_marks_;  // the step in which a row was last added up
  std::uint64_t step_mark_ = 1;
  std::vector<float> scratch_;
  std::vector<float> scratch2_;
  std::uint64_t epoch_ = 0;
  std::optional<std::uint64_t> came_after_;
  std::function<void()> while_blocked_;
};

}  // namespace ferry::ps
