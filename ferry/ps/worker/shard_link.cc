// Data path.
#include <cstring>

#include "ferry/ps/worker/shard_link_internal.h"

namespace ferry::ps {

ShardLink::ShardLink(std::uint32_t server, fabric::Channel& channel, const std::byte* words,
                     const JobOptions& job)
    : server_(server),
      removed_(false),
      keeps_slots_(job.consistency == Consistency::kSync),
      channel_(&channel),
      words_(words),
      block_bytes_(job.block_bytes),
      entries_(kRingEntries),
      used_(slots_each(job)) {
  for (auto slot = slots_each(job); slot > 0; --slot) free_slots_.push_back(slot - 1);
}

void ShardLink::attach(const ShardPlace& place, std::byte* pool) {
  ring_ = place.ring;
  pool_ = place.pool;
  first_slot_ = place.first_slot;
  pool_mapped_ = pool;
}

void ShardLink::take_back_slots(std::uint64_t landed) {
  const auto applied = clock();
  const auto told = load_word(words_, offsetof(Words, slots));
  for (; slots_back_ < slots_used_; ++slots_back_) {
    const auto& first = used_[slots_back_ % used_.size()];
    const bool free = first.at_once ? landed >= first.number : applied >= first.step;
    if (!free && slots_back_ >= told) return;
    free_slots_.push_back(first.slot);
  }
}

bool ShardLink::has_room(bool slot) {
  if (removed_) return true;
  const auto taken = landed();
  take_back_slots(taken);
  return posted_ - taken < kRingEntries && (!slot || !free_slots_.empty());
}

bool ShardLink::post(Entry entry) {
  if (!takes(entry)) return false;
  entry.number = ++posted_;
  const auto index = (entry.number - 1) % kRingEntries;
  auto& mine = entries_[index];
  mine = entry;
  const auto at = index * kLine;
  // The bytes stay until the shard has taken them; a failure is a server that is gone.
  (void)channel_->write_flagged(std::as_bytes(std::span(&mine, 1)).first(Entry::kBody), {ring_, at},
                                {ring_, at + Entry::kBody}, entry.number,
                                {.pace = fabric::Pace::kLateEnd});
  return true;
}

bool ShardLink::post_slot(Entry entry, std::span<const std::byte> payload) {
  if (!takes(entry)) return false;
  entry.slot = free_slots_.back();
  free_slots_.pop_back();
  entry.bytes = payload.size();
  const auto at = (std::uint64_t{first_slot_} + entry.slot) * block_bytes_;
  if (pool_mapped_ != nullptr)
    std::memcpy(pool_mapped_ + at, payload.data(), payload.size());
  else
    (void)channel_->write(payload, {pool_, at}, {.pace = fabric::Pace::kLateEnd});
  const bool at_once = !keeps_slots_ || entry.operation == Operation::kAssign;
  used_[slots_used_++ % used_.size()] = {posted_ + 1, entry.step, at_once, entry.slot};
  return post(entry);
}

}  // namespace ferry::ps
