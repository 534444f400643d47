#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>

#include "ferry/base/fd.h"
#include "ferry/base/log.h"
#include "ferry/interop/fuse/stale_mount_internal.h"

extern char** environ;

namespace ferry::interop {
namespace {

constexpr int kMostStacked = 16;  // mounts on one folder

// Of the mount that an open file lies in: "mnt_id:\t25" in its fdinfo.
std::string mount_number_of(int fd) {
  std::ifstream info(fmt::format("/proc/self/fdinfo/{}", fd));
  for (std::string word, number; info >> word;)
    if (word == "mnt_id:" && info >> number) return number;
  return {};
}

// The line of a mount: "25 1 0:22 / /mnt rw - fuse.ferry tensorferry rw,user_id=0,group_id=0".
std::optional<std::string> mount_line(const std::string& number) {
  std::ifstream all("/proc/self/mountinfo");
  for (std::string line; std::getline(all, line);)
    if (!number.empty() && line.starts_with(number + " ")) return line;
  return std::nullopt;
}

bool is_of_this_user(int fd) {
  const auto line = mount_line(mount_number_of(fd));
  if (!line) return false;
  const auto about = line->find(" - ");
  if (about == std::string::npos) return false;
  std::istringstream words(line->substr(about + 3));
  std::string type;
  std::string source;
  std::string options;
  words >> type >> source >> options;
  return type == kMountType &&
         ("," + options + ",").find(fmt::format(",user_id={},", getuid())) != std::string::npos;
}

// Asks the file system itself: attributes of its root may be remembered for a while.
bool has_no_process(int fd) {
  struct statfs answer {};
  return fstatfs(fd, &answer) != 0 && errno == ENOTCONN;
}

// For those who are not root.
bool run_fusermount(const std::string& folder) {
  std::string words[] = {"fusermount3", "-u", "-z", "-q", "--", folder};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                  words[4].data(), words[5].data(), nullptr};
  pid_t pid = -1;
  int status = 0;
  return posix_spawnp(&pid, argv[0], nullptr, nullptr, argv, environ) == 0 &&
         waitpid(pid, &status, 0) == pid && status == 0;
}

}  // namespace

Status remove_stale_mounts(const std::string& folder) {
  for (int each = 0; each < kMostStacked; ++each) {
    const Fd root(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root || !has_no_process(root.get()) || !is_of_this_user(root.get())) return {};
    if (umount2(folder.c_str(), MNT_DETACH) != 0 && !run_fusermount(folder))
      return fail(Code::kUnavailable,
                  "cannot unmount {}, where a mount has lost its process: try umount -l {}", folder,
                  folder);
    logger().warn("mount: unmounted {}, whose `ferry mount` was killed", folder);
  }
  return {};
}

}  // namespace ferry::interop
