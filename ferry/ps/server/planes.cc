#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "ferry/ps/server/planes_internal.h"

namespace ferry::ps {
namespace {

constexpr std::chrono::milliseconds kLookForDead{10};

}  // namespace

Result<Planes> Planes::make(fabric::Device& device, const PartLayout& layout,
                            std::uint32_t workers) {
  Planes planes;
  planes.layout_ = layout;
  planes.workers_ = workers;
  planes.table_ = FERRY_TRY(device.allocate(layout.total(), fabric::Rights::kRead));
  planes.seats_ = FERRY_TRY(device.allocate(workers * sizeof(Seat)));
  planes.blocks_.resize(layout.blocks());
  planes.leaving_ = std::make_unique<std::atomic<std::uint32_t>[]>(layout.blocks() * kPlanes);
  return planes;
}

void Planes::clear_seat(std::uint32_t rank) const {
  auto* seat = seats_.data() + rank * sizeof(Seat);
  word_at(seat, offsetof(Seat, held)).store(0);
  word_at(seat, offsetof(Seat, copying)).store(0);
}

bool Planes::has_values() const {
  return std::all_of(blocks_.begin(), blocks_.end(),
                     [](const Block& block) { return block.version > 0; });
}

bool Planes::is_leased(const Block& block, std::uint32_t plane) const {
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

bool Planes::try_take(std::uint32_t block, std::uint32_t plane) {
  auto stamp = word_at(table_.data(), layout_.head(block) + offsetof(Head, stamps) + 8 * plane);
  const auto was = stamp.exchange(0);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (leaving_[block * kPlanes + plane].load() == 0 && !is_leased(blocks_[block], plane))
    return true;
  stamp.store(was);
  return false;
}

// The one that has been out of use for longest. There is one beside the newest and the one that may
// be leased; a worker that only copies ends its lease soon, and the leases of the dead are cleared.
// Not only by word of the scheduler: the thread that would hear it may be waiting for this one.
std::uint32_t Planes::take_free(std::uint32_t block) {
  auto& state = blocks_[block];
  for (auto look = Deadline::after(kLookForDead);;) {
    std::uint32_t order[kPlanes];
    for (std::uint32_t plane = 0; plane < kPlanes; ++plane) order[plane] = plane;
    std::sort(order, order + kPlanes,
              [&](auto a, auto b) { return state.died[a] < state.died[b]; });
    for (const auto plane : order)
      if (plane != state.plane && try_take(block, plane)) return plane;
    std::this_thread::yield();
    if (!while_blocked_ || !look.expired()) continue;
    while_blocked_();
    look = Deadline::after(kLookForDead);
  }
}

std::uint32_t Planes::take_to_edit(std::uint32_t block) {
  const auto newest_plane = blocks_[block].plane;
  if (try_take(block, newest_plane)) return newest_plane;
  const auto plane = take_free(block);
  std::memcpy(data(block, plane), data(block, newest_plane), layout_.bytes_of(block));
  return plane;
}

void Planes::publish(std::uint32_t block, std::uint32_t plane) {
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

void Planes::send(std::uint32_t block, fabric::Channel& channel, const fabric::RemoteAt& to) {
  const auto plane = blocks_[block].plane;
  auto* leaving = &leaving_[block * kPlanes + plane];
  leaving->fetch_add(1);
  auto at = to;
  at.offset += block * layout_.block_bytes;
  fabric::OpOptions options{.callback = [leaving](const Status&) { leaving->fetch_sub(1); },
                            .pace = fabric::Pace::kLateEnd};
  (void)channel.write(std::span(data(block, plane), layout_.bytes_of(block)), at,
                      std::move(options));
}

void Planes::drain() const {
  for (std::size_t each = 0; each < blocks_.size() * kPlanes; ++each)
    while (leaving_[each].load() != 0) std::this_thread::yield();
}

}  // namespace ferry::ps
