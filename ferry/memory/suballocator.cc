// Data path.
#include <algorithm>
#include <bit>

#include "ferry/memory/suballocator_internal.h"

namespace ferry::memory {

std::array<std::array<std::uint32_t, Suballocator::kSecond>, Suballocator::kFirst>
Suballocator::no_lists() {
  std::array<std::array<std::uint32_t, kSecond>, kFirst> lists;
  for (auto& row : lists) row.fill(kNone);
  return lists;
}

Result<Mapping> Suballocator::make_table(std::uint32_t granules) {
  return Mapping::anonymous(granules * sizeof(std::uint32_t));
}

std::uint32_t Suballocator::add_region(std::uint32_t granules, Mapping table) {
  auto free_place =
      std::find_if(regions_.begin(), regions_.end(), [](auto& r) { return r.granules == 0; });
  if (free_place == regions_.end()) free_place = regions_.insert(free_place, Region{});
  free_place->table = std::move(table);
  free_place->granules = granules;
  auto index = static_cast<std::uint32_t>(free_place - regions_.begin());
  free_place->first = new_node({index, 0, granules, true, kNone, kNone, kNone, kNone});
  link(free_place->first);
  return index;
}

bool Suballocator::empty(std::uint32_t region) const {
  const Node& node = nodes_[regions_[region].first];
  return node.is_free && node.size == regions_[region].granules;
}

void Suballocator::remove_region(std::uint32_t region) {
  FERRY_ASSERT(empty(region), "a region with pieces in use was removed from a pool");
  unlink(regions_[region].first);
  drop_node(regions_[region].first);
  regions_[region] = Region{};
}

std::optional<Suballocator::Piece> Suballocator::allocate(std::uint32_t granules) {
  std::uint32_t node = find(granules);
  if (node == kNone) node = find_in_own_class(granules);
  if (node == kNone) return std::nullopt;
  return carve(node, granules);
}

Suballocator::Piece Suballocator::allocate_in(std::uint32_t region, std::uint32_t granules) {
  FERRY_ASSERT(empty(region) && granules <= regions_[region].granules,
               "a new arena is too small for the request it was made for");
  return carve(regions_[region].first, granules);
}

bool Suballocator::free(Piece piece, std::uint32_t granules) {
  if (piece.region >= regions_.size() || piece.offset >= regions_[piece.region].granules)
    return false;
  std::uint32_t index = starts_at(piece.region, piece.offset);
  if (index == 0) return false;
  --index;
  if (nodes_[index].is_free || nodes_[index].size != granules) return false;
  nodes_[index].is_free = true;
  std::uint32_t after = nodes_[index].after;
  if (after != kNone && nodes_[after].is_free) {
    unlink(after);
    merge(index, after);
  }
  std::uint32_t before = nodes_[index].before;
  if (before != kNone && nodes_[before].is_free) {
    unlink(before);
    merge(before, index);
    index = before;
  }
  link(index);
  return true;
}

std::uint32_t Suballocator::largest_free() const {
  if (first_map_ == 0) return 0;
  unsigned first = 31u - static_cast<unsigned>(std::countl_zero(first_map_));
  unsigned second = 31u - static_cast<unsigned>(std::countl_zero(second_map_[first]));
  std::uint32_t largest = 0;
  for (auto node = lists_[first][second]; node != kNone; node = nodes_[node].next)
    largest = std::max(largest, nodes_[node].size);
  return largest;
}

// Sizes below kSecond have a class each; above, each power of two is cut into kSecond classes.
Suballocator::Class Suballocator::class_of(std::uint32_t size) {
  if (size < kSecond) return {0, size};
  unsigned log = 31u - static_cast<unsigned>(std::countl_zero(size));
  return {log - kSecondBits + 1, (size >> (log - kSecondBits)) & (kSecond - 1)};
}

// Any piece of the class found is large enough, so the first one will do.
std::uint32_t Suballocator::find(std::uint32_t size) const {
  std::uint32_t rounded = size;
  if (size >= kSecond) {
    unsigned log = 31u - static_cast<unsigned>(std::countl_zero(size));
    rounded += (1u << (log - kSecondBits)) - 1;
  }
  auto [first, second] = class_of(rounded);
  std::uint32_t seconds = second_map_[first] & (~0u << second);
  if (seconds == 0) {
    std::uint32_t firsts = first_map_ & (~0u << first << 1);
    if (firsts == 0) return kNone;
    first = static_cast<unsigned>(std::countr_zero(firsts));
    seconds = second_map_[first];
  }
  return lists_[first][static_cast<unsigned>(std::countr_zero(seconds))];
}

// The class of the size itself holds smaller and larger pieces: a few tries, before a new arena.
std::uint32_t Suballocator::find_in_own_class(std::uint32_t size) const {
  constexpr int kTries = 8;
  auto [first, second] = class_of(size);
  std::uint32_t node = lists_[first][second];
  for (int i = 0; i < kTries && node != kNone; ++i, node = nodes_[node].next)
    if (nodes_[node].size >= size) return node;
  return kNone;
}

void Suballocator::link(std::uint32_t index) {
  Node& node = nodes_[index];
  auto [first, second] = class_of(node.size);
  std::uint32_t& head = lists_[first][second];
  node.previous = kNone;
  node.next = head;
  if (head != kNone) nodes_[head].previous = index;
  head = index;
  first_map_ |= 1u << first;
  second_map_[first] |= 1u << second;
  total_free_ += node.size;
}

void Suballocator::unlink(std::uint32_t index) {
  Node& node = nodes_[index];
  auto [first, second] = class_of(node.size);
  if (node.previous != kNone) nodes_[node.previous].next = node.next;
  if (node.next != kNone) nodes_[node.next].previous = node.previous;
  std::uint32_t& head = lists_[first][second];
  if (head == index) head = node.next;
  if (head == kNone) {
    second_map_[first] &= ~(1u << second);
    if (second_map_[first] == 0) first_map_ &= ~(1u << first);
  }
  total_free_ -= node.size;
}

Suballocator::Piece Suballocator::carve(std::uint32_t index, std::uint32_t size) {
  unlink(index);
  if (nodes_[index].size > size) {
    Node rest = nodes_[index];
    rest.offset += size;
    rest.size -= size;
    rest.before = index;
    std::uint32_t made = new_node(rest);
    if (rest.after != kNone) nodes_[rest.after].before = made;
    nodes_[index].after = made;
    nodes_[index].size = size;
    link(made);
  }
  nodes_[index].is_free = false;
  return {nodes_[index].region, nodes_[index].offset};
}

void Suballocator::merge(std::uint32_t into, std::uint32_t from) {
  nodes_[into].size += nodes_[from].size;
  nodes_[into].after = nodes_[from].after;
  if (nodes_[from].after != kNone) nodes_[nodes_[from].after].before = into;
  drop_node(from);
}

std::uint32_t Suballocator::new_node(const Node& node) {
  std::uint32_t index = unused_;
  if (index == kNone) {
    index = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back(node);
  } else {
    unused_ = nodes_[index].next;
    nodes_[index] = node;
  }
  starts_at(node.region, node.offset) = index + 1;
  return index;
}

void Suballocator::drop_node(std::uint32_t index) {
  starts_at(nodes_[index].region, nodes_[index].offset) = 0;
  nodes_[index].next = unused_;
  unused_ = index;
}

std::uint32_t& Suballocator::starts_at(std::uint32_t region, std::uint32_t offset) {
  return reinterpret_cast<std::uint32_t*>(regions_[region].table.data())[offset];
}

}  // namespace ferry::memory
