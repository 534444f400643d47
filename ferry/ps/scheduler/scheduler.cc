#include "ferry/ps/scheduler.h"

#include "ferry/ps/scheduler/service_internal.h"

namespace ferry::ps {

Result<Scheduler> Scheduler::open(SchedulerOptions options) {
  return Scheduler(FERRY_TRY(Service::open(std::move(options))));
}
Scheduler::Scheduler(std::unique_ptr<Service> service) : service_(std::move(service)) {}
Scheduler::Scheduler(Scheduler&&) noexcept = default;
Scheduler& Scheduler::operator=(Scheduler&&) noexcept = default;
Scheduler::~Scheduler() = default;
std::string Scheduler::endpoint() const { return service_->endpoint(); }
Status Scheduler::wait(Deadline deadline) { return service_->wait(deadline); }
SchedulerStats Scheduler::stats() const { return service_->stats(); }

}  // namespace ferry::ps
