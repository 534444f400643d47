#include "ferry/cli/doctor_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/provider_check.h"
#include "ferry/cli/common/setup.h"
#include "ferry/cli/doctor_host.h"
#include "ferry/cli/doctor_stage.h"

namespace ferry::cli {
namespace {

namespace fs = std::filesystem;

// The test program beside this one, as built or as installed.
Result<fs::path> contract_suite(const fs::path& self) {
  auto folder = self.parent_path();
  std::error_code ignored;
  for (const auto& place : {folder, folder.parent_path() / "libexec" / "tensorferry"})
    if (fs::exists(place / "ferry_contract_tests", ignored)) return place / "ferry_contract_tests";
  return fail(Code::kNotFound,
              "ferry_contract_tests is not beside {}; build the tests (./test) or use the build's "
              "own ferry program",
              self.string());
}

std::vector<Stage> stages_of(const fs::path& self, const fs::path& suite) {
  std::vector<Stage> stages;
  for (const std::string name : {"shm", "tcp", "verbs"}) {
    if (!try_provider(name)) continue;
    stages.push_back({"contract suite on " + name, suite.string(), {"--provider=" + name}});
    std::vector<std::string> args = {"bench", "transfer", "--quick", "--providers", name};
    // RDMA has sizes and a peer of its own.
    if (name == "verbs") args.insert(args.end(), {"--group", "verbs"});
    stages.push_back({"benchmark of " + name, self.string(), args});
  }
  return stages;
}

// The stage that runs, on the terminal. Elsewhere only its beginning and its end.
class StageLine {
 public:
  explicit StageLine(std::string title) : title_(std::move(title)) { print("{} ...", title_); }
  void age(int seconds) {
    if (!tty_ || seconds == shown_) return;
    shown_ = seconds;
    print("\r\033[K{} ... {} s", title_, seconds);
  }
  void end(const std::string& how) {
    if (tty_) print("\r\033[K{} ...", title_);
    print(" {}\n", how);
  }

 private:
  template <class... Args>
  static void print(fmt::format_string<Args...> text, Args&&... args) {
    fmt::print(text, std::forward<Args>(args)...);
    std::fflush(stdout);
  }

  std::string title_;
  int shown_ = 0;
  bool tty_ = isatty(STDOUT_FILENO) != 0;
};

// How many failed. Ends early when interrupted.
int run_stages(const std::vector<Stage>& stages, std::ostream& report) {
  int failed = 0;
  for (const auto& stage : stages) {
    if (InterruptGuard::interrupted()) break;
    StageLine line(stage.title);
    const auto end = run_stage(stage, report, [&](int seconds) { line.age(seconds); });
    line.end(to_text(end) + (end.left_out > 0 ? " (see the report)" : ""));
    failed += end.exit_code != 0;
  }
  return failed;
}

}  // namespace

Result<int> write_doctor_report(const std::string& path) {
  std::error_code error;
  auto self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail(Code::kInternal, "cannot tell where this program is: {}", error.message());
  auto suite = FERRY_TRY(contract_suite(self));
  InterruptGuard guard;
  std::ofstream report(path);
  if (!report) return fail_errno(errno, "writing the report to {}", path);
  report << "# Tensorferry report\n\n";
  for (const auto& line : setup_lines(read_setup())) report << "- " << line << "\n";
  report << "\n## Host\n\n```json\n" << to_json(examine_host()).dump(2) << "\n```\n";
  const int failed = run_stages(stages_of(self, suite), report);
  if (InterruptGuard::interrupted()) report << "\nThe report was interrupted: it is incomplete.\n";
  report.close();
  if (!report) return fail_errno(errno, "writing the report to {}", path);
  if (InterruptGuard::interrupted()) {
    fmt::print("interrupted; {} has what was found until then\n", path);
    return InterruptGuard::exit_code();
  }
  fmt::print("{} written; {} stage(s) failed\n", path, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace ferry::cli
