#include <algorithm>

#include "ferry/ps/scheduler/change_internal.h"

// Changes that begin with a tensor, or with all of them.

namespace ferry::ps {
namespace {

// A server that dies meanwhile is left out if the job can do without it.
std::optional<Error> first_failure(const ServersAnswered& event, const JobOptions& job) {
  for (const auto& [server, answer] : event.answers) {
    const bool gone = !answer && answer.error().code() == Code::kUnavailable;
    if (!answer && (job.replicas == 1 || !gone)) return answer.error();
  }
  return std::nullopt;
}

}  // namespace

Progress Creation::begin(Effects& out) {
  auto planned = tensors_.plan(info_, job_.block_bytes);
  if (!planned) {
    abort(planned.error(), out);
    return Progress::kDone;
  }
  info_ = *std::move(planned);
  Bytes body;
  bootstrap::Encoder encoder(body);
  put(encoder, info_);
  out.emplace_back(servers_.ask(Ask::kCreate, body));
  return Progress::kWaits;
}

Progress Creation::take(const ServersAnswered& event, Effects& out) {
  if (const auto failure = first_failure(event, job_)) {
    Bytes id;
    bootstrap::Encoder(id).u32(info_.id);
    out.emplace_back(servers_.tell(Ask::kDrop, id));
    tensors_.discard(info_);
    abort(*failure, out);
    return Progress::kDone;
  }
  out.emplace_back(Answer{question_, Tensors::created_answer(info_, servers_.view().number)});
  tensors_.add(std::move(info_), creator_, false);
  return Progress::kDone;
}

void Creation::abort(const Error& cause, Effects& out) {
  out.emplace_back(Answer{question_, tl::unexpected<Error>(cause)});
}

Progress Restoration::next(Effects& out) {
  if (done_ == snapshot_.tensors.size()) {
    out.emplace_back(Answer{question_, Bytes()});
    return Progress::kDone;
  }
  auto planned = tensors_.plan(snapshot_.tensors[done_], job_.block_bytes);
  if (!planned) {
    fatal_ = planned.error();
    return Progress::kWaits;
  }
  info_ = *std::move(planned);
  Bytes body;
  bootstrap::Encoder encoder(body);
  encoder.string(snapshot_.path).u32(snapshot_.servers);
  put(encoder, info_);
  out.emplace_back(servers_.ask(Ask::kRestore, body));
  return Progress::kWaits;
}

Progress Restoration::take(const ServersAnswered& event, Effects& out) {
  if (auto failure = first_failure(event, job_)) {
    fatal_ = std::move(failure);
    return Progress::kWaits;
  }
  tensors_.add(std::move(info_), kNobody, true);
  ++done_;
  return next(out);
}

void Restoration::abort(const Error& cause, Effects& out) {
  out.emplace_back(Answer{question_, tl::unexpected<Error>(cause)});
}

Progress SnapshotChange::begin(Effects& out) {
  out.emplace_back(BeginSnapshot{folder_});
  return Progress::kWaits;
}

Progress SnapshotChange::take(const SnapshotBegun& event, Effects& out) {
  if (!event.path) return refuse(event.path.error(), out);
  path_ = *event.path;
  AskServers save{.what = Ask::kSave, .questions = {}};
  for (const auto server : servers_.in_view()) {
    Bytes where;
    const auto file = static_cast<std::uint32_t>(save.questions.size());
    bootstrap::Encoder(where).string(path_).u32(file);
    save.questions.push_back({server, std::move(where)});
  }
  out.emplace_back(std::move(save));
  return Progress::kWaits;
}

Progress SnapshotChange::take(const ServersAnswered& event, Effects& out) {
  std::set<std::uint64_t> clocks;
  for (const auto& [server, answer] : event.answers) {
    if (!answer) return refuse(answer.error(), out);
    clocks.insert(bootstrap::Decoder(*answer).u64());
  }
  if (clocks.size() > 1)
    return refuse(Error(Code::kFailedPrecondition,
                        "servers are in different steps; take snapshots while all workers wait at "
                        "a barrier",
                        0, __FILE__, __LINE__),
                  out);
  const auto files = static_cast<std::uint32_t>(event.answers.size());
  out.emplace_back(FinishSnapshot{folder_, path_, tensors_.infos_there(), files});
  return Progress::kWaits;
}

Progress SnapshotChange::take(const SnapshotFinished& event, Effects& out) {
  if (!event.status) return refuse(event.status.error(), out);
  Bytes answer;
  bootstrap::Encoder(answer).string(path_);
  out.emplace_back(Answer{question_, std::move(answer)});
  return Progress::kDone;
}

Progress SnapshotChange::refuse(const Error& cause, Effects& out) {
  abort(cause, out);
  return Progress::kDone;
}

void SnapshotChange::abort(const Error& cause, Effects& out) {
  out.emplace_back(Answer{question_, tl::unexpected<Error>(cause)});
}

}  // namespace ferry::ps
