#include <algorithm>
#include <chrono>
#include <iterator>

#include "ferry/interop/pslite/post_core_internal.h"

// Barriers. The scheduler counts who has come.

namespace ps {

using ferry::bootstrap::Encoder;

void Postoffice::Core::barrier(int customer_id, int group) {
  const auto& nodes = groups.at(group);
  if (nodes.size() <= 1) return;
  CHECK(std::find(nodes.begin(), nodes.end(), id) != nodes.end())
      << "node " << id << " is not in the group of the barrier";
  std::unique_lock<std::mutex> lock(mu_);
  const auto request = ++last_request_;
  lock.unlock();
  if (role == "scheduler") {
    count_barrier(id, customer_id, group, request);
  } else {
    std::vector<std::byte> body;
    Encoder(body)
        .u32(static_cast<std::uint32_t>(customer_id))
        .u32(static_cast<std::uint32_t>(group))
        .u32(request);
    say(kScheduler, Kind::kBarrier, body);
  }
  lock.lock();
  while (barriers_done_.erase(request) == 0) {
    changed_.wait_for(lock, std::chrono::milliseconds(100));
    lock.unlock();
    check_alive();
    lock.lock();
  }
}

void Postoffice::Core::count_barrier(int process, int customer_id, int group,
                                     std::uint32_t request) {
  std::unique_lock<std::mutex> lock(mu_);
  barriers_[{counted_ ? 0 : customer_id, group}].push_back({process, request});
  finish_barriers();
}

// The processes that have to come, and how many of their customers. Where customers have ranks,
// all of them meet. Else the customers of one number do; servers and the scheduler have number 0
// only.
std::map<int, int> Postoffice::Core::barrier_members(int customer_id, int group) const {
  std::map<int, int> members;
  const bool workers_only = customer_id != 0 && (group & kWorkerGroup) != 0;
  for (const int node : groups.at(workers_only ? kWorkerGroup : group)) {
    const auto entry = table_.find(node);
    if (entry != table_.end() && dead_.count(entry->second.process) == 0)
      ++members[entry->second.process];
  }
  return members;
}

void Postoffice::Core::forget_waiting(int process) {
  for (auto each = barriers_.begin(); each != barriers_.end();) {
    auto& waiting = each->second;
    waiting.erase(std::remove_if(waiting.begin(), waiting.end(),
                                 [process](const Waiting& one) { return one.process == process; }),
                  waiting.end());
    each = waiting.empty() ? barriers_.erase(each) : std::next(each);
  }
}

void Postoffice::Core::finish_barriers() {
  for (auto each = barriers_.begin(); each != barriers_.end();) {
    auto& waiting = each->second;
    auto missing = barrier_members(each->first.first, each->first.second);
    std::vector<Waiting> come;
    std::vector<Waiting> early;  // for the next barrier: their process has sent enough for this one
    for (const auto& one : waiting) {
      const auto member = missing.find(one.process);
      if (member != missing.end() && member->second-- > 0)
        come.push_back(one);
      else
        early.push_back(one);
    }
    const bool all = std::all_of(missing.begin(), missing.end(),
                                 [](const auto& member) { return member.second <= 0; });
    if (!all) {
      ++each;
      continue;
    }
    for (const auto& one : come) {
      if (one.process == id) {
        barriers_done_.insert(one.request);
        continue;
      }
      // A process that has left may have a customer that came before; it need not hear.
      const auto route = routes_.find(one.process);
      if (route == routes_.end()) continue;
      auto done = head_of(Kind::kBarrierDone);
      Encoder(done).u32(one.request);
      post(route->second, done, nullptr);
    }
    changed_.notify_all();
    waiting = std::move(early);
    each = waiting.empty() || come.empty() ? barriers_.erase(each) : each;
  }
}

void Postoffice::Core::barrier_done(std::uint32_t request) {
  std::unique_lock<std::mutex> lock(mu_);
  barriers_done_.insert(request);
  changed_.notify_all();
}

}  // namespace ps
