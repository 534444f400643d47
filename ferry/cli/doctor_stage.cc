#include "ferry/cli/doctor_stage.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ostream>
#include <sstream>

#include "ferry/cli/common/child.h"
#include "ferry/cli/common/interrupt_guard.h"

namespace ferry::cli {
namespace {

using namespace std::chrono_literals;

// Far more than any stage takes, so that one that hangs does not hold up the report for ever.
constexpr Nanos kStageLimit = 30min;
// For a benchmark that was interrupted to stop its own programs.
constexpr Nanos kGrace = 5s;
// As timeout(1) has it.
constexpr int kTookTooLong = 124;

// Until it says no more; false when it had to be ended before.
bool listen_to(ChildProgram& child, std::ostream& report, std::string& output,
               const std::function<void(int)>& on_second) {
  const auto begun = now_ns();
  for (;;) {
    const auto part = child.read_some(Deadline::after(1s));
    const auto age = Nanos(now_ns() - begun);
    on_second(static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(age).count()));
    if (part && part->empty()) return true;
    if (part) {
      report << *part << std::flush;
      output += *part;
    } else if (part.error().code() != Code::kDeadlineExceeded || age > kStageLimit) {
      child.end(kGrace);
      return false;
    }
  }
}

StageEnd follow(const Stage& stage, std::ostream& report,
                const std::function<void(int)>& on_second) {
  StageEnd end;
  auto child = ChildProgram::start(stage.program, stage.args, Complaints::kWithTheRest);
  if (!child) {
    report << child.error().message() << "\n";
    end.exit_code = 127;
    return end;
  }
  std::string output;
  const bool ended = listen_to(*child, report, output, on_second);
  end.interrupted = InterruptGuard::interrupted();
  end.exit_code = ended ? child->wait(kGrace) : kTookTooLong;
  end.left_out = count_left_out(output);
  return end;
}

}  // namespace

StageEnd run_stage(const Stage& stage, std::ostream& report,
                   const std::function<void(int)>& on_second) {
  report << "\n## " << stage.title << "\n\n    " << stage.program;
  for (const auto& word : stage.args) report << " " << word;
  report << "\n\n```\n" << std::flush;
  const auto end = follow(stage, report, on_second);
  report << "```\n\n" << to_text(end) << "\n" << std::flush;
  return end;
}

std::string to_text(const StageEnd& end) {
  if (end.interrupted) return "interrupted";
  if (end.exit_code != 0) return fmt::format("FAILED ({})", end.exit_code);
  if (end.left_out == 0) return "passed";
  return fmt::format("passed, {} left out", end.left_out);
}

int count_left_out(const std::string& output) {
  // gtest's line with their number; the lines of single tests have a name there.
  constexpr std::string_view kSkipped = "[  SKIPPED ] ";
  int count = 0;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("note: ", 0) == 0 && line.find(" is left out: ") != std::string::npos) ++count;
    if (line.rfind(kSkipped, 0) == 0) count += std::atoi(line.c_str() + kSkipped.size());
  }
  return count;
}

}  // namespace ferry::cli
