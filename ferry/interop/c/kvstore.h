#pragma once

// A key-value store in C. See tensorferry.h for what holds for all of it.

#include "ferry/interop/c/ps.h"

#ifdef __cplusplus
extern "C" {
#endif

// -----------------------------------------------------------------------------

typedef struct ferry_kvstore ferry_kvstore;

// "local", "dist_sync", "dist_async". `options` may be null: as `ferry ps --local` has started this
// program. Values are FERRY_F32. Keys are words; is_number says that they stand for numbers.
FERRY_API ferry_error* ferry_kvstore_create(const char* type, const ferry_worker_options* options,
                                            int64_t timeout_ns, ferry_kvstore** store);
FERRY_API void ferry_kvstore_free(ferry_kvstore* store);
FERRY_API uint32_t ferry_kvstore_rank(const ferry_kvstore* store);
FERRY_API uint32_t ferry_kvstore_workers(const ferry_kvstore* store);
FERRY_API ferry_error* ferry_kvstore_init(ferry_kvstore* store, const char* const* keys,
                                          int is_number, const ferry_tensor* values, size_t count,
                                          int64_t timeout_ns);
FERRY_API ferry_error* ferry_kvstore_set_optimizer(ferry_kvstore* store, const ferry_update* update,
                                                   int64_t timeout_ns);
FERRY_API ferry_error* ferry_kvstore_push(ferry_kvstore* store, const char* key, int is_number,
                                          const ferry_tensor* values, size_t count,
                                          int64_t timeout_ns);
FERRY_API ferry_error* ferry_kvstore_pull(ferry_kvstore* store, const char* key, int is_number,
                                          const ferry_tensor* outs, size_t count,
                                          int64_t timeout_ns);
FERRY_API ferry_error* ferry_kvstore_pushpull(ferry_kvstore* store, const char* key, int is_number,
                                              const ferry_tensor* values, size_t count,
                                              const ferry_tensor* outs, size_t out_count,
                                              int64_t timeout_ns);
FERRY_API ferry_error* ferry_kvstore_row_sparse_pull(ferry_kvstore* store, const char* key,
                                                     int is_number, const uint64_t* rows,
                                                     size_t count, const ferry_tensor* out,
                                                     int64_t timeout_ns);
FERRY_API ferry_error* ferry_kvstore_barrier(ferry_kvstore* store, int64_t timeout_ns);
FERRY_API ferry_error* ferry_kvstore_close(ferry_kvstore* store, int64_t timeout_ns);

#ifdef __cplusplus
}
#endif
