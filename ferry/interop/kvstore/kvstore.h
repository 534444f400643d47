#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/interop/kvstore/kvtype.h"
#include "ferry/ps/update.h"
#include "ferry/ps/worker.h"
#include "ferry/tensor/tensor.h"

namespace ferry::interop {

class KVBackend;

// What a value is known by: a number or a word. A store has keys of one of the two sorts.
class KVKey {
 public:
  template <std::integral Number>
  KVKey(Number number)  // NOLINT(google-explicit-constructor): init(3, value) is meant
      : name_(std::to_string(number)), number_(true) {}
  template <std::convertible_to<std::string_view> Word>
  KVKey(const Word& word)  // NOLINT(google-explicit-constructor): init("w", value) is meant
      : name_(std::string_view(word)), number_(false) {}

  const std::string& name() const { return name_; }
  bool number() const { return number_; }

 private:
  std::string name_;
  bool number_;
};

// Values by key, in the manner of MXNet's KVStore: gradients are pushed, weights pulled, and
// between them an optimizer, or none: then what was pushed is what is pulled. See docs/kvstore.md.
// One thread at a time. Values are f32. Calls that are said to be everybody's are made by all
// workers, in the same order.
class KVStore {
 public:
  // A job's, as `ferry ps --local` started this program; kFailedPrecondition if nobody has.
  static Result<KVStore> create(std::string_view type, Deadline deadline);
  // kFailedPrecondition if the job's servers keep to another consistency.
  static Result<KVStore> create(std::string_view type, ps::WorkerOptions options,
                                Deadline deadline);
  KVStore(KVStore&&) noexcept;
  KVStore& operator=(KVStore&&) noexcept;
  ~KVStore();

  KVType type() const { return type_; }
  std::uint32_t rank() const;
  std::uint32_t num_workers() const;

  // Makes keys, once; everybody's. The values are those of rank 0. kAlreadyExists for a key that is
  // there, kInvalidArgument for a shape that is not rank 0's.
  Status init(std::span<const KVKey> keys, std::span<const tensor::Tensor> values,
              Deadline deadline);
  Status init(const KVKey& key, const tensor::Tensor& value, Deadline deadline) {
    return init({&key, 1}, {&value, 1}, deadline);
  }

  // What servers do with the gradients from now on; everybody's. Its state begins anew.
  Status set_optimizer(const ps::Update& optimizer, Deadline deadline);

  // The sum of the values, one for each of the worker's devices say. They may change when it
  // returns. kNotFound for an unknown key, kInvalidArgument for another shape.
  //
  // dist_sync: it counts when this worker pulls, pushes the same key again, comes to a barrier, or
  // closes. So push all keys, then pull all. dist_async: kFailedPrecondition without an optimizer.
  Status push(const KVKey& key, std::span<const tensor::Tensor> values, Deadline deadline);
  Status push(const KVKey& key, const tensor::Tensor& value, Deadline deadline) {
    return push(key, {&value, 1}, deadline);
  }

  // The value, to each of these. It has what this worker pushed; with dist_sync what all did.
  Status pull(const KVKey& key, std::span<const tensor::Tensor> outs, Deadline deadline);
  Status pull(const KVKey& key, const tensor::Tensor& out, Deadline deadline) {
    return pull(key, {&out, 1}, deadline);
  }

  // Both in one.
  Status pushpull(const KVKey& key, std::span<const tensor::Tensor> values,
                  std::span<const tensor::Tensor> outs, Deadline deadline);

  // Rows of the outermost dimension: row i of `out` is row rows[i] of the value. kOutOfRange for
  // one that there is not.
  Status row_sparse_pull(const KVKey& key, std::span<const std::uint64_t> rows,
                         const tensor::Tensor& out, Deadline deadline);

  // Waits for all workers.
  Status barrier(Deadline deadline);
  // Waits until what was pushed counts, and leaves the job. Nothing else can be called after it.
  Status close(Deadline deadline);

 private:
  struct Entry {
    std::size_t number = 0;
    tensor::Spec spec;
  };
  KVStore(KVType type, std::unique_ptr<KVBackend> backend);
  Result<const Entry*> find(const KVKey& key) const;
  Status check_sort(const KVKey& key) const;

  KVType type_;
  std::unique_ptr<KVBackend> backend_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::optional<bool> numbers_;  // the sort of the keys
};

}  // namespace ferry::interop
