#include "ferry/cli/mount.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/programs.h"
#include "ferry/cli/common/seconds.h"
#include "ferry/cli/doctor_peer.h"

namespace ferry::cli {
namespace {

struct MountFlags {
  std::string scheduler;
  std::string folder;
  std::string provider = "auto";
  std::string secret_file;
  double patience = 60;
};

// Does not return if all is well.
Status run_mount(const MountFlags& flags) {
  FERRY_TRY(peer_options(flags.secret_file, flags.patience));  // there is a secret
  const auto program = FERRY_TRY(mount_program());
  const auto patience = fmt::format("{}", flags.patience);
  execl(program.c_str(), program.c_str(), flags.scheduler.c_str(), flags.folder.c_str(),
        flags.provider.c_str(), flags.secret_file.c_str(), patience.c_str(), nullptr);
  return fail_errno(errno, "cannot run {}", program);
}

}  // namespace

Result<std::string> mount_program() {
  auto program = program_beside(FERRY_TRY(running_program()), "ferry-mount");
  if (program.empty())
    return fail(Code::kUnimplemented,
                "there is no ferry-mount beside this program: apt install libfuse3-dev, if it is "
                "not there, and build again (cmake --build --preset release)");
  return program;
}

void add_mount(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<MountFlags>();
  auto* command = app.add_subcommand("mount", "The tensors of a parameter server's job as files");
  command->add_option("scheduler", flags->scheduler, "HOST:PORT of the job's scheduler")
      ->required();
  command->add_option("folder", flags->folder, "Where the files are to be")->required();
  command->add_option("--provider", flags->provider, "auto, shm, tcp, verbs, or a list")
      ->capture_default_str();
  command->add_option("--secret-file", flags->secret_file,
                      "The cluster's secret (or FERRY_SECRET in the environment)");
  command
      ->add_option("--patience", flags->patience, "Seconds to wait for the job, and for each step")
      ->check(seconds_between(0.1, 86400))
      ->capture_default_str();
  command->footer(
      "The mount is one worker of the job. FOLDER/NAME/value are weights, FOLDER/NAME/grad takes "
      "gradients,\nand fsync of a file that was written pushes all of them and waits for the "
      "step.");
  command->callback([flags, &exit_code] {
    const auto status = run_mount(*flags);
    if (!status) fmt::print(stderr, "ferry mount: {}\n", status.error().message());
    exit_code = status ? 0 : kCannotRun;
  });
}

}  // namespace ferry::cli
