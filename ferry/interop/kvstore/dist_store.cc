#include <algorithm>
#include <cstring>
#include <optional>

#include "ferry/interop/kvstore/backend_internal.h"
#include "ferry/math/sum.h"

// A store on the servers of a job. Steps of the job are hidden: see KVStore::push().

namespace ferry::interop {
namespace {

class DistBackend final : public KVBackend {
 public:
  explicit DistBackend(ps::Worker worker) : worker_(std::move(worker)) {}

  std::uint32_t rank() const override { return worker_.rank(); }
  std::uint32_t num_workers() const override { return worker_.job().workers; }

  Status init(std::span<const std::string> names, std::span<const tensor::Tensor> values,
              Deadline deadline) override {
    std::vector<DistKey> made;
    for (std::size_t each = 0; each < names.size(); ++each)
      made.push_back({names[each], values[each].spec()});
    std::vector<std::span<const std::byte>> first;
    for (const auto& value : values) first.push_back(value.bytes());
    FERRY_TRY(make(made, first, deadline));
    std::move(made.begin(), made.end(), std::back_inserter(keys_));
    return {};
  }

  // Servers keep to the update that a tensor was made with, so keys are made anew, with the values
  // that they have.
  Status set_optimizer(const ps::Update& optimizer, Deadline deadline) override {
    optimizer_ = optimizer;
    if (keys_.empty()) return {};
    FERRY_TRY(barrier(deadline));  // all that is pushed counts
    ++generation_;
    std::vector<std::vector<std::byte>> values(keys_.size());
    for (std::size_t each = 0; each < keys_.size() && rank() == 0; ++each) {
      const auto bytes = FERRY_TRY(keys_[each].spec.bytes());
      values[each].resize(bytes);
      FERRY_TRY(worker_.pull_to(keys_[each].parameter, values[each], deadline));
    }
    return make(keys_, {values.begin(), values.end()}, deadline);
  }

  Status push(std::size_t key, std::span<const tensor::Tensor> values, Deadline deadline) override {
    auto& to = keys_[key];
    FERRY_TRY(stage(to, values, deadline));
    // If only a part can be posted there is no loan, and servers read until flush() has succeeded.
    to.in_use = open_ = true;
    to.loan = FERRY_TRY(worker_.lend_gradient(to.parameter, to.staged.bytes(), deadline));
    to.in_use = sync();
    return {};
  }

  Status pull(std::size_t key, std::span<const tensor::Tensor> outs, Deadline deadline) override {
    FERRY_TRY(settle(deadline));
    const auto pulled = FERRY_TRY(worker_.pull(keys_[key].parameter, deadline));
    for (const auto& out : outs) pulled.copy_to(out.bytes());
    return {};
  }

  // In step with others the servers can send what is new without being asked.
  Status pushpull(std::size_t key, std::span<const tensor::Tensor> values,
                  std::span<const tensor::Tensor> outs, Deadline deadline) override {
    if (!sync()) {
      FERRY_TRY(push(key, values, deadline));
      return pull(key, outs, deadline);
    }
    auto& to = keys_[key];
    FERRY_TRY(stage(to, values, deadline));
    const auto pulled = FERRY_TRY(worker_.push_pull(to.parameter, to.staged.bytes(), deadline));
    release_all();
    for (const auto& out : outs) pulled.copy_to(out.bytes());
    return {};
  }

  Status pull_rows(std::size_t key, std::span<const std::uint64_t> rows, std::span<std::byte> out,
                   Deadline deadline) override {
    FERRY_TRY(settle(deadline));
    return worker_.pull_rows(keys_[key].parameter, rows, out, deadline);
  }

  Status barrier(Deadline deadline) override {
    FERRY_TRY(settle(deadline));
    return worker_.barrier(deadline);
  }

  Status close(Deadline deadline) override {
    FERRY_TRY(settle(deadline));
    return worker_.leave(deadline);
  }

 private:
  struct DistKey {
    std::string name;
    tensor::Spec spec;
    ps::Parameter parameter = 0;
    tensor::Tensor staged{};  // what is pushed; servers of this host read it where it is
    ps::Loan loan{};          // of `staged`
    bool in_use = false;      // in a step that is not known to be applied, or lending has failed
  };

  bool sync() const { return worker_.job().consistency == ps::Consistency::kSync; }

  // Rank 0 makes them; the others find them. All come to the barrier, whatever happens.
  Status make(std::span<DistKey> keys, const std::vector<std::span<const std::byte>>& first,
              Deadline deadline) {
    const auto update = optimizer_.value_or(ps::Update{ps::UpdateKind::kAssign});
    Status made;
    for (std::size_t each = 0; each < keys.size() && rank() == 0 && made; ++each) {
      const auto parameter =
          worker_.init(name_of(keys[each]), keys[each].spec, first[each], update, deadline);
      if (parameter)
        keys[each].parameter = *parameter;
      else
        made = tl::unexpected<Error>(parameter.error());
    }
    FERRY_TRY(worker_.barrier(deadline));
    FERRY_TRY(made);
    for (auto& key : keys) {
      if (rank() == 0) break;
      key.parameter = FERRY_TRY(worker_.find(name_of(key), deadline));
      const auto spec = FERRY_TRY(worker_.spec(key.parameter));
      if (spec != key.spec)
        return fail(Code::kInvalidArgument, "rank 0 has made key '{}' as {}; here it is {}",
                    key.name, spec.to_string(), key.spec.to_string());
    }
    return {};
  }

  std::string name_of(const DistKey& key) const {
    return generation_ == 0 ? key.name : fmt::format("{}@{}", key.name, generation_);
  }

  // The sum of the values where servers may read it.
  Status stage(DistKey& key, std::span<const tensor::Tensor> values, Deadline deadline) {
    if (!sync() && !optimizer_)
      return fail(Code::kFailedPrecondition,
                  "a push to key '{}' of a dist_async store: set_optimizer() first", key.name);
    if (key.in_use) {
      FERRY_TRY(settle(deadline));
      FERRY_TRY(worker_.flush(deadline));
      release_all();
    }
    FERRY_TRY(key.loan.release(deadline));
    if (key.staged.bytes().empty()) key.staged = FERRY_TRY(worker_.allocate(key.spec, deadline));
    const auto to = key.staged.elements<float>();
    if (values.size() == 1)
      std::memcpy(to.data(), values[0].data(), values[0].bytes().size());
    else
      math::sum({floats_of(values)}, to.data(), to.size());
    return {};
  }

  // What was pushed counts from here on.
  Status settle(Deadline deadline) {
    if (!open_) return {};
    FERRY_TRY(sync() ? worker_.end_step(deadline) : worker_.flush(deadline));
    open_ = false;
    if (!sync()) release_all();
    return {};
  }

  void release_all() {
    for (auto& key : keys_) key.in_use = false;
    open_ = false;
  }

  ps::Worker worker_;
  std::optional<ps::Update> optimizer_;
  std::vector<DistKey> keys_;
  std::uint64_t generation_ = 0;  // how often keys were made anew
  bool open_ = false;             // something was pushed that does not count yet
};

}  // namespace

Result<std::unique_ptr<KVBackend>> open_dist_backend(KVType type, ps::WorkerOptions options,
                                                     Deadline deadline) {
  auto worker = FERRY_TRY(ps::Worker::open(std::move(options), deadline));
  const bool sync = type == KVType::kDistSync;
  if (worker.job().consistency != (sync ? ps::Consistency::kSync : ps::Consistency::kAsync))
    return fail(Code::kFailedPrecondition,
                "a {} store needs a job that was begun with `ferry ps --consistency {}`",
                sync ? "dist_sync" : "dist_async", sync ? "sync" : "async");
  return std::make_unique<DistBackend>(std::move(worker));
}

}  // namespace ferry::interop
