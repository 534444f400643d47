#pragma once

#include <string>

#include "ferry/base/error.h"
#include "ferry/base/fd.h"

namespace ferry::storage {

// A file that takes the place of another one when it is whole: readers see the one or the other.
// Until then it lies in the same folder under a name that nobody can know beforehand, and links
// that somebody has put there are not followed. Move-only; one thread.
class FileReplacement {
 public:
  // Makes the new file, and removes what writers of the same path left when they were killed.
  // kNotFound for a folder that there is not.
  static Result<FileReplacement> begin(const std::string& path);
  FileReplacement(FileReplacement&& other) noexcept;
  FileReplacement& operator=(FileReplacement&&) = delete;
  // Removes the new file if it has not taken its place.
  ~FileReplacement();

  int fd() const { return file_.get(); }
  // The file takes its place; it and its name are on disk when this returns.
  Status finish();

 private:
  FileReplacement(std::string path, Fd folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}
  Status make();
  // True: the file was made, and is this writer's.
  Result<bool> try_to_make();

  std::string path_;
  Fd folder_;
  Fd file_;
  std::string name_;  // of the new file, in its folder; empty when it has taken its place
};

}  // namespace ferry::storage
