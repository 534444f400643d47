#include <cstring>

#include "ferry/ps/server/worker_connection_internal.h"

namespace ferry::ps {

bool WorkerConnection::read_next(Entry& entry) const {
  if (!has_next()) return false;
  std::memcpy(&entry, next(), sizeof(entry));
  return true;
}

const std::byte* WorkerConnection::payload(const Entry& entry, const JobOptions& job) const {
  if (entry.slot != Entry::kInPlace) {
    if (entry.slot >= slots_each(job) || entry.bytes > job.block_bytes) return nullptr;
    return slots_ + entry.slot * job.block_bytes;
  }
  if (entry.count >= memories_.size()) return nullptr;
  const auto memory = memories_[entry.count];
  if (entry.offset > memory.size() || entry.bytes > memory.size() - entry.offset) return nullptr;
  const auto* data = memory.data() + entry.offset;
  return reinterpret_cast<std::uintptr_t>(data) % alignof(float) == 0 ? data : nullptr;
}

void WorkerConnection::set_landing(std::uint32_t part, const fabric::RemoteAt& at) {
  if (part >= landings_.size()) landings_.resize(part + 1);
  landings_[part].at = at;
}

void WorkerConnection::give_back_oldest() {
  held_.pop_front();
  ++given_back_;
}

void WorkerConnection::give_back_all() {
  given_back_ += held_.size();
  held_.clear();
  for (auto& landing : landings_) landing.wanted = false;
}

void WorkerConnection::greet(std::uint64_t view, std::uint64_t clock, std::uint32_t attempt) {
  if (view > 0) report_view(view);
  if (clock > 0) report_clock(clock);
  if (attempt > 0) write_word(offsetof(Words, redo), attempt);
}

void WorkerConnection::end_step(std::uint64_t clock) {
  give_back_all();
  told_slots_ = given_back_;  // the clock says so
  if (!is_frozen()) report_clock(clock);
}

void WorkerConnection::restart_step(std::uint32_t attempt) {
  give_back_all();
  if (!is_frozen()) write_word(offsetof(Words, redo), attempt);
}

void WorkerConnection::report_landed(bool lazy) {
  const auto owed = taken_ - told_landed_;
  if (owed == 0 || (lazy && !must_report_ && owed < kRingEntries / 4)) return;
  must_report_ = false;
  told_landed_ = taken_;
  write_word(offsetof(Words, landed), taken_);
}

void WorkerConnection::report_slots() {
  if (given_back_ == told_slots_) return;
  told_slots_ = given_back_;
  write_word(offsetof(Words, slots), given_back_);
}

void WorkerConnection::write_word(std::size_t word, std::uint64_t value) {
  auto at = words_;
  at.offset += word;
  (void)channel_->write_flagged({}, at, at, value, {.pace = fabric::Pace::kLateEnd});
}

}  // namespace ferry::ps
