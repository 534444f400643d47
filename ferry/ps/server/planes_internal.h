#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ferry/fabric/device.h"
#include "ferry/ps/wire/layout_internal.h"

namespace ferry::ps {

// The versions of a part's blocks, and the leases of those who read them: the two regions that
// docs/wire/ps.md calls a part and its seats. A block has kPlanes places for its values. A new
// version is written to a plane that no lease covers, and then published.
//
// Belongs to the shard's thread, but for the seats, which workers write and clear_seat() clears.
// Between calls the epoch is even and each block's head names its newest plane.
class Planes {
 public:
  static Result<Planes> make(fabric::Device& device, const PartLayout& layout,
                             std::uint32_t workers);

  const PartLayout& layout() const { return layout_; }
  const fabric::Region& table() const { return table_; }
  const fabric::Region& seats() const { return seats_; }
  // Ends the leases of that worker. For any thread.
  void clear_seat(std::uint32_t rank) const;
  // Called now and then while take_free() finds no plane: ends the leases of the dead.
  void while_blocked(std::function<void()> call) { while_blocked_ = std::move(call); }

  // 0: the block has no values yet.
  std::uint64_t version(std::uint32_t block) const { return blocks_[block].version; }
  bool has_values() const;
  std::byte* data(std::uint32_t block, std::uint32_t plane) const {
    return table_.data() + layout_.plane(plane) + block * layout_.block_bytes;
  }
  std::byte* newest(std::uint32_t block) const { return data(block, blocks_[block].plane); }

  // A plane that nobody reads; its bytes are old. Waits until a lease ends if there is none.
  std::uint32_t take_free(std::uint32_t block);
  // A plane that nobody reads and that has the newest values: the newest one, or a copy of it.
  std::uint32_t take_to_edit(std::uint32_t block);
  // What was written to a plane that was taken becomes the newest version.
  void publish(std::uint32_t block, std::uint32_t plane);

  // Sends the newest version to a worker. The plane is not taken before it has left.
  void send(std::uint32_t block, fabric::Channel& channel, const fabric::RemoteAt& to);
  // Waits until nothing is being sent any more.
  void drain() const;

 private:
  struct Block {
    std::uint64_t version = 0;
    std::uint32_t plane = 0;
    std::uint64_t born[kPlanes] = {};  // epochs: became current, ceased to be
    std::uint64_t died[kPlanes] = {};
  };
  Planes() = default;
  // Whether a lease covers a time at which the plane was what readers were shown.
  bool is_leased(const Block& block, std::uint32_t plane) const;
  // Takes the plane out of sight; leaves it as it was if somebody may be reading it.
  bool try_take(std::uint32_t block, std::uint32_t plane);

  PartLayout layout_;
  std::uint32_t workers_ = 0;
  fabric::Region table_;
  fabric::Region seats_;
  std::vector<Block> blocks_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> leaving_;  // sends from each plane of each block
  std::uint64_t epoch_ = 0;
  std::function<void()> while_blocked_;
};

}  // namespace ferry::ps
