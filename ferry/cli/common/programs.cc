#include "ferry/cli/common/programs.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace ferry::cli {

Result<std::string> running_program() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(Code::kInternal, "cannot tell where this program is: {}", error.message());
  return self.string();
}

std::vector<std::string> program_folders(const std::string& self) {
  const auto folder = std::filesystem::path(self).parent_path();
  return {folder.string(), (folder.parent_path() / "libexec" / "tensorferry").string()};
}

std::string program_beside(const std::string& self, const std::string& name) {
  for (const auto& folder : program_folders(self)) {
    auto path = (std::filesystem::path(folder) / name).string();
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

void let_kernels_wait_asleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  const auto program = running_program();
  if (!program) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv(program->c_str(), argv);
}

}  // namespace ferry::cli
