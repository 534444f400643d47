#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ferry/interop/fuse/model_files_internal.h"

namespace ferry::interop {

// A tensor that somebody is making: a folder, with what was written to its files so far.
struct NewTensor {
  std::string name;
  std::mutex mutex;
  std::string meta;
  std::string value;
};

enum class FileKind : std::uint8_t { kFolder, kMeta, kValue, kGrad };

// What a path leads to.
struct Found {
  FileKind kind = FileKind::kFolder;
  ModelFiles::Tensors tensors;      // one after the other; of a file
  std::shared_ptr<NewTensor> made;  // or of this one
  std::string text;                 // of kMeta, unless it is a new tensor's

  bool writable() const;
  std::uint64_t bytes() const;
};

// Paths, without a slash at either end; "" is the root. Thread-safe.
class Tree {
 public:
  explicit Tree(ModelFiles& files) : files_(files) {}

  // None: there is nothing.
  Result<std::optional<Found>> look(const std::string& path);
  Result<std::set<std::string>> children(const std::string& path);
  // A new tensor begins as a folder. kAlreadyExists.
  Status make_folder(const std::string& path);
  // kFailedPrecondition for the folder of a tensor.
  Status remove_folder(const std::string& path);
  // Makes the tensor that its meta describes.
  Status make_tensor(const std::shared_ptr<NewTensor>& made);

 private:
  std::shared_ptr<NewTensor> made_at(const std::string& path);
  Result<std::optional<Found>> look_at_file(const std::string& folder, const std::string& leaf);

  ModelFiles& files_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<NewTensor>> made_;  // by path
};

}  // namespace ferry::interop
