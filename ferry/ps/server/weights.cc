#include <algorithm>
#include <cstring>

#include "ferry/ps/server/weights_internal.h"

namespace ferry::ps {
namespace {

std::uint64_t bytes_of_row(const tensor::Spec& spec) {
  std::uint64_t bytes = tensor::size_of(spec.type);
  for (std::size_t dim = 1; dim < spec.shape.rank(); ++dim)
    bytes *= static_cast<std::uint64_t>(spec.shape.dim(dim));
  return bytes;
}

}  // namespace

Weights::Weights(Planes planes, const tensor::Spec& spec, const Update& update,
                 const UpdateFunction* function)
    : planes_(std::move(planes)),
      type_(spec.type),
      row_bytes_(bytes_of_row(spec)),
      update_(update),
      function_(function),
      updates_(planes_.layout().blocks()) {
  const auto all = planes_.layout().bytes / tensor::size_of(type_);
  if (type_ != tensor::ElementType::kF32) master_.resize(all);
  for (std::uint32_t each = 0; each < update.states(); ++each) states_[each].resize(all);
}

void Weights::assign(std::uint32_t block, const std::byte* values) {
  const auto plane = planes_.take_free(block);
  std::memcpy(planes_.data(block, plane), values, planes_.layout().bytes_of(block));
  if (!master_.empty())
    widen(type_, values, master_.data() + first_element(block), elements(block));
  planes_.publish(block, plane);
}

void Weights::update(std::uint32_t block, std::span<const float* const> parts, float scale) {
  if (update_.kind == UpdateKind::kNone) return;
  const auto plane = planes_.take_free(block);
  const auto begin = first_element(block);
  auto* to = planes_.data(block, plane);
  UpdateCall call{.gradient = {parts, scale}, .time = ++updates_[block], .count = elements(block)};
  for (std::uint32_t each = 0; each < update_.states(); ++each)
    call.state[each] = states_[each].data() + begin;
  if (type_ == tensor::ElementType::kF32) {
    call.weights = reinterpret_cast<const float*>(planes_.newest(block));
    call.updated = reinterpret_cast<float*>(to);
    apply_update(update_, function_, call);
  } else {
    call.weights = call.updated = master_.data() + begin;
    apply_update(update_, function_, call);
    narrow(type_, call.updated, to, call.count);
  }
  planes_.publish(block, plane);
}

void Weights::update_row(std::uint32_t block, std::uint32_t plane, std::uint64_t row,
                         const float* gradient, float scale) {
  const auto size = tensor::size_of(type_);
  const auto begin = row * row_bytes_ / size;
  auto* bytes =
      planes_.data(block, plane) + (row * row_bytes_ - block * planes_.layout().block_bytes);
  auto* weights = master_.empty() ? reinterpret_cast<float*>(bytes) : master_.data() + begin;
  UpdateCall call{.weights = weights,
                  .updated = weights,
                  .gradient = {{&gradient, 1}, scale},
                  .time = updates_[block],
                  .count = row_bytes_ / size};
  for (std::uint32_t each = 0; each < update_.states(); ++each)
    call.state[each] = states_[each].data() + begin;
  apply_update(update_, function_, call);
  if (!master_.empty()) narrow(type_, weights, bytes, call.count);
}

PartImage Weights::empty_image() const {
  PartImage image;
  image.values.resize(planes_.layout().bytes);
  image.master.resize(master_.size());
  for (int each = 0; each < 2; ++each) image.states[each].resize(states_[each].size());
  return image;
}

PartImage Weights::image() const {
  auto image = empty_image();
  const auto& layout = planes_.layout();
  for (std::uint32_t block = 0; block < layout.blocks(); ++block)
    std::memcpy(image.values.data() + block * layout.block_bytes, planes_.newest(block),
                layout.bytes_of(block));
  image.updates = updates_;
  for (const auto count : updates_) image.time = std::max(image.time, count);
  image.master = master_;
  for (int each = 0; each < 2; ++each) image.states[each] = states_[each];
  return image;
}

void Weights::restore(PartImage image) {
  const auto& layout = planes_.layout();
  for (std::uint32_t block = 0; block < layout.blocks(); ++block) {
    assign(block, image.values.data() + block * layout.block_bytes);
    updates_[block] = block < image.updates.size() ? image.updates[block] : image.time;
  }
  master_ = std::move(image.master);
  for (int each = 0; each < 2; ++each) states_[each] = std::move(image.states[each]);
}

}  // namespace ferry::ps
