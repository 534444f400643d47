#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "ferry/math/convert.h"
#include "ferry/ps/server/part_internal.h"

namespace ferry::ps {
namespace {

constexpr std::chrono::milliseconds kLookForDead{10};

std::uint64_t bytes_of_row(const tensor::Spec& spec) {
  std::uint64_t bytes = tensor::size_of(spec.type);
  for (std::size_t dim = 1; dim < spec.shape.rank(); ++dim)
    bytes *= static_cast<std::uint64_t>(spec.shape.dim(dim));
  return bytes;
}

}  // namespace

Result<std::unique_ptr<Part>> Part::make(fabric::Device& device, const TensorInfo& info,
                                         std::uint32_t run, const JobOptions& job,
                                         const UpdateFunction* function) {
  std::unique_ptr<Part> part(new Part());
  part->tensor_ = info.id;
  part->run_ = run;
  part->layout_ = {info.runs[run].bytes, info.block_bytes};
  part->type_ = info.spec.type;
  part->row_bytes_ = bytes_of_row(info.spec);
  part->workers_ = job.workers;
  part->update_ = info.update;
  part->function_ = function;
  part->table_ = FERRY_TRY(device.allocate(part->layout_.total(), fabric::Rights::kRead));
  part->seats_ = FERRY_TRY(device.allocate(job.workers * sizeof(Seat)));
  part->blocks_.resize(part->layout_.blocks());
  part->leaving_ = std::make_unique<std::atomic<std::uint32_t>[]>(part->blocks_.size() * kPlanes);
  const auto all = part->layout_.bytes / tensor::size_of(part->type_);
  if (part->type_ != tensor::ElementType::kF32) part->master_.resize(all);
  for (std::uint32_t each = 0; each < info.update.states(); ++each) part->states_[each].resize(all);
  return part;
}

void Part::clear_seat(std::uint32_t rank) const {
  auto* seat = seats_.data() + rank * sizeof(Seat);
  word_at(seat, offsetof(Seat, held)).store(0);
  word_at(seat, offsetof(Seat, copying)).store(0);
}

std::uint64_t Part::elements(std::uint32_t block) const {
  return layout_.bytes_of(block) / tensor::size_of(type_);
}

std::byte* Part::plane_data(std::uint32_t block, std::uint32_t plane) const {
  return table_.data() + layout_.plane(plane) + block * layout_.block_bytes;
}

// Whether a lease covers a time at which the plane was what readers were shown.
bool Part::in_use(const Block& block, std::uint32_t plane) const {
  const bool newest = plane == block.plane;
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    const auto* seat = seats_.data() + rank * sizeof(Seat);
    for (const auto at : {offsetof(Seat, held), offsetof(Seat, copying)}) {
      const auto begin = load_word(seat, at, __ATOMIC_SEQ_CST);
      if (begin == 0) continue;
      const auto end = load_word(seat, at + offsetof(Seat::Lease, end), __ATOMIC_SEQ_CST);
      const bool after = Seat::bounds(end, begin) && block.born[plane] > Seat::epoch_of(end);
      const bool before = !newest && block.died[plane] <= Seat::epoch_of(begin);
      if (!before && !after) return true;
    }
  }
  return false;
}

// Takes the plane out of sight; leaves it as it was if somebody may be looking at it.
bool Part::take_plane(std::uint32_t block, std::uint32_t plane) {
  auto stamp = word_at(table_.data(), layout_.head(block) + offsetof(Head, stamps) + 8 * plane);
  const auto was = stamp.exchange(0);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (leaving_[block * kPlanes + plane].load() == 0 && !in_use(blocks_[block], plane)) return true;
  stamp.store(was);
  return false;
}

void Part::send_back(std::uint32_t block, fabric::Channel& channel, const fabric::RemoteAt& to) {
  const auto plane = blocks_[block].plane;
  auto* leaving = &leaving_[block * kPlanes + plane];
  leaving->fetch_add(1);
  auto at = to;
  at.offset += block * layout_.block_bytes;
  fabric::OpOptions options{.callback = [leaving](const Status&) { leaving->fetch_sub(1); },
                            .pace = fabric::Pace::kLateEnd};
  (void)channel.write(std::span(plane_data(block, plane), layout_.bytes_of(block)), at,
                      std::move(options));
}

void Part::drain() const {
  for (std::size_t each = 0; each < blocks_.size() * kPlanes; ++each)
    while (leaving_[each].load() != 0) std::this_thread::yield();
}

// The one that has been out of use for longest. There is one beside the newest and the one that may
// be leased; who only copies lets go soon, and who has died is taken off its seat. Not only by word
// of the scheduler: the thread that would hear it may be waiting for this one.
std::uint32_t Part::free_plane(std::uint32_t block) {
  auto& state = blocks_[block];
  for (auto look = Deadline::after(kLookForDead);;) {
    std::uint32_t order[kPlanes];
    for (std::uint32_t plane = 0; plane < kPlanes; ++plane) order[plane] = plane;
    std::sort(order, order + kPlanes,
              [&](auto a, auto b) { return state.died[a] < state.died[b]; });
    for (const auto plane : order)
      if (plane != state.plane && take_plane(block, plane)) return plane;
    std::this_thread::yield();
    if (!while_blocked_ || !look.expired()) continue;
    while_blocked_();
    look = Deadline::after(kLookForDead);
  }
}

void Part::publish(std::uint32_t block, std::uint32_t plane) {
  auto& state = blocks_[block];
  auto* table = table_.data();
  const auto head = layout_.head(block);
  const auto version = ++state.version;
  // Odd while it changes: who sees the new version and then the epoch sees that it has moved.
  word_at(table).store(++epoch_);
  if (plane != state.plane) state.died[state.plane] = epoch_;
  state.born[plane] = epoch_;
  state.plane = plane;
  word_at(table, head + offsetof(Head, stamps) + 8 * plane)
      .store(version, std::memory_order_release);
  word_at(table, head).store(Head::pack(version, plane), std::memory_order_release);
  word_at(table).store(++epoch_, std::memory_order_release);
}

void Part::widen(const std::byte* from, float* to, std::uint64_t count) const {
  const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
  if (type_ == tensor::ElementType::kF16) return math::f32_from_f16(bits, to, count);
  math::f32_from_bf16(bits, to, count);
}

void Part::narrow(const float* from, std::byte* to, std::uint64_t count) const {
  auto* bits = reinterpret_cast<std::uint16_t*>(to);
  if (type_ == tensor::ElementType::kF16) return math::f16_from_f32(from, bits, count);
  math::bf16_from_f32(from, bits, count);
}

// sum (+)= data
void Part::add_to(float* sum, bool first, const std::byte* data, std::uint64_t count) {
  const auto* values = reinterpret_cast<const float*>(data);
  if (type_ != tensor::ElementType::kF32) {
    scratch2_.resize(std::max<std::size_t>(scratch2_.size(), count));
    widen(data, first ? sum : scratch2_.data(), count);
    if (first) return;
    values = scratch2_.data();
  } else if (first) {
    std::memcpy(sum, data, count * sizeof(float));
    return;
  }
  const float* both[] = {sum, values};
  math::sum({both}, sum, count);
}

void Part::update_block(std::uint32_t block, const Update& update,
                        std::span<const float* const> parts, float scale) {
  auto& state = blocks_[block];
  if (update.kind == UpdateKind::kNone) return;
  const auto plane = free_plane(block);
  const auto begin = block * layout_.block_bytes / tensor::size_of(type_);
  auto* to = plane_data(block, plane);
  UpdateCall call{.gradient = {parts, scale}, .time = ++state.updates, .count = elements(block)};
  for (std::uint32_t each = 0; each < update.states(); ++each)
    call.state[each] = states_[each].data() + begin;
  if (type_ == tensor::ElementType::kF32) {
    call.weights = reinterpret_cast<const float*>(plane_data(block, state.plane));
    call.updated = reinterpret_cast<float*>(to);
    apply_update(update, function_, call);
  } else {
    call.weights = call.updated = master_.data() + begin;
    apply_update(update, function_, call);
    narrow(call.updated, to, call.count);
  }
  publish(block, plane);
}

void Part::apply(std::uint32_t block, std::span<const Source> sources, float scale) {
  const auto count = elements(block);
  if (type_ == tensor::ElementType::kF32) {
    std::vector<const float*> parts;
    for (const auto& source : sources) parts.push_back(reinterpret_cast<const float*>(source.data));
    return update_block(block, update_, parts, scale);
  }
  scratch_.resize(std::max<std::size_t>(scratch_.size(), count));
  for (std::size_t each = 0; each < sources.size(); ++each)
    add_to(scratch_.data(), each == 0, sources[each].data, count);
  const float* sum = scratch_.data();
  update_block(block, update_, {&sum, 1}, scale);
}

// First values: no update counts.
void Part::assign(std::uint32_t block, const std::byte* data) {
  const auto plane = free_plane(block);
  std::memcpy(plane_data(block, plane), data, layout_.bytes_of(block));
  if (!master_.empty())
    widen(data, master_.data() + block * layout_.block_bytes / tensor::size_of(type_),
          elements(block));
  publish(block, plane);
}

}  // namespace ferry::ps
