// ferry-mount SCHEDULER FOLDER PROVIDER SECRET_FILE SECONDS: what `ferry mount` runs, so that only
// those who mount need libfuse. An empty SECRET_FILE: FERRY_SECRET in the environment.
#include <fmt/format.h>

#include <cstdlib>

#include "ferry/interop/fuse/mount.h"

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr, "ferry-mount: started by `ferry mount`\n");
    return 2;
  }
  ferry::interop::MountOptions options;
  options.worker.scheduler = argv[1];
  options.folder = argv[2];
  options.worker.device.provider = argv[3];
  options.worker.device.secret_file = argv[4];
  if (const char* secret = std::getenv("FERRY_SECRET"); secret != nullptr && *argv[4] == '\0')
    options.worker.device.secret = secret;
  options.patience = ferry::Nanos(static_cast<std::int64_t>(std::strtod(argv[5], nullptr) * 1e9));
  const auto served = ferry::interop::mount_model(options, [&options] {
    fmt::print("the model of {} is at {}; Ctrl-C or umount ends it\n", options.worker.scheduler,
               options.folder);
    std::fflush(stdout);
  });
  if (!served) fmt::print(stderr, "ferry mount: {}\n", served.error().message());
  return served ? 0 : 2;
}
