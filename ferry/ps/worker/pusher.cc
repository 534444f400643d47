#include <algorithm>
#include <cstring>

#include "ferry/ps/worker/pusher_internal.h"

// What a worker pushes, and how a step is restarted: see the design note.

namespace ferry::ps {
namespace {

// Whether all exponents leave room: a value of only ones there is infinite or not a number.
template <class Bits>
bool all_finite(std::span<const std::byte> bytes, Bits exponent) {
  const auto* values = reinterpret_cast<const Bits*>(bytes.data());
  const auto count = bytes.size() / sizeof(Bits);
  Bits bad = 0;
  for (std::size_t each = 0; each < count; ++each)
    bad |= static_cast<Bits>((values[each] & exponent) == exponent ? 1 : 0);
  return bad == 0;
}

bool finite(tensor::ElementType type, std::span<const std::byte> bytes) {
  switch (type) {
    case tensor::ElementType::kF16:
      return all_finite<std::uint16_t>(bytes, 0x7c00);
    case tensor::ElementType::kBf16:
      return all_finite<std::uint16_t>(bytes, 0x7f80);
    default:
      return all_finite<std::uint32_t>(bytes, 0x7f800000);
  }
}

}  // namespace

Status Pusher::check_gradient(const TensorLink& tensor, std::span<const std::byte> gradient) {
  const auto policy = context_.options.not_finite;
  if (policy == NotFinite::kIgnore || finite(tensor.info.spec.type, gradient)) return {};
  ++context_.stats.not_finite;
  if (policy == NotFinite::kCount) return {};
  return fail(Code::kInvalidArgument,
              "the gradient of '{}' has values that are not finite; nothing was sent",
              tensor.info.name);
}

Status Pusher::catch_up(Deadline deadline) {
  while (log_.due() != StepAction::kNone) {
    FERRY_TRY(waiter_.notice_changes(Newcomers::kLater, deadline));
    switch (log_.due()) {
      case StepAction::kNone:
        break;
      case StepAction::kRestart:
        FERRY_TRY(restart_step(deadline));
        break;
      case StepAction::kPostEnd:
        FERRY_TRY(post_owed_end(deadline));
        break;
      case StepAction::kRefuse:
        return fail(
            Code::kFailedPrecondition,
            "worker {} ran out of time when it had pushed a part of step {}, which can be neither "
            "ended nor pushed again: leave() the job, and open a worker anew",
            context_.rank, log_.posting());
    }
  }
  return {};
}

Status Pusher::restart_step(Deadline deadline) {
  const auto attempt = log_.announced();
  InlineFunction<bool()> all = [this, attempt] {
    return members_.everywhere_in(members_.reference_shard().clock() + 1,
                                  [&](const ShardLink& link) { return link.attempt() >= attempt; });
  };
  FERRY_TRY(waiter_.wait_in_restart(all, deadline, "all servers to restart the step"));
  // It may be a step that this worker has not begun: then there are no records.
  log_.restart(attempt, members_.reference_shard().clock() + 1);
  ++context_.stats.begun_anew;
  merger_.restart_step(log_.posting());
  for (const auto& push : log_.records(log_.posting())) {
    const auto outcome = poster_.post_record(push, log_.posting(), deadline);
    if (!outcome) {
      log_.fail();
      return tl::unexpected<Error>(outcome.error());
    }
    if (*outcome == WaitOutcome::kRestart) return {};  // under a later attempt, from its first push
  }
  log_.posted();
  return {};
}

Status Pusher::post_owed_end(Deadline deadline) {
  const auto step = log_.posting();
  if (FERRY_TRY(poster_.prepare_end(step, deadline)) == WaitOutcome::kRestart) return {};
  merger_.before_end(step, deadline);
  poster_.post_end(step);
  log_.end();
  return {};
}

Status Pusher::catch_up_if_restarted(const Result<WaitOutcome>& outcome, Deadline deadline) {
  if (!outcome) return tl::unexpected<Error>(outcome.error());
  return *outcome == WaitOutcome::kRestart ? catch_up(deadline) : Status();
}

Status Pusher::wait(InlineFunction<bool()> ready, Deadline deadline, const char* what) {
  while (!ready()) {
    FERRY_TRY(catch_up(deadline));
    const auto outcome = FERRY_TRY(waiter_.wait(ready, Newcomers::kConnect, deadline, what));
    if (outcome == WaitOutcome::kReady) break;
  }
  return {};
}

Status Pusher::handle_changes(Deadline deadline) {
  if (log_.due() == StepAction::kNone && !members_.has_later_attempt(log_.attempt())) return {};
  FERRY_TRY(waiter_.notice_changes(Newcomers::kConnect, deadline));
  return catch_up(deadline);
}

// Whoever is a step ahead waits: only one step is open at a time.
Status Pusher::begin_push(TensorLink& tensor, Deadline deadline) {
  log_.begin();
  if (!context_.is_sync()) return {};
  if (tensor.pushed_in == log_.open())
    return fail(Code::kFailedPrecondition, "'{}' was pushed in step {} already; end the step first",
                tensor.info.name, log_.open());
  FERRY_TRY(catch_up(deadline));
  FERRY_TRY(flush(deadline));
  FERRY_TRY(members_.sync_view(deadline));
  if (merger_.has_handed_over())
    return fail(
        Code::kFailedPrecondition,
        "'{}' comes after an end_step() of step {} that ran out of time, when its gradients "
        "were merged already; end the step first",
        tensor.info.name, log_.open());
  log_.record_open_step();
  tensor.pushed_in = log_.open();
  merger_.begin_step();
  return {};
}

Status Pusher::push(Parameter parameter, std::span<const std::byte> gradient, Deadline deadline,
                    const PushOptions& options) {
  auto& to = *FERRY_TRY(tensors_.at(parameter));
  if (gradient.size() != to.bytes)
    return fail(Code::kInvalidArgument, "'{}' is {}, which has {} bytes; the gradient has {}",
                to.info.name, to.info.spec.to_string(), to.bytes, gradient.size());
  FERRY_TRY(check_gradient(to, gradient));
  const bool copied = context_.is_sync() && options.copied;
  const auto room =
      copied ? FERRY_TRY(room_for_copy(parameter, gradient, deadline)) : std::span<std::byte>();
  FERRY_TRY(begin_push(to, deadline));
  if (copied && !gradient.empty()) {
    std::memcpy(room.data(), gradient.data(), gradient.size());
    gradient = room;
  }
  if (merger_.holds_back())
    FERRY_TRY(catch_up_if_restarted(merger_.push_alone_unless_mergeable(to, gradient, deadline),
                                    deadline));
  ++context_.stats.pushes;
  const PushRecord record{.parameter = parameter, .gradient = gradient, .back = options.back};
  if (context_.is_sync()) log_.record(record);
  if (merger_.holds_back()) return {};
  const auto posted =
      poster_.post_in_step([&] { return poster_.post_record(record, log_.open(), deadline); });
  return catch_up_if_restarted(posted, deadline);
}

// The payloads live until they have landed; in kSync until the step is applied.
Status Pusher::push_rows(Parameter parameter, std::vector<PushRecord> payloads, Deadline deadline) {
  FERRY_TRY(begin_push(tensors_[parameter], deadline));
  FERRY_TRY(catch_up_if_restarted(merger_.push_alone(deadline), deadline));
  ++context_.stats.pushes;
  if (context_.is_sync())
    for (const auto& payload : payloads) log_.record(payload);
  rows_ = std::move(payloads);
  const auto posted = poster_.post_in_step([&]() -> Result<WaitOutcome> {
    for (const auto& payload : rows_)
      if (FERRY_TRY(poster_.post_record(payload, log_.open(), deadline)) == WaitOutcome::kRestart)
        return WaitOutcome::kRestart;
    return WaitOutcome::kReady;
  });
  FERRY_TRY(catch_up_if_restarted(posted, deadline));
  return context_.is_sync() ? Status() : flush(deadline);
}

// END is sent when all has landed everywhere: see the design note.
Status Pusher::end_step(Deadline deadline) {
  if (context_.is_sync()) {
    FERRY_TRY(catch_up(deadline));
    FERRY_TRY(flush(deadline));
    FERRY_TRY(members_.sync_view(deadline));
  }
  log_.begin();
  FERRY_TRY(catch_up_if_restarted(merger_.merge(deadline), deadline));
  while (FERRY_TRY(poster_.prepare_end(log_.open(), deadline)) == WaitOutcome::kRestart)
    FERRY_TRY(catch_up(deadline));
  merger_.before_end(log_.open(), deadline);
  poster_.post_end(log_.open());
  log_.end();
  return {};
}

// First values are of no attempt: they are posted once, and go on where a restart has stopped them.
Status Pusher::assign(Parameter parameter, std::span<const std::byte> values, Deadline deadline) {
  DensePost post{.parameter = parameter,
                 .operation = Operation::kAssign,
                 .values = values,
                 .step = log_.begun()};
  while (FERRY_TRY(poster_.post_dense(post, deadline)) == WaitOutcome::kRestart)
    FERRY_TRY(catch_up(deadline));
  const auto taken = [this] {
    return members_.everywhere([](const ShardLink& link) { return link.has_taken_all(); });
  };
  return wait(taken, deadline, "first values of a tensor to be taken");
}

bool Pusher::is_applied(std::uint64_t step) const {
  return members_.everywhere_in(step,
                                [step](const ShardLink& link) { return link.clock() >= step; });
}

Status Pusher::flush(Deadline deadline) {
  const auto applied = [this] {
    if (context_.is_sync()) return is_applied(log_.ended());
    return members_.everywhere_in(log_.ended(),
                                  [](const ShardLink& link) { return link.has_taken_all(); });
  };
  return wait(applied, deadline, "what was pushed to be applied");
}

// A ring that was made anew for another server has fewer entries than the last push's number.
Status Pusher::wait_until_read(Parameter parameter, std::uint64_t step, Deadline deadline) {
  const auto& pushed = tensors_[parameter];
  const auto read = [this, &pushed, step] {
    if (context_.is_sync()) return is_applied(step);
    return std::all_of(pushed.parts.begin(), pushed.parts.end(), [](const PartLink& part) {
      const auto& link = *part.link;
      return link.is_removed() || link.landed() >= std::min(part.last_entry, link.posted());
    });
  };
  return wait(read, deadline, "servers to read what was pushed");
}

Status Pusher::wait_fresh(Deadline deadline) {
  if (context_.job.consistency == Consistency::kAsync) return {};
  const auto fresh = [this] {
    const auto step = log_.ended();
    const auto staleness = context_.is_sync() ? 0 : context_.job.staleness;
    return members_.everywhere_in(
        step, [&](const ShardLink& link) { return link.clock() + staleness >= step; });
  };
  FERRY_TRY(wait(fresh, deadline, "the other workers to end the step"));
  // Looked at after the clocks: what a step became after a server was given up is not there to be
  // read at that server.
  return members_.is_view_stale() ? members_.fetch_view(Newcomers::kConnect, deadline) : Status();
}

// Servers that read the gradient in place read the copy in place, too, as long as there is memory
// for it.
Result<std::span<std::byte>> Pusher::room_for_copy(Parameter parameter,
                                                   std::span<const std::byte> gradient,
                                                   Deadline deadline) {
  auto& to = tensors_[parameter];
  const bool in_place = memories_.find(gradient) != nullptr;
  if (in_place && to.copy_in_place.bytes().empty()) {
    auto room = memories_.allocate(to.info.spec, deadline);
    if (!room && room.error().code() != Code::kResourceExhausted)
      return tl::unexpected<Error>(room.error());
    if (room) to.copy_in_place = *std::move(room);
  }
  if (in_place && !to.copy_in_place.bytes().empty()) return to.copy_in_place.bytes();
  to.copy.resize(to.bytes);
  return std::span(to.copy);
}

}  // namespace ferry::ps
