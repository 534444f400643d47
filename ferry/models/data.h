#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ferry/models/images.h"
#include "ferry/models/model.h"

namespace ferry::models {

struct DataOptions {
  Split split = Split::kTrain;
  std::int64_t batch = 32;  // samples of one worker in a step
  std::uint32_t worker = 0;
  std::uint32_t workers = 1;
  std::uint64_t seed = 1;
};

// What one worker is fed with. Depends on the options and nothing else, so that a run can be
// resumed, or done over. Not thread-safe: in a job, the thread that runs the
// worker's steps uses it.
class Data {
 public:
  virtual ~Data() = default;
  // The inputs of step n, from 1, by their names; valid until the next call.
  virtual std::map<std::string, tensor::Tensor> of_step(std::uint64_t step) = 0;
  // After so many steps every sample was seen once, but for a rest; 0 where samples are made up.
  virtual std::uint64_t steps_per_epoch() const = 0;
};

// kNotFound names what must be installed.
Result<std::unique_ptr<Data>> open_data(const Model& model, const DataOptions& options);

}  // namespace ferry::models
