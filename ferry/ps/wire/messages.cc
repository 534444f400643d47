#include <algorithm>
#include <bit>

#include "ferry/ps/wire/messages_internal.h"
#include "ferry/ps/wire/protocol_version_internal.h"

namespace ferry::ps {
namespace {

constexpr std::uint32_t kMostServers = 1024;
constexpr std::uint32_t kMostWorkers = 4096;

void put_number(bootstrap::Encoder& out, double value) {
  out.u64(std::bit_cast<std::uint64_t>(value));
}
double get_number(bootstrap::Decoder& in) { return std::bit_cast<double>(in.u64()); }

}  // namespace

void put(bootstrap::Encoder& out, const JobOptions& job) {
  out.u32(job.servers).u32(job.workers).u8(static_cast<std::uint8_t>(job.consistency));
  out.u64(job.staleness).u8(job.mean ? 1 : 0).u64(job.block_bytes);
  out.u32(job.pool_blocks).u32(job.most_dead).u32(job.replicas).u32(job.start_with);
  out.u8(job.merge ? 1 : 0).u32(job.scheduler_away_ms);
}

Result<JobOptions> get_job(bootstrap::Decoder& in) {
  JobOptions job;
  job.servers = in.u32();
  job.workers = in.u32();
  job.consistency = static_cast<Consistency>(in.u8());
  job.staleness = in.u64();
  job.mean = in.u8() != 0;
  job.block_bytes = in.u64();
  job.pool_blocks = in.u32();
  job.most_dead = in.u32();
  job.replicas = in.u32();
  job.start_with = in.u32();
  job.merge = in.u8() != 0;
  job.scheduler_away_ms = in.u32();
  if (in.ok()) FERRY_TRY(check_job(job));
  return job;
}

void put(bootstrap::Encoder& out, const tensor::Spec& spec) {
  out.u8(static_cast<std::uint8_t>(spec.type)).u8(static_cast<std::uint8_t>(spec.shape.rank()));
  for (const auto dim : spec.shape.dims()) out.u64(static_cast<std::uint64_t>(dim));
}

Result<tensor::Spec> get_spec(bootstrap::Decoder& in) {
  tensor::Spec spec;
  const auto type = in.u8();
  const auto rank = in.u8();
  if (!in.ok()) return spec;
  spec.type = FERRY_TRY(tensor::element_type_of(type));
  std::vector<std::int64_t> dims;
  for (std::uint8_t each = 0; each < rank && in.ok(); ++each)
    dims.push_back(static_cast<std::int64_t>(in.u64()));
  spec.shape = FERRY_TRY(tensor::Shape::of(dims));
  return spec;
}

void put(bootstrap::Encoder& out, const Update& update) {
  out.u8(static_cast<std::uint8_t>(update.kind));
  for (const double value :
       {update.rate, update.momentum, update.beta1, update.beta2, update.epsilon})
    put_number(out, value);
  out.string(update.function);
}

Result<Update> get_update(bootstrap::Decoder& in) {
  Update update;
  update.kind = static_cast<UpdateKind>(in.u8());
  for (double* value :
       {&update.rate, &update.momentum, &update.beta1, &update.beta2, &update.epsilon})
    *value = get_number(in);
  update.function = in.string(kMostName);
  if (in.ok() && (update.kind < UpdateKind::kAssign || update.kind > UpdateKind::kNone))
    return fail(Code::kInvalidArgument, "there is no update number {}",
                static_cast<int>(update.kind));
  return update;
}

void put(bootstrap::Encoder& out, const TensorInfo& info) {
  out.u32(info.id).string(info.name);
  put(out, info.spec);
  put(out, info.update);
  out.u64(info.block_bytes).u32(static_cast<std::uint32_t>(info.runs.size()));
  for (const auto& run : info.runs) out.u32(run.shard).u64(run.offset).u64(run.bytes);
}

Result<TensorInfo> get_tensor(bootstrap::Decoder& in) {
  TensorInfo info;
  info.id = in.u32();
  info.name = in.string(kMostName);
  info.spec = FERRY_TRY(get_spec(in));
  info.update = FERRY_TRY(get_update(in));
  info.block_bytes = in.u64();
  const auto runs = in.u32();
  for (std::uint32_t each = 0; each < runs && in.ok(); ++each) {
    const auto shard = in.u32();
    const auto offset = in.u64();
    info.runs.push_back({shard, offset, in.u64()});
  }
  if (in.ok() && info.block_bytes == 0) return fail(Code::kInvalidArgument, "blocks of no bytes");
  return info;
}

void put(bootstrap::Encoder& out, const ServerPlace& place) {
  out.string(place.control).string(place.data).u32(place.shards);
}

Result<ServerPlace> get_server(bootstrap::Decoder& in) {
  ServerPlace place;
  place.control = in.string(kMostName);
  place.data = in.string(kMostName);
  place.shards = in.u32();
  if (in.ok() && (place.shards == 0 || place.shards > 256))
    return fail(Code::kOutOfRange, "a server has 1 to 256 shards, not {}", place.shards);
  return place;
}

void put(bootstrap::Encoder& out, const Welcome& welcome) {
  put_protocol_version(out);
  out.u32(welcome.rank);
  put(out, welcome.job);
  out.u32(static_cast<std::uint32_t>(welcome.servers.size()));
  for (const auto& server : welcome.servers) put(out, server);
  out.u64(welcome.token);
}

Result<Welcome> get_welcome(bootstrap::Decoder& in) {
  Welcome welcome;
  FERRY_TRY(check_protocol_version(in, "worker", "scheduler"));
  welcome.rank = in.u32();
  welcome.job = FERRY_TRY(get_job(in));
  const auto servers = in.u32();
  for (std::uint32_t each = 0; each < servers && in.ok(); ++each)
    welcome.servers.push_back(FERRY_TRY(get_server(in)));
  welcome.token = in.u64();
  return welcome;
}

void put(bootstrap::Encoder& out, const fabric::RemoteRegion& region) { out.raw(region.to_wire()); }

Result<fabric::RemoteRegion> get_region(bootstrap::Decoder& in) {
  return fabric::RemoteRegion::from_wire(in.raw(fabric::RemoteRegion::kWireBytes));
}

void put(bootstrap::Encoder& out, const ShardPlace& place) {
  put(out, place.ring);
  put(out, place.pool);
  out.u32(place.first_slot);
}

Result<ShardPlace> get_shard_place(bootstrap::Decoder& in) {
  ShardPlace place;
  place.ring = FERRY_TRY(get_region(in));
  place.pool = FERRY_TRY(get_region(in));
  place.first_slot = in.u32();
  return place;
}

void put(bootstrap::Encoder& out, const PartPlace& place) {
  out.u32(place.run).u32(place.part);
  put(out, place.table);
  put(out, place.seats);
  out.u16(place.nonce);
}

Result<PartPlace> get_part_place(bootstrap::Decoder& in) {
  PartPlace place;
  place.run = in.u32();
  place.part = in.u32();
  place.table = FERRY_TRY(get_region(in));
  place.seats = FERRY_TRY(get_region(in));
  place.nonce = in.u16();
  return place;
}

void put(bootstrap::Encoder& out, const JobView& view) {
  out.u64(view.number).u32(static_cast<std::uint32_t>(view.gone.size()));
  for (const auto server : view.gone) out.u32(server);
  out.u32(static_cast<std::uint32_t>(view.newcomers.size()));
  for (const auto& newcomer : view.newcomers) {
    out.u32(newcomer.server).u32(newcomer.turn).u64(newcomer.since);
    put(out, newcomer.place);
  }
  out.u32(view.coming);
}

Result<JobView> get_view(bootstrap::Decoder& in, const JobOptions& job) {
  JobView view;
  view.number = in.u64();
  const auto count = in.u32();
  for (std::uint32_t each = 0; each < count && in.ok(); ++each) {
    view.gone.push_back(in.u32());
    if (view.gone.back() >= job.servers)
      return fail(Code::kOutOfRange, "server {} of {} is gone", view.gone.back(), job.servers);
  }
  const auto newcomers = in.u32();
  for (std::uint32_t each = 0; each < newcomers && in.ok(); ++each) {
    auto& newcomer = view.newcomers.emplace_back();
    newcomer.server = in.u32();
    newcomer.turn = in.u32();
    newcomer.since = in.u64();
    newcomer.place = FERRY_TRY(get_server(in));
    if (newcomer.server >= job.servers)
      return fail(Code::kOutOfRange, "server {} of {} has come", newcomer.server, job.servers);
  }
  view.coming = in.u32();
  return view;
}

const Newcomer* JobView::newcomer(std::uint32_t server) const {
  for (const auto& each : newcomers)
    if (each.server == server) return &each;
  return nullptr;
}

bool JobView::is_gone(std::uint32_t server) const {
  return std::find(gone.begin(), gone.end(), server) != gone.end();
}

Status check_job(const JobOptions& job) {
  if (job.servers == 0 || job.servers > kMostServers)
    return fail(Code::kOutOfRange, "a job has 1 to {} servers, not {}", kMostServers, job.servers);
  if (job.workers == 0 || job.workers > kMostWorkers)
    return fail(Code::kOutOfRange, "a job has 1 to {} workers, not {}", kMostWorkers, job.workers);
  if (job.start_with > job.workers)
    return fail(Code::kOutOfRange, "a job of {} workers cannot start with {}", job.workers,
                job.start_with);
  if (job.consistency < Consistency::kSync || job.consistency > Consistency::kAsync)
    return fail(Code::kInvalidArgument, "there is no consistency number {}",
                static_cast<int>(job.consistency));
  if (job.merge && job.consistency != Consistency::kSync)
    return fail(Code::kInvalidArgument,
                "only synchronous jobs merge gradients: without steps in common there is no moment "
                "at which those of a host belong together");
  if (job.block_bytes < 4096 || job.block_bytes > (std::uint64_t{64} << 20) ||
      job.block_bytes % 64 != 0)
    return fail(Code::kOutOfRange, "blocks have 4 KiB to 64 MiB and a multiple of 64, not {} bytes",
                job.block_bytes);
  if (job.pool_blocks < job.workers || job.pool_blocks > 65536)
    return fail(Code::kOutOfRange,
                "a pool of {} blocks for {} workers: it needs at least one for each, and at most "
                "65536",
                job.pool_blocks, job.workers);
  if (job.replicas == 0 || job.replicas > 2 || job.replicas > job.servers)
    return fail(Code::kOutOfRange,
                "{} replicas on {} servers: each block is on 1 server or on 2, which are not the "
                "same",
                job.replicas, job.servers);
  return {};
}

bool starts(const JobOptions& job, std::uint32_t rank) {
  return job.start_with == 0 || rank < job.start_with;
}

std::uint32_t slots_each(const JobOptions& job) { return job.pool_blocks / job.workers; }

}  // namespace ferry::ps
