#include <algorithm>

#include "ferry/ps/scheduler/change_internal.h"

// Changes that begin with a server: see the design note, "A new copy".

namespace ferry::ps {

Progress Arrival::begin(Effects& out) {
  // One connection at a time, if it was back before.
  if (kind_ == Kind::kReturns) servers_.set_peer(index_, kNoPeer);
  out.emplace_back(Connect{index_, spare_.place.control});
  return Progress::kWaits;
}

Progress Arrival::take(const Connected& event, Effects& out) {
  if (!event.status) {
    out.emplace_back(Answer{spare_.question, tl::unexpected<Error>(event.status.error())});
    return Progress::kDone;
  }
  switch (kind_) {
    case Kind::kJoins:
      servers_.add(spare_.question.peer, spare_.place, spare_.token);
      break;
    case Kind::kTakesPlace:
      servers_.assign_spare(index_, spare_);
      break;
    case Kind::kReturns:
      servers_.set_peer(index_, spare_.question.peer);
      out.emplace_back(Log{Log::Level::kInfo, fmt::format("server {} is back", index_)});
      break;
  }
  const bool returns = kind_ == Kind::kReturns;
  out.emplace_back(Answer{spare_.question, returns ? Bytes() : servers_.place_answer(index_)});
  return Progress::kDone;
}

void Arrival::abort(const Error& cause, Effects& out) {
  out.emplace_back(Answer{spare_.question, tl::unexpected<Error>(cause)});
}

Progress StateTransfer::begin(Effects& out) {
  if (phase_ == Phase::kStarting) {
    out.emplace_back(servers_.ask_to_catch_up());
    return Progress::kWaits;
  }
  servers_.include_candidate();
  AskServers make{.what = Ask::kCreate, .questions = {}};
  for (const auto& info : tensors_.infos()) {
    Bytes body;
    bootstrap::Encoder encoder(body);
    put(encoder, info);
    make.questions.push_back({index_, std::move(body)});
  }
  out.emplace_back(std::move(make));
  return Progress::kWaits;
}

Progress StateTransfer::take(const ServersAnswered& event, Effects& out) {
  switch (phase_) {
    case Phase::kMaking:
      return made(event, out);
    case Phase::kHolding:
      return held(event, out);
    case Phase::kStarting:
      return started(event, out);
  }
  return Progress::kDone;
}

Progress StateTransfer::made(const ServersAnswered& event, Effects& out) {
  for (const auto& [server, answer] : event.answers) {
    if (answer) continue;
    out.emplace_back(Log{Log::Level::kWarning,
                         fmt::format("the server at {} cannot take a place: {}",
                                     servers_.place(index_).data, answer.error().message())});
    servers_.lose(index_, out);
    return Progress::kDone;
  }
  phase_ = Phase::kHolding;
  Bytes nobody;
  bootstrap::Encoder(nobody).u32(kNobody);
  out.emplace_back(servers_.ask(Ask::kHold, nobody));
  return Progress::kWaits;
}

Progress StateTransfer::held(const ServersAnswered& event, Effects& out) {
  std::uint64_t clock = 0;
  for (const auto& [server, answer] : event.answers) {
    if (answer)
      clock = std::max(clock, bootstrap::Decoder(*answer).u64());
    else
      servers_.lose(server, out);
  }
  const bool goes_on = servers_.candidate() == index_ && !servers_.fatal();
  if (goes_on) {
    servers_.start_catching_up(clock + 1);
    out.emplace_back(servers_.tell_view());
  }
  Bytes nobody;
  bootstrap::Encoder(nobody).u32(kNobody).u64(0).u32(0);
  out.emplace_back(servers_.tell(Ask::kAdmit, nobody));
  if (!goes_on) return Progress::kDone;
  phase_ = Phase::kStarting;
  out.emplace_back(servers_.ask_to_catch_up());
  return Progress::kWaits;
}

Progress StateTransfer::started(const ServersAnswered& event, Effects& out) {
  for (const auto& [server, answer] : event.answers)
    if (!answer && answer.error().code() != Code::kFailedPrecondition) servers_.lose(server, out);
  return Progress::kDone;
}

}  // namespace ferry::ps
