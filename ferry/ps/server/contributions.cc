#include <algorithm>

#include "ferry/ps/server/contributions_internal.h"

namespace ferry::ps {

void Contributions::touch(std::uint32_t block) {
  const auto& state = blocks_[block];
  if (state.pending.empty() && state.folded.empty()) touched_.push_back(block);
}

float* Contributions::sums_of(std::uint32_t block) {
  sums_.resize(layout_.bytes / element_bytes_);
  return sums_.data() + block * layout_.block_bytes / element_bytes_;
}

void Contributions::make_dense(std::uint32_t block) {
  auto& state = blocks_[block];
  auto* sums = sums_of(block);
  const auto count = row_bytes_ / element_bytes_;
  const auto first = block * layout_.block_bytes / row_bytes_;
  for (std::uint64_t row = 0; row < layout_.bytes_of(block) / row_bytes_; ++row)
    if (state.rows.empty() || row_marks_[first + row] != step_mark_)
      std::fill_n(sums + row * count, count, 0.0F);
  state.rows.clear();
}

void Contributions::add(std::uint32_t block, const Source& source) {
  touch(block);
  if (!blocks_[block].rows.empty()) make_dense(block);
  auto& pending = blocks_[block].pending;
  const auto later = std::find_if(pending.begin(), pending.end(),
                                  [&](const Source& other) { return other.rank > source.rank; });
  pending.insert(later, source);
}

bool Contributions::has(std::uint32_t block, std::uint32_t rank) const {
  const auto& state = blocks_[block];
  return std::find(state.folded.begin(), state.folded.end(), rank) != state.folded.end() ||
         std::any_of(state.pending.begin(), state.pending.end(),
                     [&](const Source& source) { return source.rank == rank; });
}

// Those of lower ranks first: the order of the sum is that of one pass.
void Contributions::fold(std::uint32_t block, std::uint32_t rank) {
  auto& state = blocks_[block];
  auto* sum = sums_of(block);
  const auto elements = layout_.bytes_of(block) / element_bytes_;
  auto& pending = state.pending;
  while (!pending.empty() && pending.front().rank <= rank) {
    adder_.add(sum, state.folded.empty(), pending.front().data, elements);
    state.folded.push_back(pending.front().rank);
    pending.erase(pending.begin());
  }
}

void Contributions::fold_rows(const RowSource& rows, std::uint32_t rank) {
  const auto row_elements = row_bytes_ / element_bytes_;
  sums_.resize(layout_.bytes / element_bytes_);
  row_marks_.resize(layout_.bytes / row_bytes_);
  for (std::size_t each = 0; each < rows.keys.size(); ++each) {
    const auto row = rows.keys[each];
    const auto block = static_cast<std::uint32_t>(row * row_bytes_ / layout_.block_bytes);
    auto& state = blocks_[block];
    touch(block);
    const bool dense = !state.pending.empty() || (!state.folded.empty() && state.rows.empty());
    if (dense) fold(block, rank);
    if (dense && state.folded.empty()) make_dense(block);
    if (state.folded.empty() || state.folded.back() != rank) state.folded.push_back(rank);
    const bool first = !dense && row_marks_[row] != step_mark_;
    row_marks_[row] = step_mark_;
    if (first) state.rows.push_back(row);
    adder_.add(sums_.data() + row * row_elements, first, rows.values + each * row_bytes_,
               row_elements);
  }
}

bool Contributions::has_folded(std::uint32_t rank) const {
  return std::any_of(touched_.begin(), touched_.end(), [&](std::uint32_t block) {
    const auto& folded = blocks_[block].folded;
    return std::find(folded.begin(), folded.end(), rank) != folded.end();
  });
}

void Contributions::drop(std::uint32_t rank) {
  for (const auto block : touched_)
    std::erase_if(blocks_[block].pending,
                  [&](const Source& source) { return source.rank == rank; });
}

void Contributions::clear(std::uint32_t block) {
  blocks_[block].pending.clear();
  blocks_[block].folded.clear();
  blocks_[block].rows.clear();
}

void Contributions::clear() {
  for (const auto block : touched_) clear(block);
  touched_.clear();
  ++step_mark_;
}

std::span<const Source> Contributions::unfolded(std::uint32_t block) const {
  const auto& state = blocks_[block];
  return state.folded.empty() ? std::span<const Source>(state.pending) : std::span<const Source>();
}

const float* Contributions::sum(std::uint32_t block) {
  const auto& state = blocks_[block];
  if (state.folded.empty()) return nullptr;
  if (!state.pending.empty()) fold(block, state.pending.back().rank);
  return sums_of(block);
}

}  // namespace ferry::ps
