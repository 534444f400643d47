#include <algorithm>
#include <cstring>

#include "ferry/ps/worker/rows_internal.h"

namespace ferry::ps {
namespace {

std::uint64_t rows_in_slot(const TensorLink& tensor, std::uint64_t slot_bytes) {
  return slot_bytes / (tensor.row_bytes + sizeof(std::uint64_t));
}

}  // namespace

Status check_rows(const TensorLink& tensor, std::span<const std::uint64_t> rows,
                  std::uint64_t values, std::uint64_t slot_bytes) {
  const auto row_bytes = tensor.row_bytes;
  const auto& name = tensor.info.name;
  if (rows_in_slot(tensor, slot_bytes) == 0 || tensor.info.block_bytes % row_bytes != 0)
    return fail(Code::kUnimplemented, "rows of '{}' have {} bytes, blocks of the job {}: too few",
                name, row_bytes, slot_bytes);
  if (values != rows.size() * row_bytes)
    return fail(Code::kInvalidArgument, "{} rows of '{}' have {} bytes; {} were given", rows.size(),
                name, rows.size() * row_bytes, values);
  const auto all = tensor.bytes / row_bytes;
  for (const auto row : rows)
    if (row >= all) return fail(Code::kOutOfRange, "row {} of '{}', which has {}", row, name, all);
  return {};
}

std::vector<PushRecord> pack_rows(const TensorLink& tensor, Parameter parameter,
                                  std::span<const std::uint64_t> rows,
                                  std::span<const std::byte> values, std::uint64_t slot_bytes) {
  const auto row_bytes = tensor.row_bytes;
  const auto most = rows_in_slot(tensor, slot_bytes);
  std::vector<std::vector<std::size_t>> by_part(tensor.info.runs.size());
  for (std::size_t each = 0; each < rows.size(); ++each)
    by_part[tensor.run_at(rows[each] * row_bytes)].push_back(each);
  std::vector<PushRecord> payloads;
  for (std::uint32_t part = 0; part < by_part.size(); ++part) {
    auto& mine = by_part[part];
    std::stable_sort(mine.begin(), mine.end(), [&](auto a, auto b) { return rows[a] < rows[b]; });
    const auto first_row = tensor.parts[part].run.offset / row_bytes;
    for (std::size_t begin = 0; begin < mine.size(); begin += most) {
      const auto count = std::min<std::size_t>(most, mine.size() - begin);
      auto payload = std::make_shared<Bytes>(count * (sizeof(std::uint64_t) + row_bytes));
      for (std::size_t each = 0; each < count; ++each) {
        const auto from = mine[begin + each];
        const auto key = rows[from] - first_row;
        std::memcpy(payload->data() + each * sizeof(key), &key, sizeof(key));
        std::memcpy(payload->data() + count * sizeof(key) + each * row_bytes,
                    values.data() + from * row_bytes, row_bytes);
      }
      payloads.push_back({parameter, {}, std::move(payload), part, count, false});
    }
  }
  return payloads;
}

}  // namespace ferry::ps
