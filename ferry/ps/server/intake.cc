#include <algorithm>
#include <cstring>

#include "ferry/ps/server/intake_internal.h"

namespace ferry::ps {
namespace {

bool is_in_slot(const Entry& entry) { return entry.slot != Entry::kInPlace; }

// Whether the entry's blocks are there, and its bytes are theirs.
bool fits(const PartLayout& layout, const Entry& entry) {
  if (entry.blocks == 0 || entry.first >= layout.blocks() ||
      entry.blocks > layout.blocks() - entry.first)
    return false;
  const auto last = entry.first + entry.blocks - 1;
  return entry.bytes == (last - entry.first) * layout.block_bytes + layout.bytes_of(last);
}

}  // namespace

Intake::Outcome Intake::take(WorkerConnection& from, const Entry& entry) {
  if (entry.operation == Operation::kEnd) return take_end(from, entry);
  if (entry.operation != Operation::kAssign) {
    switch (clock_.judge_gradient(entry.step, entry.attempt)) {
      case StepClock::Decision::kWait:
        return Outcome::kWaits;
      case StepClock::Decision::kBreach:
        return refuse(Breach::kStep);
      case StepClock::Decision::kIgnore:
        if (is_in_slot(entry)) from.hold_slot({});
        return Outcome::kTaken;
      case StepClock::Decision::kTake:
        break;
    }
  }
  const auto outcome = take_payload(from, entry);
  if (outcome != Outcome::kTaken) return outcome;
  stats_.bytes += entry.bytes;
  if (entry.operation == Operation::kAssign) from.ask_for_report();
  if (!is_in_slot(entry)) ++stats_.in_place;
  return outcome;
}

Intake::Outcome Intake::take_end(const WorkerConnection& from, const Entry& entry) {
  switch (clock_.end_step(from.rank(), entry.step, entry.attempt)) {
    case StepClock::Decision::kWait:
      return Outcome::kWaits;
    case StepClock::Decision::kBreach:
      return refuse(Breach::kEnd);
    default:
      return Outcome::kTaken;
  }
}

Intake::Outcome Intake::take_payload(WorkerConnection& from, const Entry& entry) {
  auto* part = parts_.find(entry.part);
  if (part == nullptr) return refuse(Breach::kPart);
  switch (entry.operation) {
    case Operation::kRows:
      return take_rows(from, *part, entry);
    case Operation::kPush:
    case Operation::kAssign:
      return take_blocks(from, *part, entry);
    default:
      return refuse(Breach::kOperation);
  }
}

Intake::Outcome Intake::take_blocks(WorkerConnection& from, Part& part, const Entry& entry) {
  const auto& layout = part.layout();
  const auto* data = from.payload(entry, job_);
  if (data == nullptr) return refuse(Breach::kPayload);
  if (!fits(layout, entry)) return refuse(Breach::kBlocks);
  const bool assigns = entry.operation == Operation::kAssign;
  if (assigns && part.copied_after() >= entry.step) {
    if (is_in_slot(entry)) from.hold_slot({});
    return Outcome::kTaken;
  }
  const bool pending = clock_.is_synchronous() && !assigns;
  for (std::uint32_t each = 0; each < entry.blocks; ++each) {
    const auto block = entry.first + each;
    const Source source{from.rank(), data + each * layout.block_bytes};
    if (assigns)
      part.assign(block, source.data);
    else if (!pending)
      part.apply(block, {&source, 1}, 1);
    else if (part.contributions().has(block, from.rank()))
      return refuse(Breach::kTwice);
    else
      part.contributions().add(block, source);
  }
  if (is_in_slot(entry)) {
    from.hold_slot(pending ? HeldSlot{entry.part, entry.first} : HeldSlot{});
    answer_push(from, part, entry, pending);
  }
  return Outcome::kTaken;
}

void Intake::answer_push(WorkerConnection& from, Part& part, const Entry& entry, bool pending) {
  const auto* landing = from.landing(entry.part);
  if (entry.offset == 0 || landing == nullptr) return;
  if (pending)
    from.want_back(entry.part);
  else
    part.send_back(entry.first, from.channel(), *landing);
}

Intake::Outcome Intake::take_rows(WorkerConnection& from, Part& part, const Entry& entry) {
  const auto row_bytes = part.row_bytes();
  const auto* data = from.payload(entry, job_);
  if (data == nullptr || !is_in_slot(entry)) return refuse(Breach::kPayload);
  if (entry.count > job_.block_bytes ||
      entry.bytes != entry.count * (sizeof(std::uint64_t) + row_bytes))
    return refuse(Breach::kRows);
  if (clock_.is_synchronous() && clock_.waits_for_lower(from.rank())) return Outcome::kWaits;
  // Read once: the worker could still write them.
  keys_.resize(entry.count);
  std::memcpy(keys_.data(), data, entry.count * sizeof(std::uint64_t));
  const auto rows = part.layout().bytes / row_bytes;
  if (std::any_of(keys_.begin(), keys_.end(), [&](auto key) { return key >= rows; }))
    return refuse(Breach::kRows);
  const RowSource source{keys_, data + entry.count * sizeof(std::uint64_t)};
  if (clock_.is_synchronous())
    part.contributions().fold_rows(source, from.rank());
  else
    part.apply_rows(source);
  from.hold_slot({});
  return Outcome::kTaken;
}

}  // namespace ferry::ps
