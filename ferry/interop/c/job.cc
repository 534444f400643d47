#include <sys/random.h>

#include <vector>

#include "ferry/interop/c/handle_internal.h"
#include "ferry/interop/c/ps.h"
#include "ferry/ps/scheduler.h"
#include "ferry/ps/server.h"

struct ferry_job : ferry::interop::OfProcess {
  std::string secret;
  std::string endpoint;
  std::unique_ptr<ferry::ps::Scheduler> scheduler;
  std::vector<ferry::ps::Server> servers;  // gone before the scheduler
};

namespace ferry::interop {

namespace {

constexpr std::chrono::seconds kToJoin{30};

Result<std::string> make_secret() {
  std::array<unsigned char, 32> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return fail_errno(errno, "no random bytes for a secret");
  std::string text;
  for (const auto byte : random) text += fmt::format("{:02x}", byte);
  return text;
}

ps::JobOptions job_options(const ferry_job_options& given) {
  ps::JobOptions options;
  if (given.servers != 0) options.servers = given.servers;
  if (given.workers != 0) options.workers = given.workers;
  if (given.consistency != 0) options.consistency = static_cast<ps::Consistency>(given.consistency);
  options.mean = given.mean != 0;
  options.staleness = given.staleness;
  if (given.block_bytes != 0) options.block_bytes = given.block_bytes;
  if (given.replicas != 0) options.replicas = given.replicas;
  return options;
}

Status open_job(const ferry_job_options& given, ferry_job& job) {
  if (given.consistency < 0 || given.consistency > FERRY_ASYNC)
    return fail(Code::kInvalidArgument, "there is no consistency {}", given.consistency);
  job.secret = given.secret != nullptr ? given.secret : FERRY_TRY(make_secret());
  fabric::Options device;
  device.provider = text_or(given.provider, device.provider.c_str());
  device.listen = text_or(given.listen, device.listen.c_str());
  device.secret = job.secret;
  job.scheduler = std::make_unique<ps::Scheduler>(FERRY_TRY(ps::Scheduler::open(
      {.job = job_options(given), .device = device, .restore = text_or(given.restore, "")})));
  job.endpoint = job.scheduler->endpoint();
  device.listen = device.listen.substr(0, device.listen.rfind(':')) + ":0";
  for (uint32_t each = 0; each < std::max(given.servers, 1U); ++each) {
    ps::ServerOptions server{.scheduler = job.endpoint, .device = device};
    if (given.shards != 0) server.shards = given.shards;
    job.servers.push_back(FERRY_TRY(ps::Server::open(std::move(server), Deadline::after(kToJoin))));
  }
  return {};
}

}  // namespace

}  // namespace ferry::interop

using namespace ferry;           // NOLINT(google-build-using-namespace): entries are outside
using namespace ferry::interop;  // NOLINT(google-build-using-namespace)

ferry_error* ferry_job_open(const ferry_job_options* options, ferry_job** job) {
  return guard([&]() -> Status {
    FERRY_TRY(check_pointers({job}));
    auto made = std::make_unique<ferry_job>();
    const auto given = FERRY_TRY(options_of(options));
    FERRY_TRY(open_job(given, *made));
    *job = made.release();
    return {};
  });
}

void ferry_job_free(ferry_job* job) { free_handle(job); }

const char* ferry_job_scheduler(const ferry_job* job) {
  return job == nullptr ? "" : job->endpoint.c_str();
}
const char* ferry_job_secret(const ferry_job* job) {
  return job == nullptr ? "" : job->secret.c_str();
}
ferry_error* ferry_job_wait(ferry_job* job, int64_t timeout_ns) {
  return guard(job, {}, [&] { return job->scheduler->wait(deadline_of(timeout_ns)); });
}
