#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/ps/ps.h"
#include "ferry/cli/common/child.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/random_secret.h"
#include "ferry/cli/common/text.h"
#include "ferry/storage/temporary_folder.h"

// The mounted model beside a plain file of libfuse in memory, both driven by fio.

namespace ferry::bench {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr std::uint64_t kFileBytes = std::uint64_t{256} << 20;
constexpr std::array<std::uint64_t, 2> kBlocks = {256 << 10, 1 << 20};
constexpr int kDepth = 8;
constexpr seconds kPatience{60};

// Programs that were started, and the folder they use; gone with the object, in the right order.
class FileStage {
 public:
  static Result<std::unique_ptr<FileStage>> open(const PsPlan& plan) {
    std::unique_ptr<FileStage> stage(new FileStage(
        FERRY_TRY(storage::make_temporary_folder("ferry-files")), FERRY_TRY(cli::random_secret())));
    FERRY_TRY(stage->begin(plan));
    return stage;
  }
  FileStage(const FileStage&) = delete;
  FileStage& operator=(const FileStage&) = delete;
  ~FileStage() {
    while (!children_.empty()) {  // mounts first
      children_.back().end(seconds(5));
      children_.pop_back();
    }
    std::error_code ignored;
    fs::remove(folder_ / "model", ignored);  // what is still mounted is left alone
    fs::remove(folder_ / "plain", ignored);
    fs::remove(folder_, ignored);
  }

  std::string read_from(bool ours) const {
    return (folder_ / (ours ? "model/tensor/value" : "plain/ram")).string();
  }

 private:
  FileStage(fs::path folder, const std::string& secret)
      : folder_(std::move(folder)), settings_{"FERRY_SECRET=" + secret} {}

  // Starts a program and waits for its first line, which begins like this; what follows.
  Result<std::string> start(const std::string& program, const std::vector<std::string>& args,
                            const std::string& says) {
    children_.push_back(FERRY_TRY(
        cli::ChildProgram::start(program, args, cli::Complaints::kWithTheRest, settings_)));
    auto line = FERRY_TRY(children_.back().read_line(Deadline::after(kPatience)));
    if (!line.starts_with(says)) return fail(Code::kUnavailable, "{}", line);
    return line.substr(says.size());
  }

  Status make_folder(const std::string& name) const {
    std::error_code problem;
    if (fs::create_directory(folder_ / name, problem)) return {};
    return fail(Code::kUnavailable, "cannot make the folder {}: {}", (folder_ / name).string(),
                problem.message());
  }

  Status begin(const PsPlan& plan) {
    FERRY_TRY(make_folder("model"));
    FERRY_TRY(make_folder("plain"));
    const auto at = FERRY_TRY(start(
        plan.ferry, {"ps", "--role", "scheduler", "--consistency", "async"}, "scheduler at "));
    FERRY_TRY(start(plan.ferry, {"ps", "--role", "server", "--scheduler", at}, "server "));
    FERRY_TRY(start(plan.ferry, {"mount", at, (folder_ / "model").string()}, "the model of "));
    FERRY_TRY(start(plan.fuse_ram, {(folder_ / "plain").string(), fmt::format("{}", kFileBytes)},
                    "ready"));
    FERRY_TRY(make_folder("model/tensor"));
    std::ofstream meta(folder_ / "model/tensor/meta");
    meta << fmt::format("{{\"shape\": [{}], \"update\": \"assign\"}}\n", kFileBytes / 4);
    meta.close();
    std::error_code problem;
    if (fs::file_size(folder_ / "model/tensor/value", problem) != kFileBytes)
      return fail(Code::kInternal, "the tensor was not made");
    return {};
  }

  const fs::path folder_;
  const std::vector<std::string> settings_;
  std::vector<cli::ChildProgram> children_;
};

// Bytes a second.
Result<double> run_fio(const std::string& file, const std::string& what, std::uint64_t block,
                       bool verify, double time) {
  std::vector<std::string> args = {"fio",
                                   "--name=ferry",
                                   "--filename=" + file,
                                   fmt::format("--size={}", kFileBytes),
                                   fmt::format("--bs={}", block),
                                   "--rw=" + what,
                                   "--ioengine=libaio",
                                   "--direct=1",
                                   fmt::format("--iodepth={}", kDepth),
                                   "--fallocate=none",
                                   "--overwrite=1",
                                   "--output-format=json"};
  if (verify)
    args.insert(args.end(),
                {"--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--end_fsync=1"});
  if (time > 0) args.insert(args.end(), {"--time_based", fmt::format("--runtime={:.0f}", time)});
  auto child =
      FERRY_TRY(cli::ChildProgram::start("/usr/bin/env", args, cli::Complaints::kWithTheRest));
  std::string said;
  for (;;) {
    const auto more = FERRY_TRY(child.read_some(Deadline::after(kPatience)));
    if (more.empty()) break;
    said += more;
  }
  if (const int status = child.wait(seconds(5)); status != 0)
    return fail(Code::kUnavailable, "fio ended with status {}: {}", status, said.substr(0, 300));
  const auto begin = said.find('{');
  const auto report = nlohmann::json::parse(begin == std::string::npos ? "" : said.substr(begin),
                                            nullptr, /*allow_exceptions=*/false);
  if (report.is_discarded() || !report.contains("jobs"))
    return fail(Code::kInternal, "fio's report cannot be read: {}", said.substr(0, 300));
  const auto& job = report["jobs"][0];
  return job[what == "read" ? "read" : "write"]["bw_bytes"].get<double>();
}

}  // namespace

Result<std::vector<PsFigure>> measure_files(const PsPlan& plan) {
  std::vector<PsFigure> figures;
  for (const auto block : kBlocks)
    for (const auto* what : {"read", "write"})
      figures.push_back(
          {.id = fmt::format("files-{}-{}k", what, block >> 10),
           .sentence = fmt::format("files, fio {} {}, depth {}: 0.9 of a file in memory", what,
                                   cli::size_text(block), kDepth),
           .unit = "GB/s",
           .bound = 0.9,
           .at_most = false,
           .ours = {},
           .other = {},
           .skipped = {}});
  if (plan.fuse_ram.empty())
    return fail(Code::kUnavailable, "there is no ferry-peer-fuse-ram: libfuse3-dev was not found");
  const auto stage = FERRY_TRY(FileStage::open(plan));
  for (const bool ours : {true, false})
    FERRY_TRY(run_fio(stage->read_from(ours), "write", 1 << 20, /*verify=*/true, 0));
  for (int turn = 0; turn < plan.turns; ++turn)
    for (std::size_t each = 0; each < figures.size(); ++each)
      for (const bool ours : {true, false}) {
        if (cli::InterruptGuard::interrupted()) return fail(Code::kCancelled, "interrupted");
        const auto speed =
            FERRY_TRY(run_fio(stage->read_from(ours), each % 2 == 0 ? "read" : "write",
                              kBlocks[each / 2], /*verify=*/false, plan.quick ? 1 : 2));
        (ours ? figures[each].ours : figures[each].other).push_back(speed / 1e9);
      }
  return figures;
}

}  // namespace ferry::bench
