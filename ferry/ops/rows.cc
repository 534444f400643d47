#include <algorithm>
#include <cstring>

#include "ferry/math/sum.h"
#include "ferry/ops/rows_internal.h"
#include "ferry/ops/standard_internal.h"
#include "ferry/ops/threads_internal.h"

// Rows of a table: looked up, and their gradients.

namespace ferry::ops {
namespace {

std::span<const std::int32_t> ids_of(const Call& call, std::size_t input) {
  return {call.ints(input), count_of(call.shape(input))};
}

Status run_embedding(const Call& call) {
  const auto ids = ids_of(call, 1);
  FERRY_TRY(check_ids(ids, call.shape(0).dim(0)));
  const auto width = dim(call.shape(0), 1);
  const auto* table = call.floats(0);
  auto* y = FERRY_TRY(call.out_floats());
  const auto grain = kGrain / std::max<std::size_t>(1, width);
  parallel(ids.size(), grain, [=](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i)
      std::copy_n(table + static_cast<std::size_t>(ids[i]) * width, width, y + i * width);
  });
  return {};
}

// The sum of the rows of one id, in their order.
void sum_of_id(std::span<const SparseRow> rows, std::vector<const float*>& sources, float* to,
               std::size_t width) {
  sources.clear();
  for (const auto& row : rows) sources.push_back(row.values);
  math::sum({sources, 1}, to, width);
}

Status run_embedding_grad(const Call& call) {
  const auto ids = ids_of(call, 1);
  const auto width = dim(call.shape(2), 1);
  FERRY_TRY(check_ids(ids, call.shape(2).dim(0)));
  std::vector<SparseRow> rows;
  add_rows(rows, ids, call.floats(0), width);
  sort_rows(rows);
  std::int64_t count = 0;
  for (std::size_t at = 0; at < rows.size(); at = end_of_id(rows, at)) ++count;
  const auto shape = FERRY_TRY(tensor::Shape::of({count, static_cast<std::int64_t>(width)}));
  const auto ids_shape = FERRY_TRY(tensor::Shape::of({count}));
  const auto made = FERRY_TRY(call.context.output(0, {tensor::ElementType::kF32, shape}));
  const auto made_ids = FERRY_TRY(call.context.output(1, {tensor::ElementType::kI32, ids_shape}));
  auto* sum = reinterpret_cast<float*>(made.data());
  auto* id = reinterpret_cast<std::int32_t*>(made_ids.data());
  std::vector<const float*> sources;
  for (std::size_t at = 0; at < rows.size();) {
    const auto end = end_of_id(rows, at);
    sum_of_id(std::span(rows).subspan(at, end - at), sources, sum, width);
    *id++ = rows[at].id;
    sum += width;
    at = end;
  }
  return {};
}

// Zeros between the rows that there are.
Status run_densify(const Call& call) {
  const auto ids = ids_of(call, 1);
  const auto width = dim(call.out_shape(), 1);
  FERRY_TRY(check_ids(ids, call.out_shape().dim(0)));
  std::vector<SparseRow> rows;
  add_rows(rows, ids, call.floats(0), width);
  sort_rows(rows);
  auto* y = FERRY_TRY(call.out_floats());
  std::vector<const float*> sources;
  std::size_t next = 0;
  for (std::size_t at = 0; at < rows.size();) {
    const auto end = end_of_id(rows, at);
    const auto id = static_cast<std::size_t>(rows[at].id);
    std::fill_n(y + next * width, (id - next) * width, 0.0F);
    sum_of_id(std::span(rows).subspan(at, end - at), sources, y + id * width, width);
    next = id + 1;
    at = end;
  }
  std::fill_n(y + next * width, call.size() - next * width, 0.0F);
  return {};
}

}  // namespace

Status check_ids(std::span<const std::int32_t> ids, std::int64_t rows) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= rows)
      return fail(Code::kInvalidArgument, "id {} is {}; the table has {} rows, from 0 on", i,
                  ids[i], rows);
  return {};
}

void add_rows(std::vector<SparseRow>& rows, std::span<const std::int32_t> ids, const float* values,
              std::size_t width) {
  for (const auto id : ids) {
    rows.push_back({id, values});
    values += width;
  }
}

void sort_rows(std::vector<SparseRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const SparseRow& a, const SparseRow& b) { return a.id < b.id; });
}

std::size_t end_of_id(const std::vector<SparseRow>& rows, std::size_t begin) {
  auto end = begin + 1;
  while (end < rows.size() && rows[end].id == rows[begin].id) ++end;
  return end;
}

NamedKernels row_kernels() {
  return {{"Embedding", shaped(run_embedding)},
          {"EmbeddingGrad", shaped(run_embedding_grad)},
          {"Densify", shaped(run_densify)}};
}

}  // namespace ferry::ops
