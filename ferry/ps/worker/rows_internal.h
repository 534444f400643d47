#pragma once

#include <span>
#include <vector>

#include "ferry/ps/worker/step_log_internal.h"
#include "ferry/ps/worker/tensor_table_internal.h"

// Rows of a tensor as they travel: keys and values of one part in one slot.

namespace ferry::ps {

// Whether these rows of the tensor can be pushed, with values of so many bytes.
Status check_rows(const TensorLink& tensor, std::span<const std::uint64_t> rows,
                  std::uint64_t values, std::uint64_t slot_bytes);
// A payload for each slot, by part and within it by row; equal rows stay in their order.
std::vector<PushRecord> pack_rows(const TensorLink& tensor, Parameter parameter,
                                  std::span<const std::uint64_t> rows,
                                  std::span<const std::byte> values, std::uint64_t slot_bytes);

}  // namespace ferry::ps
