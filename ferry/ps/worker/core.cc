#include <algorithm>
#include <chrono>

#include "ferry/base/log.h"
#include "ferry/ps/worker/core_internal.h"

namespace ferry::ps {
namespace {

constexpr std::chrono::milliseconds kLookAround{100};
constexpr std::chrono::seconds kLeaving{2};
constexpr std::chrono::milliseconds kAskAgain{200};
constexpr std::chrono::seconds kMaking{10};  // servers may take long to make a tensor

}  // namespace

Result<std::unique_ptr<WorkerCore>> WorkerCore::open(WorkerOptions options, Deadline deadline) {
  std::unique_ptr<WorkerCore> core(new WorkerCore());
  core->options_ = std::move(options);
  const auto& device = core->options_.device;
  core->asking_.emplace(FERRY_TRY(fabric::Device::open(control_options(device))));
  core->data_.emplace(FERRY_TRY(fabric::Device::open(device)));
  FERRY_TRY(core->join(deadline));
  return core;
}

Result<WorkerCore::Turn> WorkerCore::turn(Deadline deadline) {
  const bool both = job_.replicas > 1 && job_.consistency == Consistency::kAsync;
  if (!both) return Turn(nullptr, nullptr);
  LockGuard<Mutex> guard(turn_lock_);
  while (turn_taken_) {
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded, "worker {} is at something else, on another thread",
                  rank_);
    (void)turn_free_.wait_for(turn_lock_, std::min<Nanos>(deadline.left(), kLookAround));
  }
  turn_taken_ = true;
  return Turn(this, [](WorkerCore* core) {
    LockGuard<Mutex> again(core->turn_lock_);
    core->turn_taken_ = false;
    core->turn_free_.notify_one();
  });
}

Status WorkerCore::join(Deadline deadline) {
  scheduler_ = FERRY_TRY(SchedulerLink::connect(*asking_, options_.scheduler, deadline));
  Bytes wish;
  bootstrap::Encoder(wish).u32(options_.rank.value_or(~0U));
  const auto answer = FERRY_TRY(scheduler_->join(Ask::kJoinWorker, wish, deadline));
  bootstrap::Decoder in(answer);
  const auto welcome = FERRY_TRY(get_welcome(in));
  FERRY_TRY(in.finish("the scheduler's welcome"));
  rank_ = welcome.rank;
  job_ = welcome.job;
  FERRY_TRY(open_for_neighbours());
  Bytes who;
  bootstrap::Encoder(who).u32(rank_).u64(welcome.token);
  scheduler_->stay(Ask::kBackWorker, who, job_, options_.device);
  servers_.resize(welcome.servers.size());
  for (std::uint32_t each = 0; each < servers_.size(); ++each)
    add_links(each, welcome.servers[each].shards);
  if (job_.replicas > 1) FERRY_TRY(learn_view(deadline));
  for (std::uint32_t each = 0; each < servers_.size(); ++each) {
    // Those who take a place are met afterwards.
    if (servers_[each].gone || known_.newcomer(each) != nullptr) continue;
    FERRY_TRY(prepare_links(each));
    const auto attached = attach(each, welcome.servers[each], deadline);
    if (!attached) FERRY_TRY(outlive(each, attached.error(), deadline));
  }
  joined_ = true;
  FERRY_TRY(look_around(deadline));
  FERRY_TRY(begin_merging());
  return enter(deadline);
}

// From now on steps wait for this worker, if they have not from the beginning.
Status WorkerCore::enter(Deadline deadline) {
  Bytes where;
  bootstrap::Encoder(where)
      .string(options_.host.empty() ? fabric::host_id() : options_.host)
      .string(data_->id().to_string())
      .string(merging_.on ? data_->endpoint() : "");
  const auto answer = FERRY_TRY(scheduler_->call(Ask::kEnter, where, deadline));
  bootstrap::Decoder in(answer);
  entered_ = step_ = in.u64();
  attempt_ = in.u32();
  return in.finish("the step that the job is in");
}

void WorkerCore::add_links(std::uint32_t server, std::uint32_t shards) {
  auto& at = servers_[server];
  at.shards = shards;
  at.first_link = static_cast<std::uint32_t>(shards_.size());
  at.first_shard = at.first_link / job_.replicas;
  for (std::uint32_t each = 0; each < shards * job_.replicas; ++each) shards_.emplace_back(server);
}

Status WorkerCore::prepare_links(std::uint32_t server) {
  auto& at = servers_[server];
  const auto count = at.shards * job_.replicas;
  at.words = FERRY_TRY(data_->allocate(count * kWordsBytes));
  for (std::uint32_t each = 0; each < count; ++each) {
    shards_[at.first_link + each] =
        ShardLink(server, at.channel, at.words.data() + each * kWordsBytes, job_);
  }
  return {};
}

Status WorkerCore::attach(std::uint32_t server, const ServerPlace& place, Deadline deadline) {
  auto& at = servers_[server];
  at.channel = FERRY_TRY(data_->connect(place.data, {.deadline = deadline}));
  spin_.add(*data_, at.channel);
  stats_.spin = spin_.now();
  at.control = FERRY_TRY(RpcClient::connect(*asking_, place.control, deadline));
  const auto words = FERRY_TRY(data_->grant(at.words, fabric::Rights::kReadWrite, at.channel));
  Bytes wish;
  bootstrap::Encoder out(wish);
  const auto id = data_->id();
  out.u32(rank_).raw(std::as_bytes(std::span(id.bytes)));
  put(out, words);
  const auto answer = FERRY_TRY(at.control->call(Ask::kAttach, wish, deadline));
  bootstrap::Decoder in(answer);
  for (std::uint32_t each = 0; each < at.shards * job_.replicas; ++each) {
    const auto shard = FERRY_TRY(get_shard_place(in));
    const auto mapped = at.channel.map(shard.pool);
    shards_[at.first_link + each].attach(shard, mapped ? mapped->data() : nullptr);
  }
  return in.finish("a server's shards");
}

WorkerCore::~WorkerCore() {
  if (!left_ && scheduler_ != nullptr && scheduler_->alive()) {
    auto left = leave(Deadline::after(kLeaving));
    if (!left) logger().debug("worker {} did not leave in time: {}", rank_, left.error().message());
  }
  for (auto& server : servers_) server.channel.close();
}

Status WorkerCore::leave(Deadline deadline) {
  if (left_) return {};
  auto flushed = flush(deadline);
  left_ = true;
  const auto told = scheduler_->call(Ask::kLeave, {}, deadline);
  // The scheduler was started again before its answer came: it knows.
  if (!told && told.error().code() != Code::kAlreadyExists)
    return tl::unexpected<Error>(told.error());
  scheduler_->end();
  return flushed;
}

Result<Bytes> WorkerCore::ask_and_look(Ask what, const Bytes& body, Nanos slice,
                                       Deadline deadline) {
  for (;;) {
    auto answer = scheduler_->call(what, body, std::min(deadline, Deadline::after(slice)));
    const bool later = !answer && answer.error().code() == Code::kDeadlineExceeded;
    if (!later || deadline.expired()) return answer;
    // What a server that is gone means is the scheduler's to say.
    if (stirred() || half_ != 0) FERRY_TRY(look_after(deadline));
  }
}

Status WorkerCore::barrier(Deadline deadline) {
  Bytes number;
  bootstrap::Encoder(number).u64(++barriers_);
  FERRY_TRY(ask_and_look(Ask::kBarrier, number, kAskAgain, deadline));
  return {};
}

Result<std::vector<std::string>> WorkerCore::names(Deadline deadline) {
  const auto answer = FERRY_TRY(scheduler_->call(Ask::kNames, {}, deadline));
  bootstrap::Decoder in(answer);
  std::vector<std::string> names;
  while (in.remaining() > 0 && in.ok()) names.emplace_back(in.string(kMostName));
  FERRY_TRY(in.finish("the tensors' names"));
  return names;
}

Result<std::string> WorkerCore::snapshot(const std::string& folder, Deadline deadline) {
  FERRY_TRY(flush(deadline));
  Bytes wish;
  bootstrap::Encoder(wish).string(folder);
  const auto answer = FERRY_TRY(scheduler_->call(Ask::kSnapshot, wish, deadline));
  bootstrap::Decoder in(answer);
  auto path = std::string(in.string(kMostPath));
  FERRY_TRY(in.finish("a snapshot's path"));
  return path;
}

Result<std::vector<std::uint32_t>> WorkerCore::members(Deadline deadline) {
  const auto answer = FERRY_TRY(scheduler_->call(Ask::kMembers, {}, deadline));
  bootstrap::Decoder in(answer);
  std::vector<std::uint32_t> ranks;
  while (in.remaining() > 0 && in.ok()) ranks.push_back(in.u32());
  FERRY_TRY(in.finish("the members"));
  return ranks;
}

Result<TensorLink*> WorkerCore::tensor(Parameter parameter) {
  if (parameter >= tensors_.size())
    return fail(Code::kNotFound, "there is no parameter {}; init() and find() give their numbers",
                parameter);
  return &tensors_[parameter];
}

Result<Parameter> WorkerCore::init(std::string_view name, const tensor::Spec& spec,
                                   std::span<const std::byte> values, const Update& update,
                                   Deadline deadline) {
  if (name.empty() || name.size() > kMostName)
    return fail(Code::kInvalidArgument, "a tensor's name has 1 to {} letters, not {}", kMostName,
                name.size());
  if (spec.type != tensor::ElementType::kF32 && spec.type != tensor::ElementType::kF16 &&
      spec.type != tensor::ElementType::kBf16)
    return fail(Code::kInvalidArgument, "tensor '{}' of {}: parameters are f32, f16 or bf16", name,
                tensor::name_of(spec.type));
  const auto bytes = FERRY_TRY(spec.bytes());
  if (bytes == 0) return fail(Code::kInvalidArgument, "tensor '{}' has no elements", name);
  if (!values.empty() && values.size() != bytes)
    return fail(Code::kInvalidArgument, "tensor '{}' is {}, which has {} bytes; {} were given",
                name, spec.to_string(), bytes, values.size());
  Bytes wish;
  bootstrap::Encoder out(wish);
  out.string(name);
  put(out, spec);
  put(out, update);
  const auto answer = FERRY_TRY(ask_and_look(Ask::kInit, wish, kMaking, deadline));
  bootstrap::Decoder in(answer);
  const bool created = in.u8() != 0;
  const bool moved_on = in.u64() > view_;
  auto info = FERRY_TRY(get_tensor(in));
  FERRY_TRY(in.finish("a tensor"));
  // Whoever has to have the first values is known before they are sent.
  if (moved_on) FERRY_TRY(learn_view(deadline));
  FERRY_TRY(look_around(deadline));
  const auto parameter = FERRY_TRY(open_tensor(std::move(info), deadline));
  if (!created) return parameter;
  FERRY_TRY(assign(parameter, values, deadline));
  Bytes id;
  bootstrap::Encoder(id).u32(tensors_[parameter].info.id);
  FERRY_TRY(scheduler_->call(Ask::kThere, id, deadline));
  return parameter;
}

Result<Parameter> WorkerCore::find(std::string_view name, Deadline deadline) {
  if (const auto known = names_.find(name); known != names_.end()) return known->second;
  Bytes wish;
  bootstrap::Encoder(wish).string(name.substr(0, kMostName));
  const auto answer = FERRY_TRY(ask_and_look(Ask::kFind, wish, kAskAgain, deadline));
  bootstrap::Decoder in(answer);
  (void)in.u8();
  (void)in.u64();
  auto info = FERRY_TRY(get_tensor(in));
  FERRY_TRY(in.finish("a tensor"));
  return open_tensor(std::move(info), deadline);
}

Result<Parameter> WorkerCore::open_tensor(TensorInfo info, Deadline deadline) {
  if (const auto known = names_.find(info.name); known != names_.end()) return known->second;
  TensorLink tensor;
  tensor.bytes = FERRY_TRY(info.spec.bytes());
  tensor.row_bytes = tensor::size_of(info.spec.type);
  for (std::size_t dim = 1; dim < info.spec.shape.rank(); ++dim)
    tensor.row_bytes *= static_cast<std::uint64_t>(info.spec.shape.dim(dim));
  tensor.info = std::move(info);
  tensor.parts.resize(tensor.info.runs.size() * job_.replicas);
  const auto shards = shards_.size() / job_.replicas;
  for (std::size_t index = 0; index < tensor.parts.size(); ++index) {
    auto& part = tensor.parts[index];
    part.run = tensor.info.runs[index % tensor.info.runs.size()];
    if (part.run.shard >= shards)
      return fail(Code::kDataLoss, "the scheduler speaks of shard {}; there are {}", part.run.shard,
                  shards);
    part.link =
        &link_of(part.run.shard, static_cast<std::uint32_t>(index / tensor.info.runs.size()));
    part.layout = {part.run.bytes, tensor.info.block_bytes};
  }
  const Posting whole(posting_);  // a newcomer that is met knows all tensors
  for (std::uint32_t server = 0; server < servers_.size(); ++server)
    FERRY_TRY(open_parts(tensor, server, deadline));
  const auto parameter = static_cast<Parameter>(tensors_.size());
  names_.emplace(tensor.info.name, parameter);
  tensors_.push_back(std::move(tensor));
  return parameter;
}

Status WorkerCore::open_parts(TensorLink& tensor, std::uint32_t server, Deadline deadline) {
  auto& at = servers_[server];
  Bytes wish;
  bootstrap::Encoder(wish).u32(rank_).u32(tensor.info.id);
  const auto answer = FERRY_TRY(ask_server(server, Ask::kOpen, wish, deadline));
  if (!answer) return {};
  bootstrap::Decoder in(*answer);
  const auto runs = tensor.info.runs.size();
  while (in.remaining() > 0 && in.ok()) {
    const auto place = FERRY_TRY(get_part_place(in));
    std::size_t index = place.run;
    while (index < tensor.parts.size() && tensor.parts[index].link->server() != server)
      index += runs;
    if (place.run >= runs || index >= tensor.parts.size())
      return fail(Code::kDataLoss, "server {} speaks of a part that there is not", server);
    auto& part = tensor.parts[index];
    part.number = place.part;
    part.table = place.table;
    part.nonce = place.nonce;
    const auto table = at.channel.map(place.table);
    const auto seats = at.channel.map(place.seats);
    if (!table || !seats || table->size() < part.layout.total()) continue;
    part.mapped = table->data();
    part.seats = seats->data();
  }
  return in.finish("a server's parts");
}

Status WorkerCore::assign(Parameter parameter, std::span<const std::byte> values,
                          Deadline deadline) {
  Bytes zeros;
  if (values.empty()) zeros.resize(tensors_[parameter].bytes);
  FERRY_TRY(
      post_dense(parameter, Operation::kAssign, values.empty() ? zeros : values, false, deadline));
  const auto taken = [this] {
    return everywhere([](const ShardLink& link) { return link.has_taken_all(); });
  };
  return wait_for(taken, deadline, "first values of a tensor to be taken");
}

Result<tensor::Tensor> WorkerCore::allocate(const tensor::Spec& spec, Deadline deadline) {
  const auto bytes = FERRY_TRY(spec.bytes());
  Memory memory;
  const Posting whole(posting_);  // a newcomer that is met knows all of them
  memory.region = FERRY_TRY(data_->allocate(bytes));
  for (std::uint32_t server = 0; server < servers_.size(); ++server)
    memory.at.push_back(FERRY_TRY(lend(server, memory.region, deadline)));
  FERRY_TRY(show_memory(memory.region, memories_.size()));
  auto tensor = FERRY_TRY(tensor::Tensor::over(spec, memory.region.bytes()));
  memories_.push_back(std::move(memory));
  return tensor;
}

Result<std::optional<std::uint32_t>> WorkerCore::lend(std::uint32_t server,
                                                      const fabric::Region& region,
                                                      Deadline deadline) {
  auto& at = servers_[server];
  if (at.gone) return std::optional<std::uint32_t>();
  Bytes wish;
  bootstrap::Encoder out(wish);
  out.u32(rank_);
  put(out, FERRY_TRY(data_->grant(region, fabric::Rights::kRead, at.channel)));
  const auto answer = FERRY_TRY(ask_server(server, Ask::kGrant, wish, deadline));
  if (!answer) return std::optional<std::uint32_t>();
  bootstrap::Decoder in(*answer);
  const bool mapped = in.u8() != 0;
  FERRY_TRY(in.finish("what a server says of memory"));
  return mapped ? std::optional(at.memories++) : std::nullopt;
}

// A server that is gone is named; the job may go on without it if it has ended. With replicas, that
// is for the scheduler to say.
Status WorkerCore::lost() const {
  for (const auto& link : shards_)
    if (job_.replicas == 1 && !link.channel().alive())
      return fail(Code::kUnavailable, "the server at {} is gone", link.channel().peer_endpoint());
  if (!everywhere([](const ShardLink& link) { return !link.is_aborted(); }))
    return fail(Code::kAborted, "too many workers have died, or a server has; the job has ended");
  return {};
}

bool WorkerCore::stirred() const {
  return !again_ && (owed_ != 0 || !everywhere([this](const ShardLink& link) {
                       return link.attempt() <= attempt_;
                     }));
}

Status WorkerCore::look_after(Deadline deadline) {
  FERRY_TRY(see_view(deadline));
  FERRY_TRY(lost());
  if (stirred()) FERRY_TRY(push_again(deadline));
  if (half_ == 0 || again_) return {};
  return fail(
      Code::kFailedPrecondition,
      "worker {} ran out of time when it had pushed a part of step {}, which can be neither "
      "ended nor pushed again: leave() the job, and open a worker anew",
      rank_, half_);
}

Status WorkerCore::wait_for(InlineFunction<bool()> ready, Deadline deadline, const char* what) {
  for (;;) {
    if (ready()) return {};
    FERRY_TRY(look_after(deadline));
    if (ready()) return {};
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded, "worker {} waited in vain for {}", rank_, what);
    const auto slice = std::min(deadline, Deadline::after(kLookAround));
    auto* look = &ready;
    (void)data_->wait_until([this, look] { return (*look)() || moved() || stirred(); }, slice);
  }
}

}  // namespace ferry::ps
