#include "ferry/cli/common/grpc_plugin.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "ferry/cli/common/programs.h"

namespace ferry::cli {
namespace {

constexpr const char* kPluginFile = "libferry_grpc.so";

}  // namespace

Result<std::string> grpc_plugin_path() {
  const auto self = FERRY_TRY(running_program());
  const auto top = std::filesystem::path(self).parent_path().parent_path();
  for (const char* folder : {"lib", FERRY_LIBDIR}) {
    const auto path = top / folder / kPluginFile;
    if (::access(path.c_str(), R_OK) == 0) return path.string();
  }
  return fail(
      Code::kNotFound,
      "{} is not in {}/lib: apt install libgrpc++-dev (1.51.1), if it is not there, and build "
      "again (cmake --build --preset release)",
      kPluginFile, top.string());
}

std::string preload_setting(const std::string& library) {
  const char* others = std::getenv("LD_PRELOAD");
  const bool any = others != nullptr && *others != '\0';
  return fmt::format("LD_PRELOAD={}{}{}", library, any ? ":" : "", any ? others : "");
}

}  // namespace ferry::cli
