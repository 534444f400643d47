#include <algorithm>

#include "ferry/ps/server/part_internal.h"

namespace ferry::ps {

Result<std::unique_ptr<Part>> Part::make(fabric::Device& device, const TensorInfo& info,
                                         std::uint32_t run, const JobOptions& job,
                                         const UpdateFunction* function) {
  auto planes =
      FERRY_TRY(Planes::make(device, {info.runs[run].bytes, info.block_bytes}, job.workers));
  return std::unique_ptr<Part>(
      new Part(info.id, Weights(std::move(planes), info.spec, info.update, function)));
}

void Part::apply(std::uint32_t block, std::span<const Source> sources, float scale) {
  if (weights_.type() == tensor::ElementType::kF32) {
    sources_.clear();
    for (const auto& source : sources)
      sources_.push_back(reinterpret_cast<const float*>(source.data));
    return weights_.update(block, sources_, scale);
  }
  const auto count = weights_.elements(block);
  sum_.resize(std::max<std::size_t>(sum_.size(), count));
  for (std::size_t each = 0; each < sources.size(); ++each)
    adder_.add(sum_.data(), each == 0, sources[each].data, count);
  const float* sum = sum_.data();
  weights_.update(block, {&sum, 1}, scale);
}

// Keys that follow each other in one block make one version of it.
void Part::apply_rows(const RowSource& rows) {
  const auto count = row_bytes() / tensor::size_of(weights_.type());
  sum_.resize(std::max<std::size_t>(sum_.size(), count));
  const auto block_of = [&](std::uint64_t row) {
    return static_cast<std::uint32_t>(row * row_bytes() / layout().block_bytes);
  };
  for (std::size_t begin = 0, end = 0; begin < rows.keys.size(); begin = end) {
    const auto block = block_of(rows.keys[begin]);
    while (end < rows.keys.size() && block_of(rows.keys[end]) == block) ++end;
    const auto* values = rows.values + begin * row_bytes();
    weights_.update_rows(block, rows.keys.subspan(begin, end - begin), 1, [&](std::size_t each) {
      adder_.add(sum_.data(), true, values + each * row_bytes(), count);
      return sum_.data();
    });
  }
}

void Part::apply_contributions(std::uint32_t block, float scale) {
  if (const auto rows = contributions_.rows(block); !rows.empty()) {
    weights_.update_rows(block, rows, scale,
                         [&](std::size_t each) { return contributions_.row_sum(rows[each]); });
  } else if (const auto sources = contributions_.unfolded(block); !sources.empty()) {
    apply(block, sources, scale);
  } else if (const float* sum = contributions_.sum(block)) {
    weights_.update(block, {&sum, 1}, scale);
  }
}

void Part::apply_step(float scale, const std::function<void(std::uint32_t)>& applied) {
  for (const auto block : contributions_.touched()) {
    const auto before = weights_.planes().version(block);
    apply_contributions(block, scale);
    contributions_.clear(block);
    if (weights_.planes().version(block) != before) applied(block);
  }
  contributions_.clear();
}

}  // namespace ferry::ps
