#include <algorithm>
#include <cstring>

#include "ferry/ps/server/part_internal.h"

// Rows, what waits for the end of a step, and snapshots.

namespace ferry::ps {

void Part::touch(std::uint32_t block) {
  const auto& state = blocks_[block];
  if (state.pending.empty() && state.added.empty()) touched_.push_back(block);
}

float* Part::sums_of(std::uint32_t block) {
  const auto size = tensor::size_of(type_);
  sums_.resize(layout_.bytes / size);
  return sums_.data() + block * layout_.block_bytes / size;
}

// Some workers push rows of it, others all of it: rows that nobody has pushed are zero then.
void Part::make_dense(std::uint32_t block) {
  auto& state = blocks_[block];
  auto* sums = sums_of(block);
  const auto count = row_bytes_ / tensor::size_of(type_);
  const auto first = block * layout_.block_bytes / row_bytes_;
  for (std::uint64_t row = 0; row < layout_.bytes_of(block) / row_bytes_; ++row)
    if (state.row_touched.empty() || row_marks_[first + row] != step_mark_)
      std::fill_n(sums + row * count, count, 0.0F);
  state.row_touched.clear();
}

void Part::pend(std::uint32_t block, const Source& source) {
  touch(block);
  if (!blocks_[block].row_touched.empty()) make_dense(block);
  auto& pending = blocks_[block].pending;
  const auto later = std::find_if(pending.begin(), pending.end(),
                                  [&](const Source& other) { return other.rank > source.rank; });
  pending.insert(later, source);
}

bool Part::contributed(std::uint32_t block, std::uint32_t rank) const {
  const auto& state = blocks_[block];
  return std::find(state.added.begin(), state.added.end(), rank) != state.added.end() ||
         std::any_of(state.pending.begin(), state.pending.end(),
                     [&](const Source& source) { return source.rank == rank; });
}

// Those of lower ranks first: the order of the sum is that of one pass.
void Part::fold(std::uint32_t block, std::uint32_t rank) {
  auto& state = blocks_[block];
  auto* sum = sums_of(block);
  auto& pending = state.pending;
  while (!pending.empty() && pending.front().rank <= rank) {
    add_to(sum, state.added.empty(), pending.front().data, elements(block));
    state.added.push_back(pending.front().rank);
    pending.erase(pending.begin());
  }
}

void Part::fold_rows(const RowSource& rows, std::uint32_t rank) {
  const auto size = tensor::size_of(type_);
  const auto row_elements = row_bytes_ / size;
  sums_.resize(layout_.bytes / size);
  row_marks_.resize(layout_.bytes / row_bytes_);
  for (std::size_t each = 0; each < rows.keys.size(); ++each) {
    const auto row = rows.keys[each];
    const auto block = static_cast<std::uint32_t>(row * row_bytes_ / layout_.block_bytes);
    auto& state = blocks_[block];
    touch(block);
    const bool dense =
        !state.pending.empty() || (!state.added.empty() && state.row_touched.empty());
    if (dense) fold(block, rank);
    if (dense && state.added.empty()) make_dense(block);
    if (state.added.empty() || state.added.back() != rank) state.added.push_back(rank);
    const bool first = !dense && row_marks_[row] != step_mark_;
    row_marks_[row] = step_mark_;
    if (first) state.row_touched.push_back(row);
    add_to(sums_.data() + row * row_elements, first, rows.values + each * row_bytes_, row_elements);
  }
}

bool Part::folded(std::uint32_t rank) const {
  return std::any_of(touched_.begin(), touched_.end(), [&](std::uint32_t block) {
    const auto& added = blocks_[block].added;
    return std::find(added.begin(), added.end(), rank) != added.end();
  });
}

void Part::drop(std::uint32_t rank) {
  for (const auto block : touched_)
    std::erase_if(blocks_[block].pending,
                  [&](const Source& source) { return source.rank == rank; });
}

void Part::forget() {
  for (const auto block : touched_) {
    auto& state = blocks_[block];
    state.pending.clear();
    state.added.clear();
    state.row_touched.clear();
  }
  touched_.clear();
  ++step_mark_;
}

void Part::apply_pending(float scale, const std::function<void(std::uint32_t)>& applied) {
  const auto size = tensor::size_of(type_);
  for (const auto block : touched_) {
    auto& state = blocks_[block];
    const auto before = state.version;
    if (!state.row_touched.empty()) {
      const auto plane = plane_for_rows(block);
      ++state.updates;
      for (const auto row : state.row_touched)
        update_row(block, plane, row, sums_.data() + row * row_bytes_ / size, scale);
      publish(block, plane);
    } else if (state.added.empty() && !state.pending.empty()) {
      apply(block, state.pending, scale);
    } else if (!state.added.empty()) {
      if (!state.pending.empty()) fold(block, state.pending.back().rank);
      const float* sum = sums_.data() + block * layout_.block_bytes / size;
      update_block(block, update_, {&sum, 1}, scale);
    }
    state.pending.clear();  // a block may be listed twice, if a worker was dropped
    state.added.clear();
    state.row_touched.clear();
    if (state.version != before) applied(block);
  }
  forget();
}

// The newest, if nobody looks at it; else a copy of it.
std::uint32_t Part::plane_for_rows(std::uint32_t block) {
  const auto newest = blocks_[block].plane;
  if (take_plane(block, newest)) return newest;
  const auto plane = free_plane(block);
  std::memcpy(plane_data(block, plane), plane_data(block, newest), layout_.bytes_of(block));
  return plane;
}

// In a plane that is not shown at the moment, and holds the newest values.
void Part::update_row(std::uint32_t block, std::uint32_t plane, std::uint64_t row,
                      const float* gradient, float scale) {
  const auto size = tensor::size_of(type_);
  const auto begin = row * row_bytes_ / size;
  auto* bytes = plane_data(block, plane) + (row * row_bytes_ - block * layout_.block_bytes);
  auto* weights = master_.empty() ? reinterpret_cast<float*>(bytes) : master_.data() + begin;
  UpdateCall call{.weights = weights,
                  .updated = weights,
                  .gradient = {{&gradient, 1}, scale},
                  .time = blocks_[block].updates,
                  .count = row_bytes_ / size};
  for (std::uint32_t each = 0; each < update_.states(); ++each)
    call.state[each] = states_[each].data() + begin;
  apply_update(update_, function_, call);
  if (!master_.empty()) narrow(weights, bytes, call.count);
}

void Part::apply_rows(const RowSource& rows) {
  const auto count = row_bytes_ / tensor::size_of(type_);
  scratch_.resize(std::max<std::size_t>(scratch_.size(), count));
  for (std::size_t each = 0; each < rows.keys.size();) {
    const auto block =
        static_cast<std::uint32_t>(rows.keys[each] * row_bytes_ / layout_.block_bytes);
    const auto plane = plane_for_rows(block);
    ++blocks_[block].updates;
    for (; each < rows.keys.size() && rows.keys[each] * row_bytes_ / layout_.block_bytes == block;
         ++each) {
      add_to(scratch_.data(), true, rows.values + each * row_bytes_, count);
      update_row(block, plane, rows.keys[each], scratch_.data(), 1);
    }
    publish(block, plane);
  }
}

bool Part::has_values() const {
  return std::all_of(blocks_.begin(), blocks_.end(),
                     [](const Block& block) { return block.version > 0; });
}

PartImage Part::empty_image() const {
  PartImage image;
  image.values.resize(layout_.bytes);
  image.master.resize(master_.size());
  for (int each = 0; each < 2; ++each) image.states[each].resize(states_[each].size());
  return image;
}

PartImage Part::image() const {
  auto image = empty_image();
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
    std::memcpy(image.values.data() + block * layout_.block_bytes,
                plane_data(block, blocks_[block].plane), layout_.bytes_of(block));
    image.updates.push_back(blocks_[block].updates);
    image.time = std::max(image.time, blocks_[block].updates);
  }
  image.master = master_;
  for (int each = 0; each < 2; ++each) image.states[each] = states_[each];
  return image;
}

void Part::restore(PartImage image) {
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
    assign(block, image.values.data() + block * layout_.block_bytes);
    blocks_[block].updates = block < image.updates.size() ? image.updates[block] : image.time;
  }
  master_ = std::move(image.master);
  for (int each = 0; each < 2; ++each) states_[each] = std::move(image.states[each]);
}

}  // namespace ferry::ps
