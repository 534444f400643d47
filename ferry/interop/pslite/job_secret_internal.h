#pragma once

#include <optional>
#include <string>

#include "ferry/base/error.h"
#include "ferry/base/fd.h"

namespace ps {

// The secret of a job whose scheduler is on the loopback, where nobody has set one: a random one,
// in a file that only the user may read, in a folder that only the user may enter. The scheduler
// writes the file and holds a lock on it for as long as it lives, so that a file that was left
// behind is told from one of a job that runs. Jobs are told apart by the scheduler's address and
// its network namespace. Move-only; one thread at a time.
class JobSecret {
 public:
  // At the scheduler. Nobody finds it before publish().
  static ferry::Result<JobSecret> create(const std::string& scheduler);
  // At other nodes. kNotFound: no scheduler of this user that lives has published one.
  static ferry::Result<std::string> find(const std::string& scheduler);

  JobSecret(JobSecret&&) noexcept = default;
  JobSecret& operator=(JobSecret&&) = delete;
  // Removes the file. The scheduler still has its port: the file is not another job's.
  ~JobSecret();

  const std::string& text() const { return text_; }
  // Replaces what an earlier job at this address has left behind. The scheduler has its port
  // already, so that there is no other.
  ferry::Status publish();

 private:
  JobSecret() = default;
  ferry::Fd folder_;
  ferry::Fd file_;    // locked
  std::string path_;  // of the folder
  std::string name_;  // in the folder, now
  std::string final_name_;
  std::string text_;
};

}  // namespace ps
