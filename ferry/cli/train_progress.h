#pragma once

#include <cstdint>
#include <cstdio>

#include "ferry/train/job.h"

namespace ferry::cli {

// The steps of one worker: one line that is written over on a terminal; elsewhere a line now and
// then.
class TrainProgress {
 public:
  TrainProgress(const train::JobOptions& options, std::FILE* out);
  void operator()(const train::StepReport& step);

 private:
  const train::JobOptions& options_;
  std::FILE* out_;
  const bool on_terminal_;
  const bool reads_text_;
  std::uint64_t seen_ = 0;
  double next_ = 0;
};

}  // namespace ferry::cli
