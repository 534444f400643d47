#include <algorithm>
#include <utility>

#include "ferry/base/log.h"
#include "ferry/ps/server/shard_core_internal.h"

namespace ferry::ps {
namespace {

constexpr int kBurst = 64;  // entries of one worker before the next one is served

}  // namespace

ShardCore::ShardCore(const JobOptions& job, WorkerConnections workers, bool alone, bool newcomer)
    : job_(job),
      alone_(alone),
      workers_(std::move(workers)),
      clock_(job),
      intake_(job_, clock_, parts_, stats_),
      awaits_image_(newcomer) {}

bool ShardCore::serve_all() {
  bool any = false;
  workers_.for_each_unfrozen([&](WorkerConnection& worker) {
    if (serve(worker)) any = true;
  });
  if (any) advance();
  return any;
}

bool ShardCore::serve(WorkerConnection& worker) {
  bool any = false;
  Entry entry;
  for (int count = 0; count < kBurst && worker.read_next(entry); ++count) {
    worker.resume();
    if (!worker.is_next(entry)) {
      refuse(worker, entry, Breach::kNumber);
      break;
    }
    const auto outcome = intake_.take(worker, entry);
    if (outcome == Intake::Outcome::kWaits) {
      worker.wait_for_others();
      break;
    }
    if (outcome == Intake::Outcome::kBreach) {
      refuse(worker, entry, intake_.breach());
      break;
    }
    worker.count_taken();
    ++stats_.entries;
    any = true;
  }
  return any;
}

void ShardCore::refuse(WorkerConnection& worker, const Entry& entry, Breach breach) {
  logger().error("worker {} {} (operation {}, part {}); it is not heard any more", worker.rank(),
                 text_of(breach), static_cast<std::uint32_t>(entry.operation), entry.part);
  ++stats_.breaches;
  end_worker(worker, {AbortCause::Kind::kBreach, static_cast<std::uint32_t>(breach)});
}

// Frozen, so that nothing is written over the cause: an attempt goes into the same word.
void ShardCore::end_worker(WorkerConnection& worker, const AbortCause& cause) {
  worker.freeze();
  worker.abort(cause);
}

Result<ShardPlace> ShardCore::attach(std::uint32_t rank, std::shared_ptr<fabric::Channel> channel,
                                     const fabric::RemoteAt& words) {
  const auto place = FERRY_TRY(workers_.attach(rank, std::move(channel), words));
  if (cause_) {
    end_worker(*workers_.at(rank), *cause_);
    return place;
  }
  if (!awaits_image_) workers_.at(rank)->greet(view_, clock_.now(), clock_.attempt());
  if (!clock_.is_synchronous()) workers_.drop_former();
  return place;
}

void ShardCore::add_memory(std::uint32_t rank, std::span<const std::byte> memory) {
  if (auto* worker = workers_.at(rank)) worker->add_memory(memory);
}

void ShardCore::add_landing(std::uint32_t rank, std::uint32_t part, const fabric::RemoteAt& at) {
  if (auto* worker = workers_.at(rank)) worker->set_landing(part, at);
}

std::uint32_t ShardCore::add_part(std::unique_ptr<Part> part) {
  part->while_blocked([this] { end_leases_of_dead(); });
  return parts_.add(std::move(part));
}

void ShardCore::end_leases_of_dead() const {
  workers_.for_each([&](const WorkerConnection& worker) {
    if (worker.is_alive()) return;
    parts_.for_each([&](const Part& part) { part.clear_seat(worker.rank()); });
  });
}

void ShardCore::advance() {
  workers_.for_each([&](WorkerConnection& worker) {
    worker.resume();
    fold_held(worker);
  });
  if (clock_.is_synchronous())
    while (clock_.is_step_complete()) apply_step();
  else if (clock_.move_to_slowest())
    workers_.for_each_unfrozen([&](auto& worker) { worker.report_clock(clock_.now()); });
  // Where a step is applied as a whole, word of entries matters to workers with several shards
  // only, and to those who run out of ring.
  workers_.for_each_unfrozen([&](WorkerConnection& worker) {
    worker.report_landed(clock_.is_synchronous() && alone_);
    if (clock_.is_synchronous()) worker.report_slots();
  });
}

// Slots go back in order. What was used up goes at once; of those whose payload waits for the end
// of the step, so many stay that the worker still has half of its own.
void ShardCore::fold_held(WorkerConnection& worker) {
  const auto& held = worker.held_slots();
  const auto share = slots_each(job_);
  for (; !held.empty(); worker.give_back_oldest()) {
    const auto& oldest = held.front();
    if (oldest.block == HeldSlot::kConsumed) continue;
    if (held.size() <= share / 2 || !can_fold(oldest, worker.rank())) return;
    parts_.find(oldest.part)->contributions().fold(oldest.block, worker.rank());
  }
}

bool ShardCore::can_fold(const HeldSlot& slot, std::uint32_t rank) const {
  const auto& contributions = parts_.find(slot.part)->contributions();
  for (std::uint32_t lower = 0; lower < rank; ++lower)
    if (clock_.waits_for(lower) && !contributions.has(slot.block, lower)) return false;
  return true;
}

void ShardCore::apply_step() {
  const float scale = job_.mean ? 1.0F / static_cast<float>(clock_.count_members()) : 1.0F;
  for (std::uint32_t number = 0; number < parts_.size(); ++number)
    if (auto* part = parts_.find(number))
      part->apply_step(scale, [&](std::uint32_t block) { send_back(number, block); });
  workers_.drop_former();
  const bool restarts = clock_.tick();
  ++stats_.steps;
  workers_.for_each([&](WorkerConnection& worker) { worker.end_step(clock_.now()); });
  if (restarts) forget_step();
  if (clock_.now() == copy_after_) take_image();
}

void ShardCore::send_back(std::uint32_t part, std::uint32_t block) {
  workers_.for_each_unfrozen([&](WorkerConnection& worker) {
    if (worker.wants_back(part))
      parts_.find(part)->send_back(block, worker.channel(), *worker.landing(part));
  });
}

ShardCore::Frozen ShardCore::freeze(std::uint32_t rank) {
  if (auto* worker = workers_.at(rank)) worker->freeze();
  Frozen frozen{.ended = clock_.last_ended(rank)};
  if (parts_.any_of([&](const Part& part) { return part.contributions().has_folded(rank); }))
    frozen.folded = clock_.now() + 1;
  return frozen;
}

void ShardCore::commit_departure(std::uint32_t rank, std::uint64_t through,
                                 const Restart& restart) {
  if (awaits_image_) return departures_.push_back({rank, through, restart});
  if (clock_.depart(rank, through) && clock_.is_synchronous())
    parts_.for_each([&](Part& part) { part.contributions().drop(rank); });
  restart_step(restart);
  advance();
}

void ShardCore::admit(std::uint32_t rank, std::uint64_t since, std::uint32_t attempt) {
  clock_.admit(rank, since);
  restart_step({attempt, since + 1});
  release();
}

void ShardCore::release() {
  clock_.release();
  advance();
}

void ShardCore::restart_step(const Restart& restart) {
  if (clock_.restart(restart)) forget_step();
}

void ShardCore::forget_step() {
  parts_.for_each([](Part& part) { part.contributions().clear(); });
  workers_.drop_former();
  workers_.for_each([&](WorkerConnection& worker) { worker.restart_step(clock_.attempt()); });
}

bool ShardCore::is_step_begun() const {
  return parts_.any_of([](const Part& part) { return !part.contributions().empty(); });
}

void ShardCore::apply_view(std::uint64_t view) {
  view_ = view;
  if (awaits_image_) return;
  workers_.for_each_unfrozen([&](WorkerConnection& worker) { worker.report_view(view_); });
}

void ShardCore::abort(const AbortCause& cause) {
  cause_ = cause;
  workers_.for_each_unfrozen([&](WorkerConnection& worker) { end_worker(worker, cause); });
}

void ShardCore::copy_after(std::uint64_t step) {
  if (step == copy_after_) return;
  copy_after_ = step;
  image_.reset();
}

void ShardCore::take_image() {
  auto image = std::make_shared<ShardImage>();
  image->step = clock_.state();
  parts_.for_each([&](const Part& part) {
    if (part.has_values()) image->parts.push_back({part.tensor(), part.image()});
  });
  image_ = std::move(image);
}

void ShardCore::install(ShardImage& image) {
  clock_.set_state(image.step);
  for (auto& each : image.parts)
    if (auto* part = parts_.of_tensor(each.tensor)) part->restore(std::move(each.image));
  parts_.for_each([&](Part& part) {
    if (part.has_values()) part.set_copied_after(clock_.now());
  });
  awaits_image_ = false;
  workers_.for_each_unfrozen(
      [&](WorkerConnection& worker) { worker.greet(view_, clock_.now(), clock_.attempt()); });
  for (const auto& departure : std::exchange(departures_, {}))
    commit_departure(departure.rank, departure.through, departure.restart);
  advance();
}

}  // namespace ferry::ps
