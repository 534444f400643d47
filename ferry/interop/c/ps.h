#pragma once

// The parameter server in C. See tensorferry.h for what holds for all of it.

#include "ferry/interop/c/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ferry_job ferry_job;
typedef struct ferry_worker ferry_worker;
typedef struct ferry_pulled ferry_pulled;

enum { FERRY_SYNC = 1, FERRY_BOUNDED = 2, FERRY_ASYNC = 3 };  // consistency

typedef struct ferry_job_options {
  uint64_t size;
  uint32_t servers;      // 1
  uint32_t workers;      // 1
  int32_t consistency;   // FERRY_SYNC
  int32_t mean;          // 1: divide sums by the number of workers
  uint64_t staleness;    // FERRY_BOUNDED
  uint64_t block_bytes;  // 256 KiB
  uint32_t replicas;     // 1 or 2
  uint32_t shards;       // threads of a server; 1
  const char* provider;
  const char* listen;
  const char* secret;   // null: a random one
  const char* restore;  // folder of snapshots
} ferry_job_options;

// A scheduler and servers, on threads of this process.
FERRY_API ferry_error* ferry_job_open(const ferry_job_options* options, ferry_job** job);
FERRY_API void ferry_job_free(ferry_job* job);
FERRY_API const char* ferry_job_scheduler(const ferry_job* job);  // endpoint
FERRY_API const char* ferry_job_secret(const ferry_job* job);
// Until every worker has left.
FERRY_API ferry_error* ferry_job_wait(ferry_job* job, int64_t timeout_ns);

enum {  // what a server does with a gradient
  FERRY_ASSIGN = 1,
  FERRY_SUM = 2,
  FERRY_SGD = 3,
  FERRY_MOMENTUM = 4,
  FERRY_ADAM = 5
};

typedef struct ferry_update {
  int32_t kind;
  int32_t reserved;
  double rate;
  double momentum;
  double beta1;
  double beta2;
  double epsilon;
} ferry_update;

typedef struct ferry_worker_options {
  uint64_t size;
  const char* scheduler;  // null: as `ferry ps --local` has started this program
  const char* secret;
  const char* provider;
  int32_t rank;        // 1 is the first; 0: the next that is free
  int32_t not_finite;  // 1: count gradients that are not finite; 2: reject them
} ferry_worker_options;

// One thread at a time; see ferry/ps/worker.h for what holds in which consistency.
FERRY_API ferry_error* ferry_worker_open(const ferry_worker_options* options, int64_t timeout_ns,
                                         ferry_worker** worker);
FERRY_API void ferry_worker_free(ferry_worker* worker);  // leaves the job
FERRY_API uint32_t ferry_worker_rank(const ferry_worker* worker);
FERRY_API uint64_t ferry_worker_step(const ferry_worker* worker);
// JSON: {"rank", "job": {...}, "stats": {...}}.
FERRY_API ferry_error* ferry_worker_describe(ferry_worker* worker, ferry_text** text);
// `values` may be null: zero.
FERRY_API ferry_error* ferry_worker_init(ferry_worker* worker, const char* name,
                                         const ferry_spec* spec, const void* values,
                                         const ferry_update* update, int64_t timeout_ns,
                                         uint32_t* parameter);
FERRY_API ferry_error* ferry_worker_find(ferry_worker* worker, const char* name, int64_t timeout_ns,
                                         uint32_t* parameter);
FERRY_API ferry_error* ferry_worker_spec(ferry_worker* worker, uint32_t parameter,
                                         ferry_spec* spec);
FERRY_API ferry_error* ferry_worker_version(ferry_worker* worker, uint32_t parameter,
                                            int64_t timeout_ns, uint64_t* version);
FERRY_API ferry_error* ferry_worker_names(ferry_worker* worker, int64_t timeout_ns,
                                          ferry_text** json);
// Memory for gradients that servers of this host read where it is. It lives as long as the worker.
FERRY_API ferry_error* ferry_worker_allocate(ferry_worker* worker, const ferry_spec* spec,
                                             int64_t timeout_ns, ferry_tensor* tensor);
FERRY_API ferry_error* ferry_worker_push(ferry_worker* worker, uint32_t parameter, const void* data,
                                         uint64_t bytes, int64_t timeout_ns);
FERRY_API ferry_error* ferry_worker_push_rows(ferry_worker* worker, uint32_t parameter,
                                              const uint64_t* rows, size_t count, const void* data,
                                              uint64_t bytes, int64_t timeout_ns);
FERRY_API ferry_error* ferry_worker_end_step(ferry_worker* worker, int64_t timeout_ns);
FERRY_API ferry_error* ferry_worker_flush(ferry_worker* worker, int64_t timeout_ns);
FERRY_API ferry_error* ferry_worker_pull(ferry_worker* worker, uint32_t parameter,
                                         int64_t timeout_ns, ferry_pulled** pulled);
FERRY_API ferry_error* ferry_worker_push_pull(ferry_worker* worker, uint32_t parameter,
                                              const void* data, uint64_t bytes, int64_t timeout_ns,
                                              ferry_pulled** pulled);
FERRY_API ferry_error* ferry_worker_pull_to(ferry_worker* worker, uint32_t parameter, void* out,
                                            uint64_t bytes, int64_t timeout_ns);
FERRY_API ferry_error* ferry_worker_pull_rows(ferry_worker* worker, uint32_t parameter,
                                              const uint64_t* rows, size_t count, void* out,
                                              uint64_t bytes, int64_t timeout_ns);
FERRY_API ferry_error* ferry_worker_barrier(ferry_worker* worker, int64_t timeout_ns);
FERRY_API ferry_error* ferry_worker_members(ferry_worker* worker, int64_t timeout_ns,
                                            ferry_text** json);
FERRY_API ferry_error* ferry_worker_snapshot(ferry_worker* worker, const char* folder,
                                             int64_t timeout_ns, ferry_text** path);
FERRY_API ferry_error* ferry_worker_leave(ferry_worker* worker, int64_t timeout_ns);

// Weights, in the server's memory where the path allows it. Freed before the next push of the step,
// on the worker's thread. `data` is null if they are in several pieces: copy them then.
FERRY_API void ferry_pulled_tensor(const ferry_pulled* pulled, ferry_tensor* tensor);
FERRY_API int ferry_pulled_in_place(const ferry_pulled* pulled);
FERRY_API ferry_error* ferry_pulled_copy(const ferry_pulled* pulled, void* out, uint64_t bytes);
// FERRY_UNAVAILABLE: a server has ended the lease, and what was read cannot be trusted.
FERRY_API ferry_error* ferry_pulled_release(ferry_pulled* pulled);
FERRY_API void ferry_pulled_free(ferry_pulled* pulled);

#ifdef __cplusplus
}
#endif
