#include "ferry/cli/doctor_report.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ferry/cli/bench_setup.h"
#include "ferry/cli/doctor.h"
#include "ferry/cli/provider_check.h"

namespace ferry::cli {
namespace {

namespace fs = std::filesystem;

struct Stage {
  std::string title;
  std::string command;
};

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

// The test program beside this one, as built or as installed.
Result<fs::path> contract_suite(const fs::path& self) {
  auto folder = self.parent_path();
  for (const auto& place : {folder, folder.parent_path() / "libexec" / "tensorferry"})
    if (fs::exists(place / "ferry_contract_tests")) return place / "ferry_contract_tests";
  return fail(Code::kNotFound,
              "ferry_contract_tests is not beside {}; build the tests (./test) or use the build's "
              "own ferry program",
              self.string());
}

std::vector<Stage> stages_of(const fs::path& self, const fs::path& suite) {
  std::vector<Stage> stages;
  for (const char* name : {"shm", "tcp", "verbs"}) {
    if (!try_provider(name)) continue;
    stages.push_back({fmt::format("contract suite on {}", name),
                      fmt::format("{} --provider={}", quoted(suite), name)});
    stages.push_back({fmt::format("benchmark of {}", name),
                      fmt::format("{} bench transfer --quick --providers {}", quoted(self), name)});
  }
  return stages;
}

// Runs one stage; its output goes into the report and, in short, to the terminal.
int run_stage(const Stage& stage, std::ofstream& report) {
  fmt::print("{} ...", stage.title);
  std::fflush(stdout);
  report << "\n## " << stage.title << "\n\n    " << stage.command << "\n\n```\n";
  FILE* pipe = ::popen((stage.command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return 1;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) report << buffer;
  int status = ::pclose(pipe);
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  report << "```\n\nexit status " << code << "\n";
  fmt::print(" {}\n", code == 0 ? "passed" : fmt::format("FAILED ({})", code));
  return code;
}

}  // namespace

Result<int> write_report(const std::string& path) {
  std::error_code error;
  auto self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail(Code::kInternal, "cannot tell where this program is: {}", error.message());
  auto suite = FERRY_TRY(contract_suite(self));
  std::ofstream report(path);
  if (!report) return fail_errno(errno, "writing the report to {}", path);
  report << "# Tensorferry report\n\n";
  for (const auto& line : setup_lines(read_setup())) report << "- " << line << "\n";
  report << "\n## Host\n\n```json\n" << to_json(examine_host()).dump(2) << "\n```\n";
  int failed = 0;
  for (const auto& stage : stages_of(self, suite)) failed += run_stage(stage, report) != 0;
  report.close();
  if (!report) return fail_errno(errno, "writing the report to {}", path);
  fmt::print("{} written; {} stage(s) failed\n", path, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace ferry::cli
