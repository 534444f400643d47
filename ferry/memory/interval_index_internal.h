#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ferry::memory {

// Intervals of addresses, possibly overlapping, in a sorted array of fixed capacity: finding is
// logarithmic in their number plus linear in those that overlap; changing is linear, and never
// allocates. Not thread-safe.
class IntervalIndex {
 public:
  explicit IntervalIndex(std::size_t capacity) { rows_.reserve(capacity); }

  // There is room, and `id` is new.
  void insert(std::uintptr_t start, std::uintptr_t end, std::uint32_t id) {
    auto at = rows_.begin() + static_cast<std::ptrdiff_t>(first_not_before(start));
    at = rows_.insert(at, Row{start, end, end, id});
    update_reach(static_cast<std::size_t>(at - rows_.begin()));
  }

  void erase(std::uintptr_t start, std::uint32_t id) {
    for (std::size_t i = first_not_before(start); i < rows_.size(); ++i) {
      if (rows_[i].id != id) continue;
      rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(i));
      update_reach(i);
      return;
    }
  }

  // Calls visit(id) for intervals that overlap [start, end) until it returns true. `visit` must not
  // change the index.
  template <class Visit>
  void visit_overlaps(std::uintptr_t start, std::uintptr_t end, Visit visit) const {
    for (std::size_t i = first_not_before(end); i > 0 && rows_[i - 1].reach > start; --i)
      if (rows_[i - 1].end > start && visit(rows_[i - 1].id)) return;
  }

 private:
  struct Row {
    std::uintptr_t start;
    std::uintptr_t end;
    std::uintptr_t reach;  // the furthest end of this and all earlier rows
    std::uint32_t id;
  };

  std::size_t first_not_before(std::uintptr_t start) const {
    auto at = std::lower_bound(rows_.begin(), rows_.end(), start,
                               [](const Row& row, auto wanted) { return row.start < wanted; });
    return static_cast<std::size_t>(at - rows_.begin());
  }

  void update_reach(std::size_t from) {
    std::uintptr_t reach = from == 0 ? 0 : rows_[from - 1].reach;
    for (std::size_t i = from; i < rows_.size(); ++i)
      rows_[i].reach = reach = std::max(reach, rows_[i].end);
  }

  std::vector<Row> rows_;
};

}  // namespace ferry::memory
