#include <algorithm>

#include "ferry/ps/scheduler/change_internal.h"

// Changes that begin with a worker: see the design note, "All or nothing" and "Late, and back
// again".

namespace ferry::ps {
namespace {

Bytes rank_body(std::uint32_t rank) {
  Bytes body;
  bootstrap::Encoder(body).u32(rank);
  return body;
}

Bytes admission_body(const AdmissionRecord& admission) {
  Bytes body;
  bootstrap::Encoder(body).u32(admission.rank).u64(admission.since).u32(admission.attempt);
  return body;
}

}  // namespace

Progress Departure::begin(Effects& out) {
  const auto& departure = *workers_.departure();
  if (departure.decided) return tell(out);
  out.emplace_back(servers_.ask(Ask::kFreeze, rank_body(departure.rank)));
  return Progress::kWaits;
}

Progress Departure::take(const ServersAnswered& event, Effects& out) {
  const auto rank = workers_.departure()->rank;
  if (!workers_.departure()->decided) return decide(event, out);
  for (const auto& [server, answer] : event.answers)
    if (!answer)
      out.emplace_back(Log{Log::Level::kWarning,
                           fmt::format("server {}: {}", server, answer.error().to_string())});
  workers_.end_departure();
  for (const auto id : tensors_.forget(rank, out))
    out.emplace_back(servers_.tell(Ask::kDrop, rank_body(id)));
  return Progress::kDone;
}

// A server that does not answer may still hear the worker. Before the others go on, nobody listens
// to that server any more; and nobody else has its blocks, if there is one copy.
Progress Departure::decide(const ServersAnswered& event, Effects& out) {
  std::uint64_t through = 0;
  std::uint64_t folded = 0;
  for (const auto& [server, answer] : event.answers) {
    if (!answer) {
      out.emplace_back(Log{Log::Level::kWarning,
                           fmt::format("server {}: {}", server, answer.error().to_string())});
      servers_.lose(server, out);
      continue;
    }
    bootstrap::Decoder in(*answer);
    through = std::max(through, in.u64());
    folded = std::max(folded, in.u64());
  }
  workers_.decide_departure(through, folded);
  return tell(out);
}

Progress Departure::tell(Effects& out) {
  const auto& departure = *workers_.departure();
  Bytes body;
  bootstrap::Encoder(body)
      .u32(departure.rank)
      .u64(departure.through)
      .u32(departure.attempt)
      .u64(departure.restarted);
  out.emplace_back(servers_.ask(Ask::kDepart, body));
  return Progress::kWaits;
}

Progress Admission::begin(Effects& out) {
  if (!question_) return tell(out);
  out.emplace_back(servers_.ask(Ask::kHold, rank_body(rank_)));
  return Progress::kWaits;
}

Progress Admission::take(const ServersAnswered& event, Effects& out) {
  if (phase_ == Phase::kHolding) return decide(event, out);
  workers_.end_admission();
  if (!question_) return Progress::kDone;
  Bytes answer;
  bootstrap::Encoder(answer).u64(workers_.at(rank_).since).u32(workers_.at(rank_).attempt);
  if (failure_)
    out.emplace_back(Answer{*question_, tl::unexpected<Error>(*failure_)});
  else
    out.emplace_back(Answer{*question_, std::move(answer)});
  return Progress::kDone;
}

Progress Admission::decide(const ServersAnswered& event, Effects& out) {
  std::uint64_t clock = 0;
  for (const auto& [server, answer] : event.answers) {
    if (answer) {
      clock = std::max(clock, bootstrap::Decoder(*answer).u64());
      continue;
    }
    if (replicated_)
      servers_.lose(server, out);
    else if (!failure_)
      failure_ = answer.error();
  }
  if (!failure_) workers_.admit(rank_, clock);
  return tell(out);
}

Progress Admission::tell(Effects& out) {
  phase_ = Phase::kTelling;
  const auto admission = workers_.admission().value_or(AdmissionRecord());
  out.emplace_back(servers_.ask(Ask::kAdmit, admission_body(admission)));
  return Progress::kWaits;
}

void Admission::abort(const Error& cause, Effects& out) {
  // Nobody is to hold for ever, whoever has the job now.
  if (phase_ == Phase::kTelling)
    out.emplace_back(servers_.tell(Ask::kAdmit, admission_body(AdmissionRecord())));
  workers_.end_admission();
  if (question_) out.emplace_back(Answer{*question_, tl::unexpected<Error>(cause)});
}

Progress RollCall::begin(Effects& out) {
  Bytes known;
  for (const auto& info : tensors_.infos()) bootstrap::Encoder(known).u32(info.id);
  out.emplace_back(servers_.ask(Ask::kKnown, known));
  return Progress::kWaits;
}

Progress RollCall::take(const ServersAnswered& event, Effects& out) {
  std::set<std::uint32_t> ended;
  for (const auto& [server, answer] : event.answers) {
    if (!answer) continue;
    bootstrap::Decoder in(*answer);
    while (in.remaining() > 0 && in.ok()) ended.insert(in.u32());
  }
  if (tell_view_) out.emplace_back(servers_.tell_view());
  workers_.mark_absent(ended, all_);
  return Progress::kDone;
}

}  // namespace ferry::ps
