#include <algorithm>
#include <chrono>
#include <cstring>

#include "ferry/base/log.h"
#include "ferry/ps/server/shard_internal.h"

namespace ferry::ps {
namespace {

constexpr int kBurst = 64;  // entries of one worker before the next one's turn
constexpr std::chrono::milliseconds kNap{100};

}  // namespace

Result<std::unique_ptr<Shard>> Shard::open(fabric::Device& device, const JobOptions& job,
                                           bool alone, bool waiting) {
  std::unique_ptr<Shard> shard(new Shard(device, job, alone, waiting));
  shard->pool_ = FERRY_TRY(device.allocate(job.pool_blocks * job.block_bytes));
  shard->links_.resize(job.workers);
  shard->members_.resize(job.workers);
  for (std::uint32_t rank = 0; rank < job.workers; ++rank)
    if (!starts(job, rank)) shard->members_[rank].since = kForEver;
  shard->thread_ = std::thread([raw = shard.get()] { raw->work(); });
  return shard;
}

Shard::~Shard() { stop(); }

void Shard::stop() {
  stop_ = true;
  device_.wake_waiters();
  if (thread_.joinable()) thread_.join();
}

void Shard::run(const std::function<void()>& command) {
  LockGuard<Mutex> guard(lock_);
  commands_.push_back(&command);
  const auto mine = ++commands_given_;
  commanded_ = true;
  device_.wake_waiters();
  while (commands_run_ < mine) ran_.wait(lock_);
}

void Shard::run_commands() {
  LockGuard<Mutex> guard(lock_);
  for (; !commands_.empty(); commands_.pop_front(), ++commands_run_) (*commands_.front())();
  commanded_ = false;
  ran_.notify_all();
}

void Shard::work() {
  while (!stop_) {
    if (commanded_) run_commands();
    if (!retired_ && turn()) continue;
    (void)device_.wait_until([this] { return stirs(); }, Deadline::after(kNap));
  }
}

bool Shard::stirs() const {
  if (commanded_ || stop_) return true;
  if (retired_) return false;
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) {
    if (link == nullptr || link->frozen || link->waits) return false;
    const auto* at = link->ring.data() + link->taken % kRingEntries * kLine;
    return fabric::flag_reached(at + Entry::kBody, link->taken + 1);
  });
}

bool Shard::turn() {
  bool any = false;
  for (auto& link : links_)
    if (link != nullptr && !link->frozen && serve(*link)) any = true;
  if (any) go_on();
  return any;
}

bool Shard::serve(Link& link) {
  bool any = false;
  for (int count = 0; count < kBurst; ++count) {
    const auto* at = link.ring.data() + link.taken % kRingEntries * kLine;
    if (!fabric::flag_reached(at + Entry::kBody, link.taken + 1)) break;
    Entry entry;
    std::memcpy(&entry, at, sizeof(entry));
    const auto outcome = entry.number == link.taken + 1 ? take(link, entry) : Outcome::kBreach;
    link.waits = outcome == Outcome::kLater;
    if (link.waits) break;
    if (outcome == Outcome::kBreach) {
      logger().error(
          "worker {} asked for what cannot be (operation {}, part {}); not heard any more",
          link.rank, static_cast<std::uint32_t>(entry.operation), entry.part);
      ++stats_.breaches;
      link.frozen = true;
      tell_word(link, offsetof(Words, redo), Words::kAborted);
      break;
    }
    ++link.taken;
    ++stats_.entries;
    any = true;
  }
  return any;
}

Shard::Outcome Shard::take(Link& link, const Entry& entry) {
  if (entry.operation == Operation::kEnd) return take_end(link, entry);
  const bool in_slot = entry.slot != Entry::kInPlace;
  if (sync() && entry.operation != Operation::kAssign) {
    if (entry.step > clock_ + 1) return Outcome::kLater;
    if (entry.step <= clock_) return Outcome::kBreach;
    if (entry.attempt != attempt_) {
      if (in_slot) used_slot(link, {});
      return Outcome::kTaken;
    }
  }
  const auto outcome = take_payload(link, entry);
  if (outcome != Outcome::kTaken) return outcome;
  stats_.bytes += entry.bytes;
  if (entry.operation == Operation::kAssign) link.asks = true;
  if (!in_slot) ++stats_.in_place;
  return outcome;
}

Shard::Outcome Shard::take_end(const Link& link, const Entry& entry) {
  auto& ended = members_[link.rank].ended;
  if (sync()) {
    if (entry.step > clock_ + 1) return Outcome::kLater;
    if (entry.attempt != attempt_) return Outcome::kTaken;
  }
  if (entry.step != ended + 1) return Outcome::kBreach;
  ended = entry.step;
  return Outcome::kTaken;
}

// Where the payload is, or null if it cannot be there.
const std::byte* Shard::payload(const Link& link, const Entry& entry) const {
  const auto share = slots_each(job_);
  if (entry.slot != Entry::kInPlace) {
    if (entry.slot >= share || entry.bytes > job_.block_bytes) return nullptr;
    return link.slots_at + entry.slot * job_.block_bytes;
  }
  if (entry.count >= link.memories.size()) return nullptr;
  const auto memory = link.memories[entry.count];
  if (entry.offset > memory.size() || entry.bytes > memory.size() - entry.offset) return nullptr;
  const auto* data = memory.data() + entry.offset;
  return reinterpret_cast<std::uintptr_t>(data) % alignof(float) == 0 ? data : nullptr;
}

Shard::Outcome Shard::take_payload(Link& link, const Entry& entry) {
  if (entry.part >= parts_.size() || parts_[entry.part] == nullptr) return Outcome::kBreach;
  if (entry.operation == Operation::kRows) return take_rows(link, entry);
  if (entry.operation != Operation::kPush && entry.operation != Operation::kAssign)
    return Outcome::kBreach;
  return take_push(link, entry);
}

Shard::Outcome Shard::take_push(Link& link, const Entry& entry) {
  auto& part = *parts_[entry.part];
  const auto& layout = part.layout();
  const auto* data = payload(link, entry);
  if (data == nullptr || entry.blocks == 0 || entry.first >= layout.blocks() ||
      entry.blocks > layout.blocks() - entry.first)
    return Outcome::kBreach;
  const auto last = entry.first + entry.blocks - 1;
  if (entry.bytes != (last - entry.first) * layout.block_bytes + layout.bytes_of(last))
    return Outcome::kBreach;
  const bool in_slot = entry.slot != Entry::kInPlace;
  if (entry.operation == Operation::kAssign && part.came_after() >= entry.step) {
    if (in_slot) used_slot(link, {});
    return Outcome::kTaken;
  }
  const bool waits = sync() && entry.operation == Operation::kPush;
  for (std::uint32_t block = entry.first; block <= last; ++block) {
    const Source source{link.rank, data + (block - entry.first) * layout.block_bytes};
    if (entry.operation == Operation::kAssign)
      part.assign(block, source.data);
    else if (!waits)
      part.apply(block, {&source, 1}, 1);
    else if (part.contributed(block, link.rank))
      return Outcome::kBreach;
    else
      part.pend(block, source);
  }
  if (in_slot) used_slot(link, waits ? Kept{entry.part, entry.first} : Kept{});
  const auto landing = link.landings.find(entry.part);
  if (!in_slot || entry.offset == 0 || landing == link.landings.end()) return Outcome::kTaken;
  if (waits)
    link.wants.insert(entry.part);
  else
    part.send_back(entry.first, *link.channel, landing->second);
  return Outcome::kTaken;
}

Shard::Outcome Shard::take_rows(Link& link, const Entry& entry) {
  auto& part = *parts_[entry.part];
  const auto row_bytes = part.row_bytes();
  const auto* data = payload(link, entry);
  if (data == nullptr || entry.slot == Entry::kInPlace || entry.count > job_.block_bytes ||
      entry.bytes != entry.count * (sizeof(std::uint64_t) + row_bytes))
    return Outcome::kBreach;
  if (sync() && !lower_ranks_ended(link.rank)) return Outcome::kLater;
  // Read once: the worker could still write them.
  std::vector<std::uint64_t> keys(entry.count);
  std::memcpy(keys.data(), data, entry.count * sizeof(std::uint64_t));
  const auto rows = part.layout().bytes / row_bytes;
  if (std::any_of(keys.begin(), keys.end(), [&](auto key) { return key >= rows; }))
    return Outcome::kBreach;
  const RowSource source{keys, data + entry.count * sizeof(std::uint64_t)};
  if (sync())
    part.fold_rows(source, link.rank);
  else
    part.apply_rows(source);
  used_slot(link, {});
  return Outcome::kTaken;
}

void Shard::used_slot(Link& link, const Kept& kept) { link.kept.push_back(kept); }

}  // namespace ferry::ps
