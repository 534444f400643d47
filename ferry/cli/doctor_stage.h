#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace ferry::cli {

// One program that a report runs.
struct Stage {
  std::string title;
  std::string program;
  std::vector<std::string> args;
};

struct StageEnd {
  int exit_code = 0;
  bool interrupted = false;
  // Tests that were skipped, variants and sizes that a benchmark could not measure.
  int left_out = 0;
};

// Runs it, and writes a chapter with its command, all it says and how it ended. Calls `on_second`
// with its age about once a second. SIGINT and SIGTERM end it with all it has started, where the
// caller holds an InterruptGuard.
StageEnd run_stage(const Stage& stage, std::ostream& report,
                   const std::function<void(int)>& on_second);

// "passed", "passed, 3 left out", "FAILED (2)", "interrupted"
std::string to_text(const StageEnd& end);

// What the tests and the benchmark say they left out, by their output.
int count_left_out(const std::string& output);

}  // namespace ferry::cli
