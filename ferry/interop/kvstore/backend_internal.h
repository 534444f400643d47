#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/interop/kvstore/kvtype.h"
#include "ferry/ps/update.h"
#include "ferry/ps/worker.h"
#include "ferry/tensor/tensor.h"

namespace ferry::interop {

// Where the values of a store are. Keys are numbers, from 0, in the order in which they were made;
// who calls has checked keys and shapes.
class KVBackend {
 public:
  KVBackend() = default;
  KVBackend(const KVBackend&) = delete;
  KVBackend& operator=(const KVBackend&) = delete;
  virtual ~KVBackend() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t num_workers() const = 0;
  // All of them or none.
  virtual Status init(std::span<const std::string> names, std::span<const tensor::Tensor> values,
                      Deadline deadline) = 0;
  virtual Status set_optimizer(const ps::Update& optimizer, Deadline deadline) = 0;
  virtual Status push(std::size_t key, std::span<const tensor::Tensor> values,
                      Deadline deadline) = 0;
  virtual Status pull(std::size_t key, std::span<const tensor::Tensor> outs, Deadline deadline) = 0;
  virtual Status pushpull(std::size_t key, std::span<const tensor::Tensor> values,
                          std::span<const tensor::Tensor> outs, Deadline deadline) = 0;
  virtual Status pull_rows(std::size_t key, std::span<const std::uint64_t> rows,
                           std::span<std::byte> out, Deadline deadline) = 0;
  virtual Status barrier(Deadline deadline) = 0;
  virtual Status close(Deadline deadline) = 0;
};

// The floats of values of one shape.
std::vector<const float*> floats_of(std::span<const tensor::Tensor> values);

std::unique_ptr<KVBackend> make_local_backend();
Result<std::unique_ptr<KVBackend>> open_dist_backend(KVType type, ps::WorkerOptions options,
                                                     Deadline deadline);

}  // namespace ferry::interop
