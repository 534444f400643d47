#include "ferry/storage/temporary_folder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace ferry::storage {

Result<std::string> make_temporary_folder(std::string_view prefix) {
  std::error_code problem;
  const auto place = std::filesystem::temp_directory_path(problem);
  if (problem)
    return fail(Code::kFailedPrecondition,
                "there is no folder for temporary files ({}): TMPDIR has to name one that there is",
                problem.message());
  auto path = (place / fmt::format("{}-XXXXXX", prefix)).string();
  if (mkdtemp(path.data()) == nullptr)
    return fail_errno(errno, "cannot make the folder {}; set TMPDIR to where there is room", path);
  return path;
}

}  // namespace ferry::storage
