#include "ferry/cli/mount.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "ferry/cli/command_line.h"
#include "ferry/cli/doctor_peer.h"
#include "ferry/cli/seconds.h"
#ifdef FERRY_HAS_FUSE
#include "ferry/interop/fuse/mount.h"
#endif

namespace ferry::cli {
namespace {

struct MountFlags {
  std::string scheduler;
  std::string folder;
  std::string provider = "auto";
  std::string secret_file;
  double patience = 60;
};

#ifdef FERRY_HAS_FUSE
Status run_mount(const MountFlags& flags) {
  const auto peer = FERRY_TRY(peer_options(flags.secret_file, flags.patience));
  interop::MountOptions options;
  options.worker.scheduler = flags.scheduler;
  options.worker.device = device_options(peer);
  options.worker.device.provider = flags.provider;
  options.folder = flags.folder;
  options.patience = Nanos(static_cast<std::int64_t>(flags.patience * 1e9));
  return interop::mount_model(options, [&flags] {
    fmt::print("the model of {} is at {}; Ctrl-C or umount ends it\n", flags.scheduler,
               flags.folder);
    std::fflush(stdout);
  });
}
#else
Status run_mount(const MountFlags&) {
  return fail(Code::kUnimplemented,
              "this program was built without FUSE; install libfuse3-dev and build it again");
}
#endif

}  // namespace

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
