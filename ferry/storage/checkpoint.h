#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ferry/tensor/tensor.h"

namespace ferry::storage {

using NamedTensors = std::map<std::string, tensor::Tensor>;

// The state of a run after so many steps, or of one task of it.
struct Checkpoint {
  std::uint64_t step = 0;
  NamedTensors tensors;
};

// Writes a file that is whole or not there at all: another of that name stays until the new one is
// on disk (see FileReplacement). kResourceExhausted for a full disk, kNotFound for a folder that
// there is not.
Status save_checkpoint(const std::string& path, const Checkpoint& checkpoint);
// kNotFound if there is no such file, kDataLoss if it is not what was written, naming the tensor.
Result<Checkpoint> load_checkpoint(const std::string& path);

// The checkpoints of a run, in a folder: each task saves what it has, `step-00000100/NAME.ferry`.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

  // `shard` says whose it is: letters, digits, '-' and '_'. Makes folders that are missing.
  Status save(const std::string& shard, const Checkpoint& checkpoint) const;
  // Of which there are files, the newest first.
  std::vector<std::uint64_t> steps() const;
  // A step whose files together hold all these tensors, unbroken: kNotFound, kDataLoss otherwise.
  Result<Checkpoint> load(std::uint64_t step, const std::set<std::string>& names) const;
  // The newest such step; broken or incomplete ones are logged and passed over. kNotFound if there
  // is none.
  Result<Checkpoint> load_newest(const std::set<std::string>& names) const;
  // Removes all steps but the newest `count`.
  Status keep_newest(std::size_t count) const;

 private:
  const std::string path_;
};

}  // namespace ferry::storage
