#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "ferry/base/log.h"
#include "ferry/bootstrap/endpoint.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/ps/scheduler/service_internal.h"
#include "ferry/ps/server/snapshot_internal.h"

namespace ferry::ps {
namespace {

constexpr std::chrono::minutes kDisk{10};
constexpr std::chrono::milliseconds kProbe{500};
constexpr std::size_t kKeptSnapshots = 2;  // the last one, and the one before in case it is broken

Result<std::uint64_t> random_token() {
  std::array<std::byte, 8> bytes{};
  FERRY_TRY(bootstrap::random_bytes(bytes));
  return bootstrap::Decoder(bytes).u64();
}

}  // namespace

Result<std::unique_ptr<Scheduler::Service>> Scheduler::Service::open(SchedulerOptions options) {
  FERRY_TRY(check_job(options.job));
  std::unique_ptr<Service> service(new Service(std::move(options)));
  FERRY_TRY(service->open_job());
  const auto& own = service->options_;
  auto control = control_options(own.device);
  auto asking = control;
  if (own.job.replicas > 1) asking.give_up = scaled(own.lease, control);
  service->asking_.emplace(FERRY_TRY(fabric::Device::open(asking)));
  control.listen = own.device.listen;
  const auto listen = FERRY_TRY(bootstrap::Endpoint::parse(control.listen));
  const auto& former = service->former_endpoint_;
  if (!former.empty() && listen.port == 0) control.listen = former;
  FERRY_TRY(RpcServer::open(control, *service, service->control_));
  return service;
}

Status Scheduler::Service::open_job() {
  JobState::Setup setup{.job = options_.job, .writes_state = !options_.state.empty()};
  const std::chrono::duration<double, std::milli> away = options_.away * options_.device.patience;
  if (setup.writes_state)
    setup.job.scheduler_away_ms = static_cast<std::uint32_t>(std::max(away.count(), 1.0));
  const std::chrono::milliseconds span(setup.job.scheduler_away_ms);
  if (setup.writes_state) {
    if (const auto image = FERRY_TRY(load_image(setup.job))) {
      former_endpoint_ = image->endpoint;
      job_ = std::make_unique<JobState>(std::move(setup), *image, Deadline::after(span).ns());
      publish_stats();
      logger().info("goes on with the state in {}", options_.state);
      return {};
    }
  }
  if (!options_.restore.empty()) setup.snapshot = FERRY_TRY(find_snapshot());
  job_ = std::make_unique<JobState>(std::move(setup));
  return {};
}

Result<std::optional<JobImage>> Scheduler::Service::load_image(const JobOptions& job) {
  store_ = FERRY_TRY(Store::open(options_.state));
  // Members wait for a scheduler just as long.
  const auto away = std::chrono::milliseconds(job.scheduler_away_ms);
  const auto bytes = FERRY_TRY(load_patiently(*store_, Deadline::after(away)));
  if (!bytes) return std::optional<JobImage>();
  auto image = JobImage::decode(*bytes, job);
  if (!image)
    return fail(image.error().code(), "the state of a scheduler in {}: {}", options_.state,
                image.error().message());
  return image;
}

Result<std::optional<SnapshotToRestore>> Scheduler::Service::find_snapshot() const {
  auto found = Snapshots(options_.restore).newest();
  if (!found && found.error().code() == Code::kNotFound) {
    logger().warn("{}; the job begins without", found.error().message());
    return std::optional<SnapshotToRestore>();
  }
  auto snapshot = FERRY_TRY(std::move(found));
  return SnapshotToRestore{snapshot.path, std::move(snapshot.tensors), snapshot.servers};
}

SchedulerStats Scheduler::Service::stats() {
  LockGuard<Mutex> guard(lock_);
  return stats_;
}

void Scheduler::Service::publish_stats() {
  LockGuard<Mutex> guard(lock_);
  stats_ = job_->stats();
}

Result<std::optional<Bytes>> Scheduler::Service::asked(const RpcServer::Question& question,
                                                       bootstrap::Decoder& body) {
  const auto token = FERRY_TRY(random_token());
  auto request = FERRY_TRY(decode_request(question.what, body, token));
  take(Asked{{question.peer, question.id}, std::move(request)});
  return std::optional<Bytes>();
}

void Scheduler::Service::gone(std::uint64_t peer) { take(Disconnected{peer}); }

// The lease of a server is the connection on which it is asked: whoever does not answer there for
// that long is out, though its other connections wait longer.
void Scheduler::Service::tick() {
  std::vector<std::uint32_t> silent;
  for (const auto& [server, client] : clients_)
    if (client->lost()) silent.push_back(server);
  for (const auto server : silent) take(ServerSilent{server});
  take(Tick{now_ns()});
}

void Scheduler::Service::take(const Event& event) {
  job_->set_endpoint(control_->endpoint());
  const auto effects = job_->take(event);
  if (std::holds_alternative<Tick>(event) && effects.empty()) return;
  publish_stats();
  perform(effects);
}

void Scheduler::Service::perform(const Effects& effects) {
  std::optional<Event> not_written;
  for (const auto& effect : effects) {
    const auto* answer = std::get_if<Answer>(&effect);
    if (not_written && answer == nullptr) continue;
    if (not_written && answer->answer) {
      const auto& cause = std::get<StateNotWritten>(*not_written).cause;
      perform(Answer{answer->question, tl::unexpected<Error>(cause)});
      continue;
    }
    const auto outcome = std::visit([&](const auto& each) { return perform(each); }, effect);
    if (outcome && std::holds_alternative<StateNotWritten>(*outcome))
      not_written = outcome;
    else if (outcome)
      take(*outcome);
  }
  if (not_written) take(*not_written);
}

std::optional<Event> Scheduler::Service::perform(const WriteState& effect) {
  const auto saved = save_patiently(*store_, effect.image);
  if (saved) return std::nullopt;
  const bool superseded = saved.error().code() == Code::kAborted;
  return StateNotWritten{
      Error(Code::kAborted,
            fmt::format("the scheduler cannot keep its state in {}: {}; the job {}", options_.state,
                        saved.error().message(), superseded ? "is the other one's" : "has ended"),
            0, __FILE__, __LINE__),
      superseded};
}

std::optional<Event> Scheduler::Service::perform(const Answer& effect) {
  control_->reply({.peer = effect.question.peer, .id = effect.question.id}, effect.answer);
  return std::nullopt;
}

Nanos Scheduler::Service::server_answers() const {
  const auto span = scaled(std::chrono::seconds(10), options_.device);
  return options_.job.replicas > 1 ? span : std::max(span, options_.device.give_up);
}

Result<Bytes> Scheduler::Service::ask_server(std::uint32_t server, Ask what, const Bytes& body) {
  const auto client = clients_.find(server);
  if (client == clients_.end())
    return fail(Code::kUnavailable, "there is no connection to server {}", server);
  const bool disk = what == Ask::kSave || what == Ask::kRestore;
  return client->second->call(what, body, Deadline::after(disk ? Nanos(kDisk) : server_answers()));
}

std::optional<Event> Scheduler::Service::perform(const AskServers& effect) {
  ServersAnswered event;
  for (const auto& [server, body] : effect.questions)
    event.answers.push_back({server, ask_server(server, effect.what, body)});
  return event;
}

std::optional<Event> Scheduler::Service::perform(const TellServers& effect) {
  for (const auto server : effect.servers) (void)ask_server(server, effect.what, effect.body);
  return std::nullopt;
}

std::optional<Event> Scheduler::Service::perform(const Connect& effect) {
  clients_.erase(effect.server);
  auto client = RpcClient::connect(*asking_, effect.endpoint, Deadline::after(server_answers()));
  if (!client) return Connected{tl::unexpected<Error>(client.error())};
  clients_[effect.server] = *std::move(client);
  return Connected{};
}

std::optional<Event> Scheduler::Service::perform(const Disconnect& effect) {
  clients_.erase(effect.server);
  return std::nullopt;
}

std::optional<Event> Scheduler::Service::perform(const Probe& effect) {
  Probed event;
  for (const auto& [server, text] : effect.targets) {
    const auto endpoint = bootstrap::Endpoint::parse(text);
    if (!endpoint) continue;
    const auto connected = bootstrap::connect_tcp(*endpoint, Deadline::after(kProbe));
    if (!connected && connected.error().os_code() == ECONNREFUSED) event.refused.push_back(server);
  }
  return event;
}

std::optional<Event> Scheduler::Service::perform(const BeginSnapshot& effect) {
  return SnapshotBegun{Snapshots(effect.folder).begin()};
}

std::optional<Event> Scheduler::Service::perform(const FinishSnapshot& effect) {
  auto finished = Snapshots::finish(effect.path, effect.tensors, effect.files);
  if (finished) Snapshots(effect.folder).keep_newest(kKeptSnapshots);
  return SnapshotFinished{std::move(finished)};
}

std::optional<Event> Scheduler::Service::perform(const Log& effect) {
  switch (effect.level) {
    case Log::Level::kInfo:
      logger().info("{}", effect.text);
      break;
    case Log::Level::kWarning:
      logger().warn("{}", effect.text);
      break;
    case Log::Level::kError:
      logger().error("{}", effect.text);
      break;
  }
  return std::nullopt;
}

std::optional<Event> Scheduler::Service::perform(const EndJob& effect) {
  end_.set(effect.status);
  return std::nullopt;
}

}  // namespace ferry::ps
