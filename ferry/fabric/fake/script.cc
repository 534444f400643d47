#include "ferry/fabric/fake/script_internal.h"

namespace ferry::fabric::fake {

Dice& Dice::instance() {
  static Dice dice;
  return dice;
}

void Dice::set(const Faults& faults) {
  LockGuard guard(lock_);
  faults_ = faults;
  state_ = faults.seed == 0 ? 1 : faults.seed;
  operations_ = 0;
  attachments_ = 0;
  before_ = {0,          failed.get(), lost.get(), duplicates_swallowed.get(), broken_lanes.get(),
             flags.get()};
}

FaultCounts Dice::counts() const {
  LockGuard guard(lock_);
  return {operations_,
          failed.get() - before_.failed,
          lost.get() - before_.lost,
          duplicates_swallowed.get() - before_.duplicates_swallowed,
          broken_lanes.get() - before_.broken_lanes,
          flags.get() - before_.flags};
}

void Dice::use_path(const Path& path) {
  LockGuard guard(lock_);
  path_ = path;
}

Path Dice::path() const {
  LockGuard guard(lock_);
  return path_;
}

Fate Dice::next_operation() {
  LockGuard guard(lock_);
  std::uint64_t number = ++operations_;
  auto every = [number](std::uint64_t n) { return n != 0 && number % n == 0; };
  Fate fate;
  fate.not_before = start_locked();
  if (faults_.fail_nth == number) fate.failure = faults_.fail_code;
  fate.lose_completion = every(faults_.lose_every);
  fate.duplicate_completion = every(faults_.duplicate_every);
  fate.break_lane = faults_.break_lane_at == number;
  fate.lose_peer = faults_.lose_peer_at == number;
  fate.piece_bytes = static_cast<std::uint32_t>(faults_.piece_bytes);
  fate.shuffle = faults_.shuffle;
  return fate;
}

std::int64_t Dice::next_start() {
  LockGuard guard(lock_);
  return start_locked();
}

std::int64_t Dice::start_locked() {
  if (faults_.max_delay.count() <= 0) return 0;
  auto span = static_cast<std::uint64_t>(faults_.max_delay.count());
  return now_ns() + static_cast<std::int64_t>(random_locked(span));
}

bool Dice::next_attachment_fails() {
  LockGuard guard(lock_);
  return ++attachments_ == faults_.fail_attach_at;
}

bool Dice::is_map_late() const {
  LockGuard guard(lock_);
  return faults_.late_maps;
}

std::uint64_t Dice::random(std::uint64_t bound) {
  LockGuard guard(lock_);
  return random_locked(bound);
}

// xorshift64*: small, and the same on every machine.
std::uint64_t Dice::random_locked(std::uint64_t bound) {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return (state_ * 0x2545F4914F6CDD1DULL >> 11) % bound;
}

void Script::set(const Faults& faults) { Dice::instance().set(faults); }

FaultCounts Script::counts() { return Dice::instance().counts(); }

void Script::use_path(const Path& path) { Dice::instance().use_path(path); }

}  // namespace ferry::fabric::fake
