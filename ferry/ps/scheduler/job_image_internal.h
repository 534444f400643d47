#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ferry/ps/scheduler/job_event_internal.h"

namespace ferry::ps {

enum class WorkerState : std::uint8_t { kExpected = 0, kThere = 1, kOut = 2 };

// What is known of the worker with a rank, or of whoever had the rank last.
struct WorkerRecord {
  WorkerState state = WorkerState::kExpected;
  std::uint64_t token = 0;  // shows that a worker that comes back is this one
  bool left = false;        // it said so
  bool member = true;       // steps wait for it
  std::uint64_t since = 0;  // the last step that it is not part of
  // The attempt that it begins with. The word `redo` puts right one that is older than what is in
  // force at its first step, but not one that is newer: what it pushes would be ignored.
  std::uint32_t attempt = 0;
  std::uint64_t barriers = 0;  // the last barrier that it was let through
  std::string host{};
  std::string device{};     // its DeviceId for data, as text
  std::string neighbour{};  // where those of its host find it; empty: it does not merge
};

struct ServerRecord {
  ServerPlace place;
  std::uint64_t token = 0;
  bool alive = true;  // part of the job, or catching up to be
};

struct TensorRecord {
  TensorInfo info;
  bool there = false;               // it has its first values
  std::uint32_t creator = kNobody;  // the rank that brings these
};

// What servers are told of a worker that enters.
struct AdmissionRecord {
  std::uint32_t rank = kNobody;
  std::uint64_t since = 0;
  std::uint32_t attempt = 0;  // at its first step; 0: that is not begun anew
};

// What servers are told of a worker that is out.
struct DepartureRecord {
  std::uint32_t rank = 0;
  bool counted = false;  // steps waited for it
  bool decided = false;  // else servers are to be asked first
  std::uint64_t through = 0;
  std::uint32_t attempt = 0;
  std::uint64_t restarted = 0;  // the step that is begun anew under the attempt
};

// All that a scheduler knows of a job that has begun, and writes before anybody learns of it. Plain
// data; the bytes are in docs/wire/ps-files.md.
struct JobImage {
  enum class Phase : std::uint8_t { kGoesOn = 0, kOver = 1, kFailed = 2 };
  Phase phase = Phase::kGoesOn;
  std::string failure;
  std::string endpoint;  // of the scheduler
  std::uint32_t last_tensor = 0;
  std::uint32_t last_attempt = 0;
  std::uint32_t dead = 0;
  std::uint32_t left = 0;
  std::uint32_t last_generation = 0;
  std::optional<AdmissionRecord> admission;  // that not all servers may have been told
  JobView view;
  std::optional<DepartureRecord> departure;  // the same
  std::vector<ServerRecord> servers;
  std::vector<WorkerRecord> workers;
  std::vector<TensorRecord> tensors;

  Bytes encode(const JobOptions& job) const;
  // None: the job is over, and makes room for another. kFailedPrecondition: of another version or
  // job. kAborted: the job has failed. kDataLoss and others: broken.
  static Result<std::optional<JobImage>> decode(const Bytes& bytes, const JobOptions& job);
};

}  // namespace ferry::ps
