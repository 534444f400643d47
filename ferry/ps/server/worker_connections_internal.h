#pragma once

#include <memory>
#include <vector>

#include "ferry/ps/server/worker_connection_internal.h"

namespace ferry::ps {

// The workers of a shard, by rank, and the pool of slots that they share. Belongs to the shard's
// thread.
class WorkerConnections {
 public:
  static Result<WorkerConnections> open(fabric::Device& device, const JobOptions& job);

  // kAlreadyExists: a worker of this rank has sent something and is not frozen.
  Result<ShardPlace> attach(std::uint32_t rank, std::shared_ptr<fabric::Channel> channel,
                            const fabric::RemoteAt& words);
  // Null: nobody is attached.
  WorkerConnection* at(std::uint32_t rank) const { return current_[rank].get(); }
  // Calls f for each that is attached, by rank.
  template <typename F>
  void for_each(F&& f) const {
    for (const auto& each : current_)
      if (each != nullptr) f(*each);
  }
  template <typename F>
  void for_each_unfrozen(F&& f) const {
    for (const auto& each : current_)
      if (each != nullptr && !each->is_frozen()) f(*each);
  }
  bool has_work() const;
  // Nothing that a worker pushed whose rank has another one is part of a step any more. Until now
  // it lay in memory of that worker, mapped by its channel. What those may still write to stays.
  void drop_former();

 private:
  WorkerConnections(fabric::Device& device, const JobOptions& job)
      : device_(&device), job_(job), current_(job.workers) {}

  fabric::Device* device_;
  JobOptions job_;
  fabric::Region pool_;
  std::vector<std::unique_ptr<WorkerConnection>> current_;  // by rank
  std::vector<std::unique_ptr<WorkerConnection>> former_;   // whose ranks have others
};

}  // namespace ferry::ps
