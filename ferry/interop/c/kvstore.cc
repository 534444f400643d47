#include "ferry/interop/kvstore/kvstore.h"

#include <charconv>

#include "ferry/interop/c/boxes_internal.h"
#include "ferry/interop/c/kvstore.h"
#include "ferry/interop/c/ps_internal.h"

struct ferry_kvstore : ferry::interop::OfProcess {
  explicit ferry_kvstore(ferry::interop::KVStore made) : store(std::move(made)) {}
  ferry::interop::KVStore store;
};

namespace ferry::interop {

namespace {

Result<KVKey> key_of(const char* key, int is_number) {
  FERRY_TRY(check_pointers({key}));
  if (is_number == 0) return KVKey(key);
  std::int64_t number = 0;
  const std::string_view text(key);
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size())
    return fail(Code::kInvalidArgument, "key '{}' is not a number", key);
  return KVKey(number);
}

Result<std::vector<tensor::Tensor>> tensors_of(const ferry_tensor* tensors, size_t count) {
  FERRY_TRY(check_pointers({tensors}));
  std::vector<tensor::Tensor> all;
  for (size_t i = 0; i < count; ++i) all.push_back(FERRY_TRY(tensor_of(tensors[i])));
  return all;
}

}  // namespace

}  // namespace ferry::interop

using namespace ferry;           // NOLINT(google-build-using-namespace): entries are outside
using namespace ferry::interop;  // NOLINT(google-build-using-namespace)

ferry_error* ferry_kvstore_create(const char* type, const ferry_worker_options* options,
                                  int64_t timeout_ns, ferry_kvstore** store) {
  return guard([&]() -> Status {
    FERRY_TRY(check_pointers({type, store}));
    const auto deadline = deadline_of(timeout_ns);
    if (options == nullptr) {
      *store = new ferry_kvstore(FERRY_TRY(KVStore::create(type, deadline)));
      return {};
    }
    auto own = FERRY_TRY(worker_options(options));
    *store = new ferry_kvstore(FERRY_TRY(KVStore::create(type, std::move(own), deadline)));
    return {};
  });
}

void ferry_kvstore_free(ferry_kvstore* store) { free_handle(store); }

uint32_t ferry_kvstore_rank(const ferry_kvstore* store) {
  return store == nullptr ? 0 : store->store.rank();
}
uint32_t ferry_kvstore_workers(const ferry_kvstore* store) {
  return store == nullptr ? 0 : store->store.num_workers();
}

ferry_error* ferry_kvstore_init(ferry_kvstore* store, const char* const* keys, int is_number,
                                const ferry_tensor* values, size_t count, int64_t timeout_ns) {
  return guard(store, {keys}, [&]() -> Status {
    std::vector<KVKey> names;
    for (size_t i = 0; i < count; ++i) names.push_back(FERRY_TRY(key_of(keys[i], is_number)));
    const auto first = FERRY_TRY(tensors_of(values, count));
    return store->store.init(names, first, deadline_of(timeout_ns));
  });
}

ferry_error* ferry_kvstore_set_optimizer(ferry_kvstore* store, const ferry_update* update,
                                         int64_t timeout_ns) {
  return guard(store, {update}, [&]() -> Status {
    const auto rule = FERRY_TRY(update_of(*update));
    return store->store.set_optimizer(rule, deadline_of(timeout_ns));
  });
}

ferry_error* ferry_kvstore_push(ferry_kvstore* store, const char* key, int is_number,
                                const ferry_tensor* values, size_t count, int64_t timeout_ns) {
  return guard(store, {}, [&]() -> Status {
    const auto name = FERRY_TRY(key_of(key, is_number));
    const auto all = FERRY_TRY(tensors_of(values, count));
    return store->store.push(name, all, deadline_of(timeout_ns));
  });
}

ferry_error* ferry_kvstore_pull(ferry_kvstore* store, const char* key, int is_number,
                                const ferry_tensor* outs, size_t count, int64_t timeout_ns) {
  return guard(store, {}, [&]() -> Status {
    const auto name = FERRY_TRY(key_of(key, is_number));
    const auto all = FERRY_TRY(tensors_of(outs, count));
    return store->store.pull(name, all, deadline_of(timeout_ns));
  });
}

ferry_error* ferry_kvstore_pushpull(ferry_kvstore* store, const char* key, int is_number,
                                    const ferry_tensor* values, size_t count,
                                    const ferry_tensor* outs, size_t out_count,
                                    int64_t timeout_ns) {
  return guard(store, {}, [&]() -> Status {
    const auto name = FERRY_TRY(key_of(key, is_number));
    const auto given = FERRY_TRY(tensors_of(values, count));
    const auto places = FERRY_TRY(tensors_of(outs, out_count));
    return store->store.pushpull(name, given, places, deadline_of(timeout_ns));
  });
}

ferry_error* ferry_kvstore_row_sparse_pull(ferry_kvstore* store, const char* key, int is_number,
                                           const uint64_t* rows, size_t count,
                                           const ferry_tensor* out, int64_t timeout_ns) {
  return guard(store, {out}, [&]() -> Status {
    const auto name = FERRY_TRY(key_of(key, is_number));
    const auto place = FERRY_TRY(tensor_of(*out));
    return store->store.row_sparse_pull(name, std::span(rows, count), place,
                                        deadline_of(timeout_ns));
  });
}

ferry_error* ferry_kvstore_barrier(ferry_kvstore* store, int64_t timeout_ns) {
  return guard(store, {}, [&] { return store->store.barrier(deadline_of(timeout_ns)); });
}

ferry_error* ferry_kvstore_close(ferry_kvstore* store, int64_t timeout_ns) {
  return guard(store, {}, [&] { return store->store.close(deadline_of(timeout_ns)); });
}
