#include <nlohmann/json.hpp>

#include "ferry/interop/c/boxes_internal.h"
#include "ferry/interop/c/ps_internal.h"
#include "ferry/interop/launched.h"

namespace ferry::interop {

Result<ps::WorkerOptions> worker_options(const ferry_worker_options* raw) {
  const auto given = FERRY_TRY(options_of(raw));
  auto options = given.scheduler == nullptr ? FERRY_TRY(launched_worker())
                                            : ps::WorkerOptions{.scheduler = given.scheduler};
  if (given.secret != nullptr) options.device.secret = given.secret;
  if (given.provider != nullptr) options.device.provider = given.provider;
  if (given.rank > 0) options.rank = static_cast<std::uint32_t>(given.rank - 1);
  if (given.not_finite < 0 || given.not_finite > 2)
    return fail(Code::kInvalidArgument, "not_finite is {}; it is 0, 1 or 2", given.not_finite);
  options.not_finite = static_cast<ps::NotFinite>(given.not_finite);
  return options;
}

Result<ps::Update> update_of(const ferry_update& update) {
  if (update.kind < FERRY_ASSIGN || update.kind > FERRY_ADAM)
    return fail(Code::kInvalidArgument, "there is no kind of update {}", update.kind);
  ps::Update own{.kind = static_cast<ps::UpdateKind>(update.kind),
                 .rate = update.rate,
                 .momentum = update.momentum};
  if (update.beta1 != 0) own.beta1 = update.beta1;
  if (update.beta2 != 0) own.beta2 = update.beta2;
  if (update.epsilon != 0) own.epsilon = update.epsilon;
  return own;
}

namespace {

const char* name_of_consistency(ps::Consistency consistency) {
  switch (consistency) {
    case ps::Consistency::kSync:
      return "sync";
    case ps::Consistency::kBounded:
      return "bounded";
    case ps::Consistency::kAsync:
      break;
  }
  return "async";
}

nlohmann::json worker_description(const ps::Worker& worker) {
  const auto& job = worker.job();
  const auto stats = worker.stats();
  return {{"rank", worker.rank()},
          {"job",
           {{"servers", job.servers},
            {"workers", job.workers},
            {"consistency", name_of_consistency(job.consistency)},
            {"staleness", job.staleness},
            {"mean", job.mean},
            {"block_bytes", job.block_bytes},
            {"replicas", job.replicas}}},
          {"stats",
           {{"pushes", stats.pushes},
            {"pushed_in_place", stats.pushed_in_place},
            {"pushed_blocks", stats.pushed_blocks},
            {"pulls", stats.pulls},
            {"pulled_in_place", stats.pulled_in_place},
            {"pulled_copies", stats.pulled_copies},
            {"not_finite", stats.not_finite},
            {"begun_anew", stats.begun_anew}}}};
}

}  // namespace

}  // namespace ferry::interop

struct ferry_worker : ferry::interop::OfProcess {
  explicit ferry_worker(std::shared_ptr<ferry::ps::Worker> made) : worker(std::move(made)) {}
  std::shared_ptr<ferry::ps::Worker> worker;
};
struct ferry_pulled : ferry::interop::OfProcess {
  ferry_pulled(std::shared_ptr<ferry::ps::Worker> by, ferry::tensor::Spec what,
               ferry::ps::Pulled got)
      : worker(std::move(by)), spec(what), pulled(std::move(got)) {}
  std::shared_ptr<ferry::ps::Worker> worker;
  ferry::tensor::Spec spec;
  ferry::ps::Pulled pulled;
};

using namespace ferry;           // NOLINT(google-build-using-namespace): entries are outside
using namespace ferry::interop;  // NOLINT(google-build-using-namespace)

namespace {

std::span<const std::uint64_t> rows_of(const uint64_t* rows, size_t count) { return {rows, count}; }

ferry_error* pulled_of(ferry_worker* worker, uint32_t parameter, ferry_pulled** out, auto pull) {
  return guard(worker, {out}, [&]() -> Status {
    auto got = FERRY_TRY(pull(*worker->worker));
    *out = new ferry_pulled(worker->worker, FERRY_TRY(worker->worker->spec(parameter)),
                            std::move(got));
    return {};
  });
}

}  // namespace

ferry_error* ferry_worker_open(const ferry_worker_options* options, int64_t timeout_ns,
                               ferry_worker** worker) {
  return guard([&]() -> Status {
    FERRY_TRY(check_pointers({worker}));
    const auto given = FERRY_TRY(worker_options(options));
    auto opened = FERRY_TRY(ps::Worker::open(given, deadline_of(timeout_ns)));
    *worker = new ferry_worker(std::make_shared<ps::Worker>(std::move(opened)));
    return {};
  });
}

void ferry_worker_free(ferry_worker* worker) { free_handle(worker); }

uint32_t ferry_worker_rank(const ferry_worker* worker) {
  return worker == nullptr ? 0 : worker->worker->rank();
}
uint64_t ferry_worker_step(const ferry_worker* worker) {
  return worker == nullptr ? 0 : worker->worker->step();
}

ferry_error* ferry_worker_describe(ferry_worker* worker, ferry_text** text) {
  return guard(worker, {text}, [&]() -> Status {
    *text = new ferry_text{worker_description(*worker->worker).dump()};
    return {};
  });
}

ferry_error* ferry_worker_init(ferry_worker* worker, const char* name, const ferry_spec* spec,
                               const void* values, const ferry_update* update, int64_t timeout_ns,
                               uint32_t* parameter) {
  return guard(worker, {name, spec, update, parameter}, [&]() -> Status {
    const auto own = FERRY_TRY(spec_of(*spec));
    const auto first =
        values == nullptr ? std::span<const std::byte>() : bytes_of(values, FERRY_TRY(own.bytes()));
    const auto rule = FERRY_TRY(update_of(*update));
    *parameter = FERRY_TRY(worker->worker->init(name, own, first, rule, deadline_of(timeout_ns)));
    return {};
  });
}

ferry_error* ferry_worker_find(ferry_worker* worker, const char* name, int64_t timeout_ns,
                               uint32_t* parameter) {
  return guard(worker, {name, parameter}, [&]() -> Status {
    *parameter = FERRY_TRY(worker->worker->find(name, deadline_of(timeout_ns)));
    return {};
  });
}

ferry_error* ferry_worker_spec(ferry_worker* worker, uint32_t parameter, ferry_spec* spec) {
  return guard(worker, {spec}, [&]() -> Status {
    *spec = spec_to_c(FERRY_TRY(worker->worker->spec(parameter)));
    return {};
  });
}

ferry_error* ferry_worker_version(ferry_worker* worker, uint32_t parameter, int64_t timeout_ns,
                                  uint64_t* version) {
  return guard(worker, {version}, [&]() -> Status {
    *version = FERRY_TRY(worker->worker->version(parameter, deadline_of(timeout_ns)));
    return {};
  });
}

ferry_error* ferry_worker_names(ferry_worker* worker, int64_t timeout_ns, ferry_text** json) {
  return guard(worker, {json}, [&]() -> Status {
    const nlohmann::json names = FERRY_TRY(worker->worker->names(deadline_of(timeout_ns)));
    *json = new ferry_text{names.dump()};
    return {};
  });
}

ferry_error* ferry_worker_allocate(ferry_worker* worker, const ferry_spec* spec, int64_t timeout_ns,
                                   ferry_tensor* tensor) {
  return guard(worker, {spec, tensor}, [&]() -> Status {
    const auto own = FERRY_TRY(spec_of(*spec));
    *tensor = tensor_to_c(FERRY_TRY(worker->worker->allocate(own, deadline_of(timeout_ns))));
    return {};
  });
}

ferry_error* ferry_worker_push(ferry_worker* worker, uint32_t parameter, const void* data,
                               uint64_t bytes, int64_t timeout_ns) {
  return guard(worker, {}, [&] {
    return worker->worker->push(parameter, bytes_of(data, bytes), deadline_of(timeout_ns));
  });
}

ferry_error* ferry_worker_push_rows(ferry_worker* worker, uint32_t parameter, const uint64_t* rows,
                                    size_t count, const void* data, uint64_t bytes,
                                    int64_t timeout_ns) {
  return guard(worker, {}, [&] {
    return worker->worker->push_rows(parameter, rows_of(rows, count), bytes_of(data, bytes),
                                     deadline_of(timeout_ns));
  });
}

ferry_error* ferry_worker_end_step(ferry_worker* worker, int64_t timeout_ns) {
  return guard(worker, {}, [&] { return worker->worker->end_step(deadline_of(timeout_ns)); });
}

ferry_error* ferry_worker_flush(ferry_worker* worker, int64_t timeout_ns) {
  return guard(worker, {}, [&] { return worker->worker->flush(deadline_of(timeout_ns)); });
}

ferry_error* ferry_worker_pull(ferry_worker* worker, uint32_t parameter, int64_t timeout_ns,
                               ferry_pulled** pulled) {
  return pulled_of(worker, parameter, pulled,
                   [&](auto& own) { return own.pull(parameter, deadline_of(timeout_ns)); });
}

ferry_error* ferry_worker_push_pull(ferry_worker* worker, uint32_t parameter, const void* data,
                                    uint64_t bytes, int64_t timeout_ns, ferry_pulled** pulled) {
  return pulled_of(worker, parameter, pulled, [&](auto& own) {
    return own.push_pull(parameter, bytes_of(data, bytes), deadline_of(timeout_ns));
  });
}

ferry_error* ferry_worker_pull_to(ferry_worker* worker, uint32_t parameter, void* out,
                                  uint64_t bytes, int64_t timeout_ns) {
  return guard(worker, {}, [&] {
    return worker->worker->pull_to(parameter, bytes_of(out, bytes), deadline_of(timeout_ns));
  });
}

ferry_error* ferry_worker_pull_rows(ferry_worker* worker, uint32_t parameter, const uint64_t* rows,
                                    size_t count, void* out, uint64_t bytes, int64_t timeout_ns) {
  return guard(worker, {}, [&] {
    return worker->worker->pull_rows(parameter, rows_of(rows, count), bytes_of(out, bytes),
                                     deadline_of(timeout_ns));
  });
}

ferry_error* ferry_worker_barrier(ferry_worker* worker, int64_t timeout_ns) {
  return guard(worker, {}, [&] { return worker->worker->barrier(deadline_of(timeout_ns)); });
}

ferry_error* ferry_worker_members(ferry_worker* worker, int64_t timeout_ns, ferry_text** json) {
  return guard(worker, {json}, [&]() -> Status {
    const nlohmann::json ranks = FERRY_TRY(worker->worker->members(deadline_of(timeout_ns)));
    *json = new ferry_text{ranks.dump()};
    return {};
  });
}

ferry_error* ferry_worker_snapshot(ferry_worker* worker, const char* folder, int64_t timeout_ns,
                                   ferry_text** path) {
  return guard(worker, {folder, path}, [&]() -> Status {
    *path = new ferry_text{FERRY_TRY(worker->worker->snapshot(folder, deadline_of(timeout_ns)))};
    return {};
  });
}

ferry_error* ferry_worker_leave(ferry_worker* worker, int64_t timeout_ns) {
  return guard(worker, {}, [&] { return worker->worker->leave(deadline_of(timeout_ns)); });
}

void ferry_pulled_tensor(const ferry_pulled* pulled, ferry_tensor* tensor) {
  if (pulled == nullptr || tensor == nullptr) return;
  const auto bytes = pulled->pulled.bytes();
  *tensor = {spec_to_c(pulled->spec), const_cast<std::byte*>(bytes.data()), bytes.size()};
}

int ferry_pulled_in_place(const ferry_pulled* pulled) {
  return pulled != nullptr && pulled->pulled.in_place() ? 1 : 0;
}

ferry_error* ferry_pulled_copy(const ferry_pulled* pulled, void* out, uint64_t bytes) {
  return guard(pulled, {}, [&]() -> Status {
    if (bytes != FERRY_TRY(pulled->spec.bytes()))
      return fail(Code::kInvalidArgument, "{} bytes of room for a tensor {}", bytes,
                  pulled->spec.to_string());
    pulled->pulled.copy_to(bytes_of(out, bytes));
    return {};
  });
}

ferry_error* ferry_pulled_release(ferry_pulled* pulled) {
  return guard(pulled, {}, [&] { return pulled->pulled.release(); });
}

void ferry_pulled_free(ferry_pulled* pulled) { free_handle(pulled); }
