#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/fabric/options.h"
#include "ferry/ps/options.h"

namespace ferry::ps {

struct SchedulerOptions {
  JobOptions job{};
  // Where it listens, the secret, patience; it is reached over tcp. Workers, and servers whose
  // blocks nobody else has, may be silent for `give_up` before the job goes on without them, or
  // ends.
  fabric::Options device{};
  // The job begins with the newest whole snapshot of this folder; without one, if the folder has
  // none at all. If it has only broken ones, open() fails with kDataLoss. The number of servers may
  // be another. Workers and servers see the same files.
  std::string restore{};
  // Where the scheduler keeps what it knows, so that another one can go on after its end: a file, a
  // folder, or etcd://HOST:PORT/KEY. Empty: nowhere, and the job ends with it. What is kept there
  // of a job that goes on is where this one begins; it listens where the one before did, unless
  // `device` names a port.
  std::string state{};
  // With a state: how long a scheduler may be away, and how long one that is back waits for those
  // who were there. Scaled by the device's patience.
  Nanos away = std::chrono::seconds(30);
  // With two copies of each block: a server that is silent for this long is taken out of the job,
  // and the copies of its blocks take over. Scaled by the device's patience, and
  // then at least 1 s.
  Nanos lease = std::chrono::seconds(3);
};

struct SchedulerStats {
  std::uint32_t servers = 0;       // that have come
  std::uint32_t servers_gone = 0;  // that the job goes on without
  std::uint32_t workers = 0;       // that are there
  std::uint32_t left = 0;          // workers that said so
  std::uint32_t dead = 0;          // workers that did not
  std::uint32_t tensors = 0;
};

// Knows who takes part in a job, where blocks lie, and who has died. Works on a thread of its own.
// Thread-safe, but for moving and destruction.
class Scheduler {
 public:
  static Result<Scheduler> open(SchedulerOptions options);
  Scheduler(Scheduler&&) noexcept;
  Scheduler& operator=(Scheduler&&) noexcept;
  ~Scheduler();

  std::string endpoint() const;
  // Until every worker has left. kAborted: too many have died, or a server has. kDeadlineExceeded:
  // the job goes on.
  Status wait(Deadline deadline);
  SchedulerStats stats() const;

 private:
  class Service;
  explicit Scheduler(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace ferry::ps
