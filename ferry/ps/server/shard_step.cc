#include <algorithm>

#include "ferry/base/log.h"
#include "ferry/ps/server/shard_internal.h"

// Steps, members, and what workers are told.

namespace ferry::ps {

Result<ShardPlace> Shard::attach(std::uint32_t rank, std::shared_ptr<fabric::Channel> channel,
                                 const fabric::RemoteAt& words) {
  // One that has sent nothing yet may try again.
  if (links_[rank] != nullptr && !links_[rank]->frozen && links_[rank]->taken > 0)
    return fail(Code::kAlreadyExists, "worker {} has attached already", rank);
  auto link = std::make_unique<Link>();
  link->rank = rank;
  link->channel = std::move(channel);
  link->words = words;
  link->ring = FERRY_TRY(device_.allocate(kRingEntries * kLine));
  ShardPlace place;
  place.ring = FERRY_TRY(device_.grant(link->ring, fabric::Rights::kReadWrite, *link->channel));
  FERRY_TRY(give_slots(*link, place));
  if (!waiting_) greet(*link);
  if (links_[rank] != nullptr) former_.push_back(std::move(links_[rank]));
  if (!sync()) forget_former();
  links_[rank] = std::move(link);
  return place;
}

void Shard::greet(Link& link) const {
  if (view_ > 0) tell_word(link, offsetof(Words, view), view_);
  if (clock_ > 0) tell_word(link, offsetof(Words, clock), clock_);
  if (attempt_ > 0) tell_word(link, offsetof(Words, redo), attempt_);
}

// One that comes back gets slots of its own: whoever had this rank before may still write to those
// of the pool, if it was only believed to be dead.
Status Shard::give_slots(Link& link, ShardPlace& place) {
  const auto share = slots_each(job_);
  if (links_[link.rank] != nullptr)
    link.own_slots = FERRY_TRY(device_.allocate(share * job_.block_bytes));
  const auto& pool = link.own_slots ? link.own_slots : pool_;
  place.pool = FERRY_TRY(device_.grant(pool, fabric::Rights::kReadWrite, *link.channel));
  place.first_slot = link.own_slots ? 0 : link.rank * share;
  link.slots_at = pool.data() + place.first_slot * job_.block_bytes;
  return {};
}

void Shard::add_memory(std::uint32_t rank, std::span<const std::byte> memory) {
  if (links_[rank] != nullptr) links_[rank]->memories.push_back(memory);
}

void Shard::add_landing(std::uint32_t rank, std::uint32_t part, const fabric::RemoteAt& at) {
  if (links_[rank] != nullptr) links_[rank]->landings.insert_or_assign(part, at);
}

void Shard::remove(std::uint32_t part) {
  parts_[part]->drain();
  parts_[part].reset();
}

// Nothing of what they have pushed is pending any more. Until now it lay in memory of theirs,
// mapped by their channels.
void Shard::forget_former() {
  for (auto& link : former_) link->channel.reset();
}

// A worker that is only believed to be dead learns it when it lets go of what it has read.
void Shard::clear_dead_seats() const {
  for (const auto& link : links_) {
    if (link == nullptr || link->channel->alive()) continue;
    for (const auto& part : parts_)
      if (part != nullptr) part->clear_seat(link->rank);
  }
}

std::uint32_t Shard::add(std::unique_ptr<Part> part) {
  part->while_blocked([this] { clear_dead_seats(); });
  parts_.push_back(std::move(part));
  return static_cast<std::uint32_t>(parts_.size() - 1);
}

bool Shard::lower_ranks_ended(std::uint32_t rank) const {
  for (std::uint32_t lower = 0; lower < rank; ++lower)
    if (counts(lower) && members_[lower].ended <= clock_) return false;
  return true;
}

bool Shard::can_fold(const Kept& kept, std::uint32_t rank) const {
  for (std::uint32_t lower = 0; lower < rank; ++lower)
    if (counts(lower) && members_[lower].ended <= clock_ &&
        !parts_[kept.part]->contributed(kept.block, lower))
      return false;
  return true;
}

// Slots go back in order. What was used up goes at once; of those whose payload waits for the end
// of the step, so many stay that the worker still has half of its own.
void Shard::fold_some(Link& link) {
  auto& kept = link.kept;
  const auto share = slots_each(job_);
  while (!kept.empty()) {
    const auto& first = kept.front();
    if (first.block != kConsumed) {
      if (kept.size() <= share / 2 || !can_fold(first, link.rank)) return;
      parts_[first.part]->fold(first.block, link.rank);
    }
    kept.pop_front();
    ++link.slots;
  }
}

bool Shard::step_ended() const {
  bool some = false;
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (!counts(rank)) continue;
    if (members_[rank].ended <= clock_) return false;
    some = true;
  }
  return some;
}

void Shard::apply_step() {
  const auto members = std::count_if(members_.begin(), members_.end(),
                                     [&](const auto& each) { return counts(each); });
  const float scale = job_.mean ? 1.0F / static_cast<float>(members) : 1.0F;
  for (std::uint32_t part = 0; part < parts_.size(); ++part)
    if (parts_[part] != nullptr)
      parts_[part]->apply_pending(scale, [&](std::uint32_t block) { send_back(part, block); });
  forget_former();
  ++clock_;
  ++stats_.steps;
  for (auto& link : links_) {
    if (link == nullptr) continue;
    link->slots += link->kept.size();
    link->kept.clear();
    link->wants.clear();
    link->told_slots = link->slots;  // the clock says so
    if (!link->frozen) tell_word(*link, offsetof(Words, clock), clock_);
  }
  if (later_.attempt != 0) begin_anew(later_);
  if (clock_ == cut_) take_image();
}

void Shard::send_back(std::uint32_t part, std::uint32_t block) {
  for (auto& link : links_)
    if (link != nullptr && !link->frozen && link->wants.contains(part))
      parts_[part]->send_back(block, *link->channel, link->landings.at(part));
}

// Without steps in common: the smallest step that all who are there have ended.
void Shard::move_clock() {
  auto least = kForEver;
  for (const auto& member : members_)
    if (member.since != kForEver && member.through == kForEver)
      least = std::min(least, member.ended);
  if (least == kForEver || least <= clock_) return;
  clock_ = least;
  for (auto& link : links_)
    if (link != nullptr && !link->frozen) tell_word(*link, offsetof(Words, clock), clock_);
}

void Shard::tell_word(Link& link, std::size_t word, std::uint64_t value) const {
  auto at = link.words;
  at.offset += word;
  // A failure is a worker that is gone, which the scheduler sees.
  (void)link.channel->write_flagged({}, at, at, value, {.pace = fabric::Pace::kLateEnd});
}

// Where a step is applied as a whole, `landed` matters to workers with several shards only, and to
// those who run out of ring.
void Shard::tell(Link& link) {
  const auto news = link.taken - link.told_landed;
  if (news > 0 && (!sync() || !alone_ || link.asks || news >= kRingEntries / 4)) {
    link.asks = false;
    link.told_landed = link.taken;
    tell_word(link, offsetof(Words, landed), link.taken);
  }
  if (sync() && link.slots != link.told_slots) {
    link.told_slots = link.slots;
    tell_word(link, offsetof(Words, slots), link.slots);
  }
}

Shard::Frozen Shard::freeze(std::uint32_t rank) {
  auto& link = links_[rank];
  if (link != nullptr) link->frozen = true;
  Frozen frozen{.ended = members_[rank].ended};
  if (std::any_of(parts_.begin(), parts_.end(),
                  [&](const auto& part) { return part != nullptr && part->folded(rank); }))
    frozen.folded = clock_ + 1;
  return frozen;
}

void Shard::settle(std::uint32_t rank, std::uint64_t through, const Anew& anew) {
  if (waiting_) return verdicts_.push_back({rank, through, anew});
  auto& member = members_[rank];
  member.through = through;
  if (through > clock_) member.ended = std::max(member.ended, through);
  if (sync() && through <= clock_)
    for (auto& part : parts_)
      if (part != nullptr) part->drop(rank);
  begin_anew(anew);
  go_on();
}

std::uint64_t Shard::last_of(std::uint32_t rank) const {
  const auto& member = members_[rank];
  const bool there_was = member.since != kForEver && member.through != kForEver;
  return there_was ? std::max(member.through, member.former) : 0;
}

void Shard::admit(std::uint32_t rank, std::uint64_t since, std::uint32_t attempt) {
  members_[rank] = {.ended = since, .since = since, .former = last_of(rank)};
  begin_anew({attempt, since + 1});
  release();
}

void Shard::release() {
  held_ = false;
  go_on();
}

// Sees to what may have become possible, and tells workers.
void Shard::go_on() {
  for (auto& link : links_) {
    if (link == nullptr) continue;
    link->waits = false;
    fold_some(*link);
  }
  if (sync())
    while (!held_ && step_ended()) apply_step();
  else
    move_clock();
  for (auto& link : links_)
    if (link != nullptr && !link->frozen) tell(*link);
}

// A step that is not open yet is begun anew when it is: entries with the former number may come
// until then. Workers are told of it after the clock, and so know which step it is.
void Shard::begin_anew(Anew anew) {
  // A scheduler that was started again may say it twice.
  if (anew.attempt <= attempt_) return;
  const bool open = anew.step <= clock_ + 1;
  // An older one, said again, does not take the place of a newer one.
  if (anew.attempt >= later_.attempt) later_ = open ? Anew() : anew;
  if (!open) return;
  attempt_ = anew.attempt;
  for (auto& part : parts_)
    if (part != nullptr) part->forget();
  forget_former();
  for (auto& member : members_) {
    member.ended = std::min(member.ended, clock_);
    if (member.since != kForEver) member.ended = std::max(member.ended, member.since);
    // Those who ended the step and then died cannot push it again.
    if (member.through != kForEver) member.through = std::min(member.through, clock_);
    member.former = std::min(member.former, clock_);
  }
  for (auto& link : links_) {
    if (link == nullptr) continue;
    link->slots += link->kept.size();
    link->kept.clear();
    link->wants.clear();
    if (!link->frozen) tell_word(*link, offsetof(Words, redo), attempt_);
  }
}

bool Shard::at_rest() const {
  return std::none_of(parts_.begin(), parts_.end(),
                      [](const auto& part) { return part != nullptr && part->pending(); });
}

void Shard::move_on(std::uint64_t view) {
  view_ = view;
  for (auto& link : links_)
    if (!waiting_ && link != nullptr && !link->frozen)
      tell_word(*link, offsetof(Words, view), view_);
}

void Shard::abort() {
  for (auto& link : links_)
    if (link != nullptr && !link->frozen) tell_word(*link, offsetof(Words, redo), Words::kAborted);
}

}  // namespace ferry::ps
