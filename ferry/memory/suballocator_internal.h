// Data path.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ferry/base/fd.h"

namespace ferry::memory {

// Hands out pieces of regions, counted in granules of 64 bytes: two-level segregated fit, which
// finds a good fit and merges neighbours in constant time. It knows offsets only and never touches
// the memory itself. Not thread-safe.
class Suballocator {
 public:
  static constexpr std::size_t kGranule = 64;
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Piece {
    std::uint32_t region;  // what add_region returned
    std::uint32_t offset;  // in granules
  };

  // The table that a region of this size needs.
  static Result<Mapping> make_table(std::uint32_t granules);
  // `granules` is below 2^31.
  std::uint32_t add_region(std::uint32_t granules, Mapping table);
  // The region is empty.
  void remove_region(std::uint32_t region);
  bool empty(std::uint32_t region) const;

  std::optional<Piece> allocate(std::uint32_t granules);
  // From a region just added: succeeds whenever the region is large enough.
  Piece allocate_in(std::uint32_t region, std::uint32_t granules);
  // False, and nothing done, unless a piece of just that size was handed out at that place.
  bool free(Piece piece, std::uint32_t granules);

  std::uint32_t largest_free() const;
  std::uint64_t total_free() const { return total_free_; }

 private:
  static constexpr unsigned kSecondBits = 5;
  static constexpr unsigned kSecond = 1u << kSecondBits;
  static constexpr unsigned kFirst = 32 - kSecondBits + 1;

  struct Node {
    std::uint32_t region;
    std::uint32_t offset;
    std::uint32_t size;
    bool is_free;
    std::uint32_t before;  // neighbours in the region
    std::uint32_t after;
    std::uint32_t previous;  // neighbours in the free list; `next` also links unused nodes
    std::uint32_t next;
  };
  struct Region {
    Mapping table;  // per granule: 1 + the node that starts there, 0 for none; pages come as used
    std::uint32_t first = kNone;
    std::uint32_t granules = 0;
  };
  struct Class {
    unsigned first;
    unsigned second;
  };

  static Class class_of(std::uint32_t size);
  std::uint32_t find(std::uint32_t size) const;
  std::uint32_t find_in_own_class(std::uint32_t size) const;
  void link(std::uint32_t node);
  void unlink(std::uint32_t node);
  Piece carve(std::uint32_t node, std::uint32_t size);
  // Appends `from` to `into`, its neighbour, and forgets `from`.
  void merge(std::uint32_t into, std::uint32_t from);
  std::uint32_t new_node(const Node& node);
  void drop_node(std::uint32_t node);
  std::uint32_t& starts_at(std::uint32_t region, std::uint32_t offset);

  std::vector<Node> nodes_;
  std::vector<Region> regions_;
  std::uint32_t unused_ = kNone;
  std::uint32_t first_map_ = 0;
  std::array<std::uint32_t, kFirst> second_map_{};
  std::array<std::array<std::uint32_t, kSecond>, kFirst> lists_ = no_lists();
  std::uint64_t total_free_ = 0;

  static std::array<std::array<std::uint32_t, kSecond>, kFirst> no_lists();
};

}  // namespace ferry::memory
