#include "ferry/cli/doctor_host.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/io_uring.h>
#include <linux/membarrier.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "ferry/cli/common/grpc_plugin.h"
#include "ferry/cli/common/provider_check.h"
#include "ferry/cli/mount.h"
#include "ferry/fabric/verbs/device_facts.h"

namespace ferry::cli {
namespace {

using Level = Finding::Level;

std::string line_in(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// Each is opened alone so that one does not hide another.
void examine_providers(std::vector<Finding>& out) {
  for (const char* name : {"shm", "verbs", "tcp"}) {
    const auto subject = fmt::format("provider {}", name);
    const auto detail = try_provider(name);
    if (detail) {
      out.push_back({subject, Level::kGood, detail->empty() ? "works" : "works: " + *detail, ""});
    } else {
      out.push_back({subject, Level::kNote, "cannot be used here", detail.error().message()});
    }
  }
}

void examine_rdma(std::vector<Finding>& out) {
  auto facts = fabric::verbs::device_facts();
  if (facts.devices.empty()) {
    out.push_back({"RDMA devices", Level::kNote, "none", facts.problem});
    return;
  }
  for (const auto& device : facts.devices) {
    auto subject = "RDMA device " + device.name;
    if (!device.problem.empty()) {
      out.push_back({subject, Level::kBad, "cannot be opened", device.problem});
      continue;
    }
    out.push_back(
        {subject, Level::kGood,
         fmt::format("{} queue pairs, {} regions, {} windows{}, atomics {}", device.max_queue_pairs,
                     device.max_regions, device.max_windows,
                     device.bound_windows ? " (type 2B)" : "", device.atomics ? "yes" : "no"),
         ""});
    for (const auto& port : device.ports) {
      std::string gids;
      for (const auto& gid : port.gids)
        gids += fmt::format("\n      gid {} {} {}{}", gid.index, gid.gid, gid.type,
                            gid.chosen ? " (chosen)" : "");
      out.push_back({fmt::format("  port {}", port.number),
                     port.active ? Level::kGood : Level::kBad,
                     fmt::format("{}, {}, MTU {}, messages up to {} bytes{}", port.state,
                                 port.link_layer, port.active_mtu, port.max_message, gids),
                     port.active ? "" : "bring the link up: ip link set dev <netdev> up"});
    }
  }
}

void examine_limits(std::vector<Finding>& out) {
  rlimit locked{};
  ::getrlimit(RLIMIT_MEMLOCK, &locked);
  bool unlimited = locked.rlim_cur == RLIM_INFINITY;
  bool small = !unlimited && locked.rlim_cur < (std::uint64_t{1} << 30);
  out.push_back({"memory that may be locked", small ? Level::kNote : Level::kGood,
                 unlimited ? "unlimited" : fmt::format("{} KiB", locked.rlim_cur / 1024),
                 small ? "only RDMA needs more: ulimit -l unlimited, or memlock in "
                         "/etc/security/limits.conf"
                       : ""});
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  bool few = files.rlim_cur < 4096;
  out.push_back({"open files", few ? Level::kNote : Level::kGood, fmt::format("{}", files.rlim_cur),
                 few ? "many peers need more: ulimit -n 65536" : ""});
  auto pages = line_in("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  bool none = pages.empty() || pages == "0";
  out.push_back({"free huge pages (2 MiB)", none ? Level::kNote : Level::kGood,
                 pages.empty() ? "not supported" : pages,
                 none ? "large arenas map faster with some: sysctl vm.nr_hugepages=512" : ""});
}

void examine_kernel(std::vector<Finding>& out) {
  io_uring_params setting{};
  long ring = ::syscall(SYS_io_uring_setup, 2, &setting);
  int refusal = ring < 0 ? errno : 0;
  if (ring >= 0) ::close(static_cast<int>(ring));
  out.push_back({"io_uring", Level::kGood,
                 (refusal == 0 ? "allowed" : "refused: " + text_of_errno(refusal)) +
                     "; not used: direct calls and epoll were faster",
                 ""});
  auto barrier = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  bool expedited = barrier > 0 && (barrier & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0;
  out.push_back({"expedited membarrier", expedited ? Level::kGood : Level::kNote,
                 expedited ? "there" : "missing",
                 expedited ? "" : "shm writes pay a full fence each; use a newer kernel"});
  long fault = ::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
  if (fault >= 0) ::close(static_cast<int>(fault));
  out.push_back({"userfaultfd", fault >= 0 ? Level::kGood : Level::kNote,
                 fault >= 0 ? "allowed" : "refused",
                 fault >= 0 ? ""
                            : "RDMA registrations of your own memory are not cached; sysctl "
                              "vm.unprivileged_userfaultfd=1"});
}

void examine_cuda(std::vector<Finding>& out) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    out.push_back({"CUDA", Level::kNote, "no driver (libcuda.so.1)", ""});
    return;
  }
  auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  auto count_of = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  int count = 0;
  bool works = init != nullptr && count_of != nullptr && init(0) == 0 && count_of(&count) == 0;
  out.push_back({"CUDA", works ? Level::kGood : Level::kNote,
                 works ? fmt::format("{} device(s)", count) : "driver found, but it does not start",
                 works ? "tensors in GPU memory are not moved by this version" : "run nvidia-smi"});
  ::dlclose(driver);
}

// What was built only where its libraries were there.
void examine_programs(std::vector<Finding>& out) {
  const auto look = [&out](const char* subject, const Result<std::string>& path) {
    out.push_back({subject, path ? Level::kGood : Level::kNote,
                   path ? *path : std::string("cannot be used here"),
                   path ? std::string() : path.error().message()});
  };
  look("plug-in for gRPC", grpc_plugin_path());
  auto files = mount_program();
  if (files && ::access("/dev/fuse", R_OK | W_OK) != 0)
    files = fail_errno(errno, "/dev/fuse cannot be opened");
  look("models as files (FUSE)", files);
}

const char* mark_of(Level level) {
  switch (level) {
    case Level::kGood:
      return "ok  ";
    case Level::kNote:
      return "note";
    case Level::kBad:
      return "BAD ";
  }
  return "BAD ";
}

const char* name_of(Level level) {
  switch (level) {
    case Level::kGood:
      return "good";
    case Level::kNote:
      return "note";
    case Level::kBad:
      return "bad";
  }
  return "bad";
}

}  // namespace

std::vector<Finding> examine_host() {
  std::vector<Finding> out;
  examine_providers(out);
  examine_rdma(out);
  examine_limits(out);
  examine_kernel(out);
  examine_cuda(out);
  examine_programs(out);
  return out;
}

nlohmann::json to_json(const std::vector<Finding>& findings) {
  auto list = nlohmann::json::array();
  for (const auto& finding : findings)
    list.push_back({{"subject", finding.subject},
                    {"level", name_of(finding.level)},
                    {"state", finding.state},
                    {"advice", finding.advice}});
  return list;
}

std::string to_text(const std::vector<Finding>& findings) {
  std::string text;
  std::map<std::string, std::string> given;  // advice, and what for
  for (const auto& finding : findings) {
    text += fmt::format("{}  {:<26} {}\n", mark_of(finding.level), finding.subject, finding.state);
    if (finding.advice.empty()) continue;
    const auto [first, fresh] = given.try_emplace(finding.advice, finding.subject);
    text += fmt::format("      {:<26} -> {}\n", "",
                        fresh ? finding.advice : fmt::format("as for {}", first->second));
  }
  return text;
}

}  // namespace ferry::cli
