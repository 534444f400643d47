#pragma once

#include <vector>

#include "ferry/ops/shaped_internal.h"

namespace ferry::ops {

// kInvalidArgument unless all ids are rows of a table of so many.
Status check_ids(std::span<const std::int32_t> ids, std::int64_t rows);

// A row of a sparse gradient: which row of the table it is for, and its values.
struct SparseRow {
  std::int32_t id = 0;
  const float* values = nullptr;
};
// The rows, by ascending id; those of one id stay in their order.
void add_rows(std::vector<SparseRow>& rows, std::span<const std::int32_t> ids, const float* values,
              std::size_t width);
void sort_rows(std::vector<SparseRow>& rows);
// Those from `begin` on that have its id.
std::size_t end_of_id(const std::vector<SparseRow>& rows, std::size_t begin);

}  // namespace ferry::ops
