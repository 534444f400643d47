#include "ferry/cli/common/setup.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include <ctime>
#include <fstream>
#include <sstream>

#include "ferry/cli/common/text.h"

namespace ferry::cli {
namespace {

// What follows `key` and a separator on the first line that begins with it.
std::string value_after(const std::string& path, const std::string& key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const auto at = line.find(separator);
    if (at == std::string::npos) continue;
    const auto first = line.find_first_not_of(" \t\"", at + 1);
    const auto last = line.find_last_not_of(" \t\"");
    return first == std::string::npos ? "" : line.substr(first, last - first + 1);
  }
  return "unknown";
}

std::uint64_t meminfo(const std::string& key) {
  std::istringstream text(value_after("/proc/meminfo", key, ':'));
  std::uint64_t kib = 0;
  text >> kib;
  return kib * 1024;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "unknown";
}

int allowed_cores() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

}  // namespace

Setup read_setup() {
  Setup setup;
  setup.cpu = value_after("/proc/cpuinfo", "model name", ':');
  setup.cores = allowed_cores();
  utsname kernel{};
  if (uname(&kernel) == 0) setup.kernel = fmt::format("{} {}", kernel.sysname, kernel.release);
  setup.system = value_after("/etc/os-release", "PRETTY_NAME", '=');
  setup.memory = meminfo("MemTotal");
  setup.memory_available = meminfo("MemAvailable");
  setup.huge_pages = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  setup.compiler = compiler();
  if (getloadavg(&setup.load, 1) != 1) setup.load = 0;
  setup.date = fmt::format("{:%Y-%m-%d %H:%M UTC}", fmt::gmtime(std::time(nullptr)));
  return setup;
}

std::vector<std::string> setup_lines(const Setup& setup) {
  const auto mib = [](std::uint64_t bytes) { return size_text(bytes >> 20 << 20); };
  return {
      fmt::format("cpu      {}, {} cores allowed, load {:.1f}", setup.cpu, setup.cores, setup.load),
      fmt::format("memory   {}, {} free, transparent huge pages {}", mib(setup.memory),
                  mib(setup.memory_available), setup.huge_pages),
      fmt::format("system   {}, {}, built by {}", setup.system, setup.kernel, setup.compiler),
  };
}

}  // namespace ferry::cli
