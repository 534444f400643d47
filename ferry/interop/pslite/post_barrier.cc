#include <algorithm>
#include <chrono>

#include "ferry/interop/pslite/post_core_internal.h"

// Barriers. The scheduler counts who has come.

namespace ps {

using ferry::bootstrap::Encoder;

void Postoffice::Core::barrier(int customer_id, int group) {
  const auto& nodes = settings.groups.at(group);
  if (nodes.size() <= 1) return;
  CHECK(std::find(nodes.begin(), nodes.end(), id) != nodes.end())
      << "node " << id << " is not in the group of the barrier";
  Lock lock(mu_);
  const auto request = ++last_request_;
  lock.unlock();
  if (settings.is_scheduler()) {
    count_barrier(id, customer_id, group, request);
  } else {
    const PostHub::Use use(hub_);
    CHECK(use) << "Start() was not called, or Finalize(0) was";
    auto message = head_of(MessageKind::kBarrier, id);
    Encoder(message)
        .u32(static_cast<std::uint32_t>(customer_id))
        .u32(static_cast<std::uint32_t>(group))
        .u32(request);
    if (const auto scheduler = route_to(kScheduler)) hub_.post(scheduler, message);
  }
  lock.lock();
  while (barriers_done_.erase(request) == 0) {
    changed_.wait_for(lock, std::chrono::milliseconds(100));
    lock.unlock();
    check_alive();
    lock.lock();
  }
}

void Postoffice::Core::barrier_arrived(int process, ferry::bootstrap::Decoder& in) {
  const auto customer_id = static_cast<int>(in.u32());
  const auto group = static_cast<int>(in.u32());
  const auto request = in.u32();
  if (in.ok() && group >= 1 && group <= 7) count_barrier(process, customer_id, group, request);
}

void Postoffice::Core::count_barrier(int process, int customer_id, int group,
                                     std::uint32_t request) {
  const Lock lock(mu_);
  barriers_.arrive(counted_ ? 0 : customer_id, group, {process, request});
  finish_barriers();
}

// Where customers have ranks, all of them meet. Else the customers of one number do; servers and
// the scheduler have number 0 only.
void Postoffice::Core::finish_barriers() {
  const auto complete = barriers_.take_complete([this](int customer_id, int group) {
    const bool workers_only = customer_id != 0 && (group & kWorkerGroup) != 0;
    return nodes_.living(settings.groups.at(workers_only ? kWorkerGroup : group));
  });
  for (const auto& one : complete) {
    if (one.process == id) {
      barriers_done_.insert(one.request);
      continue;
    }
    // A process that has left may have a customer that came before; it need not hear.
    const auto peer = nodes_.route(one.process);
    if (peer == nullptr) continue;
    auto done = head_of(MessageKind::kBarrierDone, id);
    Encoder(done).u32(one.request);
    hub_.post(peer, done);
  }
  if (!complete.empty()) changed_.notify_all();
}

void Postoffice::Core::barrier_done(std::uint32_t request) {
  const Lock lock(mu_);
  barriers_done_.insert(request);
  changed_.notify_all();
}

}  // namespace ps
