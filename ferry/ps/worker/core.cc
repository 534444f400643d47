#include <algorithm>
#include <chrono>

#include "ferry/base/log.h"
#include "ferry/ps/wire/protocol_version_internal.h"
#include "ferry/ps/worker/core_internal.h"
#include "ferry/ps/worker/rows_internal.h"

namespace ferry::ps {
namespace {

constexpr std::chrono::milliseconds kCheckDeadline{100};
constexpr std::chrono::seconds kLeaving{2};
constexpr std::chrono::milliseconds kAskAgain{200};
constexpr std::chrono::seconds kMaking{10};  // servers may take long to make a tensor

}  // namespace

WorkerCore::WorkerCore()
    : members_(context_,
               [this](std::uint32_t server, Deadline deadline) -> Status {
                 FERRY_TRY(tensors_.register_with(server, deadline));
                 return memories_.register_with(server, deadline);
               }),
      tensors_(context_, members_),
      memories_(context_, members_),
      pusher_(context_, members_, tensors_, memories_, log_),
      puller_(context_, members_, tensors_,
              [this](Deadline deadline) { return pusher_.wait_fresh(deadline); }) {}

Result<std::unique_ptr<WorkerCore>> WorkerCore::open(WorkerOptions options, Deadline deadline) {
  std::unique_ptr<WorkerCore> core(new WorkerCore());
  core->context_.options = std::move(options);
  const auto& device = core->context_.options.device;
  core->context_.control.emplace(FERRY_TRY(fabric::Device::open(control_options(device))));
  core->context_.data.emplace(FERRY_TRY(fabric::Device::open(device)));
  FERRY_TRY(core->join(deadline));
  return core;
}

Result<WorkerCore::CallLock> WorkerCore::lock(Deadline deadline) {
  const bool two = context_.job.replicas > 1 && context_.job.consistency == Consistency::kAsync;
  if (!two) return CallLock(nullptr, nullptr);
  LockGuard<Mutex> guard(mutex_);
  while (in_call_) {
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded, "worker {} is at something else, on another thread",
                  context_.rank);
    (void)call_ended_.wait_for(mutex_, std::min<Nanos>(deadline.left(), kCheckDeadline));
  }
  in_call_ = true;
  return CallLock(this, [](WorkerCore* core) {
    LockGuard<Mutex> again(core->mutex_);
    core->in_call_ = false;
    core->call_ended_.notify_one();
  });
}

Status WorkerCore::join(Deadline deadline) {
  context_.scheduler =
      FERRY_TRY(SchedulerLink::connect(*context_.control, context_.options.scheduler, deadline));
  Bytes wish;
  bootstrap::Encoder out(wish);
  put_protocol_version(out);
  out.u32(context_.options.rank.value_or(~0U));
  const auto answer = FERRY_TRY(context_.scheduler->join(Ask::kJoinWorker, wish, deadline));
  bootstrap::Decoder in(answer);
  const auto welcome = FERRY_TRY(get_welcome(in));
  FERRY_TRY(in.finish("the scheduler's welcome"));
  context_.rank = welcome.rank;
  context_.job = welcome.job;
  FERRY_TRY(open_for_neighbours());
  Bytes who;
  bootstrap::Encoder back(who);
  put_protocol_version(back);
  back.u32(context_.rank).u64(welcome.token);
  context_.scheduler->stay(Ask::kBackWorker, who, context_.job, context_.options.device);
  FERRY_TRY(members_.join(welcome.servers, deadline));
  FERRY_TRY(pusher_.merger().open());
  return enter(deadline);
}

Status WorkerCore::open_for_neighbours() {
  auto options = context_.options.device;
  if (!context_.job.merge || options.provider == "auto" ||
      options.provider.find("shm") != std::string::npos)
    return {};
  options.provider = "shm," + options.provider;
  context_.data.reset();
  context_.data.emplace(FERRY_TRY(fabric::Device::open(options)));
  return {};
}

Status WorkerCore::enter(Deadline deadline) {
  Bytes where;
  bootstrap::Encoder(where)
      .string(context_.options.host.empty() ? fabric::host_id() : context_.options.host)
      .string(context_.data->id().to_string())
      .string(pusher_.merger().is_on() ? context_.data->endpoint() : "");
  const auto answer = FERRY_TRY(context_.scheduler->call(Ask::kEnter, where, deadline));
  bootstrap::Decoder in(answer);
  const auto step = in.u64();
  log_.enter(step, in.u32());
  return in.finish("the step that the job is in");
}

WorkerCore::~WorkerCore() {
  if (!left_ && context_.scheduler != nullptr && context_.scheduler->alive()) {
    auto left = leave(Deadline::after(kLeaving));
    if (!left)
      logger().debug("worker {} did not leave in time: {}", context_.rank, left.error().message());
  }
  members_.close();
}

Status WorkerCore::leave(Deadline deadline) {
  if (left_) return {};
  auto flushed = pusher_.flush(deadline);
  left_ = true;
  const auto told = context_.scheduler->call(Ask::kLeave, {}, deadline);
  // The scheduler was started again before its answer came: it knows.
  if (!told && told.error().code() != Code::kAlreadyExists)
    return tl::unexpected<Error>(told.error());
  context_.scheduler->end();
  return flushed;
}

Result<Bytes> WorkerCore::ask_and_resend(Ask what, const Bytes& body, Nanos slice,
                                         Deadline deadline) {
  for (;;) {
    auto answer = context_.scheduler->call(what, body, std::min(deadline, Deadline::after(slice)));
    const bool later = !answer && answer.error().code() == Code::kDeadlineExceeded;
    if (!later || deadline.expired()) return answer;
    // What a server that is gone means is the scheduler's to say.
    FERRY_TRY(pusher_.handle_changes(deadline));
  }
}

Status WorkerCore::barrier(Deadline deadline) {
  Bytes number;
  bootstrap::Encoder(number).u64(++barriers_);
  FERRY_TRY(ask_and_resend(Ask::kBarrier, number, kAskAgain, deadline));
  return {};
}

Result<std::vector<std::string>> WorkerCore::names(Deadline deadline) {
  const auto answer = FERRY_TRY(context_.scheduler->call(Ask::kNames, {}, deadline));
  bootstrap::Decoder in(answer);
  std::vector<std::string> names;
  while (in.remaining() > 0 && in.ok()) names.emplace_back(in.string(kMostName));
  FERRY_TRY(in.finish("the tensors' names"));
  return names;
}

Result<std::string> WorkerCore::snapshot(const std::string& folder, Deadline deadline) {
  FERRY_TRY(pusher_.flush(deadline));
  Bytes wish;
  bootstrap::Encoder(wish).string(folder);
  const auto answer = FERRY_TRY(context_.scheduler->call(Ask::kSnapshot, wish, deadline));
  bootstrap::Decoder in(answer);
  auto path = std::string(in.string(kMostPath));
  FERRY_TRY(in.finish("a snapshot's path"));
  return path;
}

Result<std::vector<std::uint32_t>> WorkerCore::members(Deadline deadline) {
  const auto answer = FERRY_TRY(context_.scheduler->call(Ask::kMembers, {}, deadline));
  bootstrap::Decoder in(answer);
  std::vector<std::uint32_t> ranks;
  while (in.remaining() > 0 && in.ok()) ranks.push_back(in.u32());
  FERRY_TRY(in.finish("the members"));
  return ranks;
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
  const auto answer = FERRY_TRY(ask_and_resend(Ask::kInit, wish, kMaking, deadline));
  bootstrap::Decoder in(answer);
  const bool created = in.u8() != 0;
  const bool is_new_view = in.u64() > members_.view();
  auto info = FERRY_TRY(get_tensor(in));
  FERRY_TRY(in.finish("a tensor"));
  // Whoever has to have the first values is known before they are sent.
  if (is_new_view) FERRY_TRY(members_.fetch_view(Newcomers::kConnect, deadline));
  FERRY_TRY(members_.sync_view(deadline));
  const auto parameter = FERRY_TRY(tensors_.open(std::move(info), deadline));
  if (!created) return parameter;
  Bytes zeros;
  if (values.empty()) zeros.resize(bytes);
  FERRY_TRY(pusher_.assign(parameter, values.empty() ? zeros : values, deadline));
  Bytes id;
  bootstrap::Encoder(id).u32(tensors_[parameter].info.id);
  FERRY_TRY(context_.scheduler->call(Ask::kThere, id, deadline));
  return parameter;
}

Result<Parameter> WorkerCore::find(std::string_view name, Deadline deadline) {
  if (const auto known = tensors_.find(name)) return *known;
  Bytes wish;
  bootstrap::Encoder(wish).string(name.substr(0, kMostName));
  const auto answer = FERRY_TRY(ask_and_resend(Ask::kFind, wish, kAskAgain, deadline));
  bootstrap::Decoder in(answer);
  (void)in.u8();
  (void)in.u64();
  auto info = FERRY_TRY(get_tensor(in));
  FERRY_TRY(in.finish("a tensor"));
  return tensors_.open(std::move(info), deadline);
}

// Where nothing is mapped, servers send new values on their own: no question, no answer, and no
// version to compare, since flags come after all that was written before them.
Result<Pulled> WorkerCore::push_pull(Parameter parameter, std::span<const std::byte> gradient,
                                     Deadline deadline) {
  auto& to = *FERRY_TRY(tensors_.at(parameter));
  const bool back = !to.is_mapped_anywhere();
  if (back && !to.landing) FERRY_TRY(tensors_.make_landing(to, deadline));
  const auto view = members_.view();
  FERRY_TRY(pusher_.push(parameter, gradient, deadline, {.back = back}));
  const bool asked = back && !pusher_.merger().holds_back();
  FERRY_TRY(pusher_.end_step(deadline));
  if (!context_.is_sync()) FERRY_TRY(pusher_.flush(deadline));
  if (!asked) return puller_.pull(parameter, deadline);
  FERRY_TRY(pusher_.wait_fresh(deadline));
  // Who was to send them may be gone.
  return members_.view() != view ? puller_.pull(parameter, deadline)
                                 : puller_.take_landed(parameter);
}

Status WorkerCore::push_rows(Parameter parameter, std::span<const std::uint64_t> rows,
                             std::span<const std::byte> values, Deadline deadline) {
  const auto& to = *FERRY_TRY(tensors_.at(parameter));
  FERRY_TRY(check_rows(to, rows, values.size(), context_.job.block_bytes));
  FERRY_TRY(pusher_.check_gradient(to, values));
  return pusher_.push_rows(
      parameter, pack_rows(to, parameter, rows, values, context_.job.block_bytes), deadline);
}

}  // namespace ferry::ps
