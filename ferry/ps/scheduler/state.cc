#include <algorithm>
#include <chrono>
#include <thread>

#include "ferry/base/log.h"
#include "ferry/ps/scheduler/core_internal.h"

// One image of all that a scheduler knows, kept before anybody learns of it: see the design note.

namespace ferry::ps {
namespace {

constexpr std::uint32_t kStateVersion = 3;
constexpr std::uint32_t kMostState = 1 << 20;  // of anything that is counted
constexpr std::chrono::seconds kSaving{10};
constexpr std::chrono::milliseconds kSaveAgain{200};
constexpr std::chrono::milliseconds kLoadAgain{50};
constexpr std::chrono::milliseconds kLongestPause{2000};

enum class Phase : std::uint8_t { kGoesOn = 0, kOver = 1, kFailed = 2 };

// How long members wait is no part of what a job is.
Bytes job_bytes(JobOptions job) {
  job.scheduler_away_ms = 0;
  Bytes bytes;
  bootstrap::Encoder out(bytes);
  put(out, job);
  return bytes;
}

Result<std::uint32_t> get_count(bootstrap::Decoder& in) {
  const auto count = in.u32();
  if (count > kMostState) return fail(Code::kDataLoss, "{} of something", count);
  return count;
}

}  // namespace

Status Scheduler::Core::open_store() {
  const auto& where = options_.state;
  const std::chrono::duration<double, std::milli> away = options_.away * options_.device.patience;
  job_.scheduler_away_ms = static_cast<std::uint32_t>(std::max(away.count(), 1.0));
  store_ = FERRY_TRY(Store::open(where));
  const auto image = FERRY_TRY(load());
  if (!image) return {};
  if (auto got = get_state(*image); !got)
    return fail(got.error().code(), "the state of a scheduler in {}: {}", where,
                got.error().message());
  if (endpoint_.empty()) return {};
  back_by_ = Deadline::after(std::chrono::milliseconds(job_.scheduler_away_ms));
  servers_away_ = true;
  count();
  logger().info("goes on with the state in {}", where);
  return {};
}

Status Scheduler::Core::keep() {
  // A job that has not begun has nothing to lose.
  if (store_ == nullptr || !placement_) return {};
  if (not_kept_) return tl::unexpected<Error>(*not_kept_);
  Bytes image;
  put_state(image);
  if (image == kept_) return {};
  const auto saved = save(image);
  if (saved) {
    kept_ = std::move(image);
    return {};
  }
  const bool superseded = saved.error().code() == Code::kAborted;
  not_kept_ =
      Error(Code::kAborted,
            fmt::format("the scheduler cannot keep its state in {}: {}; the job {}", options_.state,
                        saved.error().message(), superseded ? "is the other one's" : "has ended"),
            0, __FILE__, __LINE__);
  if (superseded) {  // what servers are told is the other one's to say
    failure_ = not_kept_;
    end_.set(tl::unexpected<Error>(*not_kept_));
  } else {
    fail_job(*not_kept_);
  }
  return tl::unexpected<Error>(*not_kept_);
}

// An etcd that is away may be so for a moment only. Members wait for a scheduler just as long.
Result<std::optional<Bytes>> Scheduler::Core::load() {
  const auto deadline = Deadline::after(std::chrono::milliseconds(job_.scheduler_away_ms));
  for (auto pause = kLoadAgain;; pause = std::min(2 * pause, kLongestPause)) {
    auto loaded = store_->load();
    if (loaded || loaded.error().code() != Code::kUnavailable || deadline.expired()) return loaded;
    logger().warn("{}; the scheduler tries again for {} s", loaded.error().message(),
                  deadline.left_ms() / 1000);
    std::this_thread::sleep_for(std::min<Nanos>(pause, deadline.left()));
  }
}

// A disk that is full, or an etcd that is away, may be so for a moment only.
Status Scheduler::Core::save(const Bytes& image) {
  const auto deadline = Deadline::after(kSaving);
  for (;;) {
    auto saved = store_->save(image);
    if (saved || saved.error().code() == Code::kAborted || deadline.expired()) return saved;
    logger().warn("{}", saved.error().message());
    std::this_thread::sleep_for(kSaveAgain);
  }
}

void Scheduler::Core::put_state(Bytes& image) const {
  bootstrap::Encoder out(image);
  const auto phase = failure_ ? Phase::kFailed : over_ ? Phase::kOver : Phase::kGoesOn;
  out.u32(kStateVersion).u8(static_cast<std::uint8_t>(phase));
  out.string(failure_ ? failure_->message() : "").raw(job_bytes(job_));
  out.string(control_->endpoint()).u32(last_tensor_).u32(last_attempt_).u32(dead_);
  out.u32(left_).u32(last_turn_);
  const auto admission = admission_.value_or(Admission());
  out.u32(admission.rank).u64(admission.since).u32(admission.attempt);
  put(out, view_);
  out.u8(verdict_ ? 1 : 0);
  const auto verdict = verdict_.value_or(Verdict());
  out.u32(verdict.rank).u8(verdict.counted ? 1 : 0).u8(verdict.known ? 1 : 0);
  out.u64(verdict.through).u32(verdict.attempt).u64(verdict.anew);
  out.u32(static_cast<std::uint32_t>(servers_.size()));
  for (const auto& server : servers_) {
    put(out, server.place);
    out.u64(server.token).u8(server.alive ? 1 : 0);
  }
  for (const auto& worker : workers_)
    out.u8(static_cast<std::uint8_t>(worker.state))
        .u64(worker.token)
        .u8(worker.left ? 1 : 0)
        .u8(worker.member ? 1 : 0)
        .u64(worker.since)
        .u32(worker.attempt)
        .u64(worker.barriers)
        .string(worker.host)
        .string(worker.device)
        .string(worker.neighbour);
  out.u32(static_cast<std::uint32_t>(tensors_.size()));
  for (const auto& [name, tensor] : tensors_) {
    put(out, tensor.info);
    out.u8(tensor.there ? 1 : 0);
    const auto creator =
        std::find_if(workers_.begin(), workers_.end(),
                     [peer = tensor.creator](const auto& worker) { return worker.peer == peer; });
    out.u32(tensor.there || creator == workers_.end()
                ? kNobody
                : static_cast<std::uint32_t>(creator - workers_.begin()));
  }
}

Status Scheduler::Core::get_state(const Bytes& image) {
  bootstrap::Decoder in(image);
  const auto version = in.u32();
  const auto phase = static_cast<Phase>(in.u8());  // in all versions
  if (phase == Phase::kOver) return {};
  if (version != kStateVersion)
    return fail(Code::kFailedPrecondition,
                "it has version {}, and this program knows {}; start the one that wrote it",
                version, kStateVersion);
  const auto why = std::string(in.string(kMostState));
  if (phase == Phase::kFailed)
    return fail(Code::kAborted, "its job has failed: {}; remove it to begin another", why);
  const auto own = job_bytes(job_);
  const auto job = in.raw(own.size());
  if (!in.ok() || !std::equal(job.begin(), job.end(), own.begin(), own.end()))
    return fail(Code::kFailedPrecondition,
                "it is of a job with other options than these ({} servers, {} workers, ...); say "
                "the same, or remove it to begin another",
                job_.servers, job_.workers);
  endpoint_ = std::string(in.string(kMostName));
  last_tensor_ = in.u32();
  last_attempt_ = in.u32();
  dead_ = in.u32();
  left_ = in.u32();
  last_turn_ = in.u32();
  Admission admission{.rank = in.u32()};
  admission.since = in.u64();
  admission.attempt = in.u32();
  if (admission.rank < job_.workers) admission_ = admission;
  view_ = FERRY_TRY(get_view(in, job_));
  if (view_.coming < job_.servers) coming_ = view_.coming;
  const bool pending = in.u8() != 0;
  Verdict verdict{.rank = in.u32(), .counted = in.u8() != 0, .known = in.u8() != 0};
  verdict.through = in.u64();
  verdict.attempt = in.u32();
  verdict.anew = in.u64();
  if (pending) verdict_ = verdict;
  FERRY_TRY(get_servers(in));
  FERRY_TRY(get_workers(in));
  FERRY_TRY(get_tensors(in));
  if (const auto whole = in.finish("an image"); !whole || verdict.rank >= job_.workers)
    return fail(Code::kDataLoss, "it is broken");
  return {};
}

Status Scheduler::Core::get_servers(bootstrap::Decoder& in) {
  if (in.u32() != job_.servers) return fail(Code::kDataLoss, "it is broken: not all servers");
  std::size_t shards = 0;
  for (std::uint32_t index = 0; index < job_.servers; ++index) {
    ServerAt server;
    server.peer = away_server(index);
    server.place = FERRY_TRY(get_server(in));
    server.ready = true;
    server.token = in.u64();
    server.alive = in.u8() != 0;
    shards += server.place.shards;
    servers_.push_back(std::move(server));
  }
  placement_.emplace(shards);
  return {};
}

Status Scheduler::Core::get_workers(bootstrap::Decoder& in) {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    auto& worker = workers_[rank];
    const auto state = in.u8();
    if (state > static_cast<std::uint8_t>(State::kOut))
      return fail(Code::kDataLoss, "it is broken: a worker in state {}", state);
    worker.state = static_cast<State>(state);
    worker.peer = away_worker(rank);
    worker.token = in.u64();
    worker.left = in.u8() != 0;
    worker.member = in.u8() != 0;
    worker.since = in.u64();
    worker.attempt = in.u32();
    worker.barriers = in.u64();
    worker.host = in.string(kMostName);
    worker.device = in.string(kMostName);
    worker.neighbour = in.string(kMostName);
  }
  return {};
}

Status Scheduler::Core::get_tensors(bootstrap::Decoder& in) {
  const auto count = FERRY_TRY(get_count(in));
  for (std::uint32_t each = 0; each < count && in.ok(); ++each) {
    TensorAt tensor;
    tensor.info = FERRY_TRY(get_tensor(in));
    tensor.there = in.u8() != 0;
    const auto creator = in.u32();
    if (creator != kNobody) tensor.creator = away_worker(creator);
    for (const auto& run : tensor.info.runs)
      if (run.shard >= placement_->loads().size())
        return fail(Code::kDataLoss, "it is broken: a block on shard {}", run.shard);
    placement_->count_in(tensor.info.runs);
    const auto name = tensor.info.name;
    tensors_.emplace(name, std::move(tensor));
  }
  return {};
}

}  // namespace ferry::ps
