#include "ferry/interop/kvstore/kvstore.h"

#include "ferry/interop/kvstore/backend_internal.h"
#include "ferry/interop/launched.h"

namespace ferry::interop {
namespace {

Result<KVType> kv_type_of(std::string_view name) {
  if (name == "local") return KVType::kLocal;
  if (name == "dist_sync") return KVType::kDistSync;
  if (name == "dist_async") return KVType::kDistAsync;
  return fail(Code::kInvalidArgument,
              "there is no key-value store of type '{}': take local, dist_sync or dist_async",
              name);
}

// For what is pushed to a key, or pulled from it.
Status check_values(const KVKey& key, const tensor::Spec& spec,
                    std::span<const tensor::Tensor> values) {
  if (values.empty())
    return fail(Code::kInvalidArgument, "no value is given for key '{}'", key.name());
  for (const auto& value : values)
    if (value.spec() != spec)
      return fail(Code::kInvalidArgument, "key '{}' is {}; the value that is given is {}",
                  key.name(), spec.to_string(), value.spec().to_string());
  return {};
}

}  // namespace

std::vector<const float*> floats_of(std::span<const tensor::Tensor> values) {
  std::vector<const float*> all;
  all.reserve(values.size());
  for (const auto& value : values) all.push_back(value.elements<float>().data());
  return all;
}

KVStore::KVStore(KVType type, std::unique_ptr<KVBackend> backend)
    : type_(type), backend_(std::move(backend)) {}
KVStore::KVStore(KVStore&&) noexcept = default;
KVStore& KVStore::operator=(KVStore&&) noexcept = default;
KVStore::~KVStore() = default;

Result<KVStore> KVStore::create(std::string_view type, Deadline deadline) {
  const auto wanted = FERRY_TRY(kv_type_of(type));
  if (wanted == KVType::kLocal) return KVStore(wanted, make_local_backend());
  return create(type, FERRY_TRY(launched_worker()), deadline);
}

Result<KVStore> KVStore::create(std::string_view type, ps::WorkerOptions options,
                                Deadline deadline) {
  const auto wanted = FERRY_TRY(kv_type_of(type));
  if (wanted == KVType::kLocal) return KVStore(wanted, make_local_backend());
  return KVStore(wanted, FERRY_TRY(open_dist_backend(wanted, std::move(options), deadline)));
}

std::uint32_t KVStore::rank() const { return backend_->rank(); }
std::uint32_t KVStore::num_workers() const { return backend_->num_workers(); }

Status KVStore::check_sort(const KVKey& key) const {
  if (!numbers_ || *numbers_ == key.number()) return {};
  return fail(Code::kInvalidArgument, "key '{}' is a {}; the other keys of this store are {}",
              key.name(), key.number() ? "number" : "word", *numbers_ ? "numbers" : "words");
}

Result<const KVStore::Entry*> KVStore::find(const KVKey& key) const {
  FERRY_TRY(check_sort(key));
  const auto found = entries_.find(key.name());
  if (found == entries_.end())
    return fail(Code::kNotFound, "there is no key '{}'; init() it first", key.name());
  return &found->second;
}

Status KVStore::init(std::span<const KVKey> keys, std::span<const tensor::Tensor> values,
                     Deadline deadline) {
  if (keys.empty() || keys.size() != values.size())
    return fail(Code::kInvalidArgument, "init() of {} keys with {} values: one for each, please",
                keys.size(), values.size());
  auto entries = entries_;
  std::vector<std::string> names;
  for (std::size_t each = 0; each < keys.size(); ++each) {
    FERRY_TRY(check_sort(keys[each]));
    if (keys[each].number() != keys[0].number())
      return fail(Code::kInvalidArgument, "keys '{}' and '{}' are a number and a word",
                  keys[0].name(), keys[each].name());
    const auto& spec = values[each].spec();
    if (spec.type != tensor::ElementType::kF32)
      return fail(Code::kUnimplemented, "key '{}' is {}; values of a key-value store are f32",
                  keys[each].name(), spec.to_string());
    if (!entries.emplace(keys[each].name(), Entry{entries.size(), spec}).second)
      return fail(Code::kAlreadyExists, "key '{}' is there already; init() is called once a key",
                  keys[each].name());
    names.push_back(keys[each].name());
  }
  FERRY_TRY(backend_->init(names, values, deadline));
  entries_ = std::move(entries);
  numbers_ = keys[0].number();
  return {};
}

Status KVStore::set_optimizer(const ps::Update& optimizer, Deadline deadline) {
  return backend_->set_optimizer(optimizer, deadline);
}

Status KVStore::push(const KVKey& key, std::span<const tensor::Tensor> values, Deadline deadline) {
  const auto* entry = FERRY_TRY(find(key));
  FERRY_TRY(check_values(key, entry->spec, values));
  return backend_->push(entry->number, values, deadline);
}

Status KVStore::pull(const KVKey& key, std::span<const tensor::Tensor> outs, Deadline deadline) {
  const auto* entry = FERRY_TRY(find(key));
  FERRY_TRY(check_values(key, entry->spec, outs));
  return backend_->pull(entry->number, outs, deadline);
}

Status KVStore::pushpull(const KVKey& key, std::span<const tensor::Tensor> values,
                         std::span<const tensor::Tensor> outs, Deadline deadline) {
  const auto* entry = FERRY_TRY(find(key));
  FERRY_TRY(check_values(key, entry->spec, values));
  FERRY_TRY(check_values(key, entry->spec, outs));
  return backend_->pushpull(entry->number, values, outs, deadline);
}

Status KVStore::row_sparse_pull(const KVKey& key, std::span<const std::uint64_t> rows,
                                const tensor::Tensor& out, Deadline deadline) {
  const auto* entry = FERRY_TRY(find(key));
  const auto& dims = entry->spec.shape.dims();
  if (dims.empty())
    return fail(Code::kInvalidArgument, "key '{}' is {}, which has no rows", key.name(),
                entry->spec.to_string());
  std::vector<std::int64_t> wanted(dims.begin(), dims.end());
  wanted[0] = static_cast<std::int64_t>(rows.size());
  const tensor::Spec spec{entry->spec.type, FERRY_TRY(tensor::Shape::of(wanted))};
  FERRY_TRY(check_values(key, spec, {&out, 1}));
  for (const auto row : rows)
    if (row >= static_cast<std::uint64_t>(dims[0]))
      return fail(Code::kOutOfRange, "row {} of key '{}', which is {}", row, key.name(),
                  entry->spec.to_string());
  return backend_->pull_rows(entry->number, rows, out.bytes(), deadline);
}

Status KVStore::barrier(Deadline deadline) { return backend_->barrier(deadline); }
Status KVStore::close(Deadline deadline) { return backend_->close(deadline); }

}  // namespace ferry::interop
