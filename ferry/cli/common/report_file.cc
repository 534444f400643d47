#include "ferry/cli/common/report_file.h"

#include <cerrno>
#include <cstdio>

namespace ferry::cli {

Status check_writable(const std::string& path) {
  if (path.empty() || path == "-") return {};
  auto* file = std::fopen(path.c_str(), "a");
  if (file == nullptr) return fail_errno(errno, "cannot write the report to {}", path);
  std::fclose(file);
  return {};
}

Status write_report(const std::string& path, const std::string& text) {
  auto* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (file == nullptr) return fail_errno(errno, "cannot write the report to {}", path);
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = (path == "-" ? std::fflush(file) : std::fclose(file)) == 0;
  if (!whole || !closed) return fail_errno(errno, "cannot write the report to {}", path);
  return {};
}

}  // namespace ferry::cli
