#include <algorithm>

#include "ferry/ps/scheduler/job_image_internal.h"

namespace ferry::ps {
namespace {

constexpr std::uint32_t kStateVersion = 4;
constexpr std::uint32_t kMostState = 1 << 20;  // of anything that is counted

// How long members wait is no part of what a job is.
Bytes job_bytes(JobOptions job) {
  job.scheduler_away_ms = 0;
  Bytes bytes;
  bootstrap::Encoder out(bytes);
  put(out, job);
  return bytes;
}

void put_worker(bootstrap::Encoder& out, const WorkerRecord& worker) {
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
}

Status get_servers(bootstrap::Decoder& in, const JobOptions& job, JobImage& image) {
  if (in.u32() != job.servers) return fail(Code::kDataLoss, "it is broken: not all servers");
  for (std::uint32_t index = 0; index < job.servers; ++index) {
    ServerRecord server;
    server.place = FERRY_TRY(get_server(in));
    server.token = in.u64();
    server.alive = in.u8() != 0;
    image.servers.push_back(std::move(server));
  }
  return {};
}

Status get_workers(bootstrap::Decoder& in, const JobOptions& job, JobImage& image) {
  for (std::uint32_t rank = 0; rank < job.workers; ++rank) {
    auto& worker = image.workers.emplace_back();
    const auto state = in.u8();
    if (state > static_cast<std::uint8_t>(WorkerState::kOut))
      return fail(Code::kDataLoss, "it is broken: a worker in state {}", state);
    worker.state = static_cast<WorkerState>(state);
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

Status get_tensors(bootstrap::Decoder& in, JobImage& image) {
  std::size_t shards = 0;
  for (const auto& server : image.servers) shards += server.place.shards;
  const auto count = in.u32();
  if (count > kMostState) return fail(Code::kDataLoss, "{} of something", count);
  for (std::uint32_t each = 0; each < count && in.ok(); ++each) {
    TensorRecord tensor;
    tensor.info = FERRY_TRY(get_tensor(in));
    tensor.there = in.u8() != 0;
    tensor.creator = in.u32();
    for (const auto& run : tensor.info.runs)
      if (run.shard >= shards)
        return fail(Code::kDataLoss, "it is broken: a block on shard {}", run.shard);
    image.tensors.push_back(std::move(tensor));
  }
  return {};
}

// What lies before the servers.
Result<JobImage> get_head(bootstrap::Decoder& in, const JobOptions& job) {
  JobImage image;
  image.endpoint = in.string(kMostName);
  image.last_tensor = in.u32();
  image.last_attempt = in.u32();
  image.dead = in.u32();
  image.left = in.u32();
  image.last_generation = in.u32();
  AdmissionRecord admission{.rank = in.u32()};
  admission.since = in.u64();
  admission.attempt = in.u32();
  if (admission.rank < job.workers) image.admission = admission;
  image.view = FERRY_TRY(get_view(in, job));
  const bool pending = in.u8() != 0;
  DepartureRecord departure{.rank = in.u32(), .counted = in.u8() != 0, .decided = in.u8() != 0};
  departure.through = in.u64();
  departure.attempt = in.u32();
  departure.restarted = in.u64();
  if (departure.rank >= job.workers) return fail(Code::kDataLoss, "it is broken");
  if (pending) image.departure = departure;
  return image;
}

}  // namespace

Bytes JobImage::encode(const JobOptions& job) const {
  Bytes bytes;
  bootstrap::Encoder out(bytes);
  out.u32(kStateVersion).u8(static_cast<std::uint8_t>(phase)).string(failure).raw(job_bytes(job));
  out.string(endpoint).u32(last_tensor).u32(last_attempt).u32(dead).u32(left).u32(last_generation);
  const auto entering = admission.value_or(AdmissionRecord());
  out.u32(entering.rank).u64(entering.since).u32(entering.attempt);
  put(out, view);
  const auto leaving = departure.value_or(DepartureRecord());
  out.u8(departure ? 1 : 0).u32(leaving.rank).u8(leaving.counted ? 1 : 0);
  out.u8(leaving.decided ? 1 : 0).u64(leaving.through).u32(leaving.attempt).u64(leaving.restarted);
  out.u32(static_cast<std::uint32_t>(servers.size()));
  for (const auto& server : servers) {
    put(out, server.place);
    out.u64(server.token).u8(server.alive ? 1 : 0);
  }
  for (const auto& worker : workers) put_worker(out, worker);
  out.u32(static_cast<std::uint32_t>(tensors.size()));
  for (const auto& tensor : tensors) {
    put(out, tensor.info);
    out.u8(tensor.there ? 1 : 0).u32(tensor.there ? kNobody : tensor.creator);
  }
  return bytes;
}

Result<std::optional<JobImage>> JobImage::decode(const Bytes& bytes, const JobOptions& job) {
  bootstrap::Decoder in(bytes);
  const auto version = in.u32();
  const auto phase = static_cast<Phase>(in.u8());  // in all versions
  if (phase == Phase::kOver) return std::optional<JobImage>();
  if (version != kStateVersion)
    return fail(Code::kFailedPrecondition,
                "it has version {}, and this program knows {}; start the one that wrote it",
                version, kStateVersion);
  const auto why = std::string(in.string(kMostState));
  if (phase == Phase::kFailed)
    return fail(Code::kAborted, "its job has failed: {}; remove it to begin another", why);
  const auto own = job_bytes(job);
  const auto theirs = in.raw(own.size());
  if (!in.ok() || !std::equal(theirs.begin(), theirs.end(), own.begin(), own.end()))
    return fail(Code::kFailedPrecondition,
                "it is of a job with other options than these ({} servers, {} workers, ...); say "
                "the same, or remove it to begin another",
                job.servers, job.workers);
  auto image = FERRY_TRY(get_head(in, job));
  FERRY_TRY(get_servers(in, job, image));
  FERRY_TRY(get_workers(in, job, image));
  FERRY_TRY(get_tensors(in, image));
  if (!in.finish("an image")) return fail(Code::kDataLoss, "it is broken");
  return image;
}

}  // namespace ferry::ps
