#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "ferry/base/clock.h"
#include "ferry/base/fd.h"
#include "ferry/base/log.h"
#include "ferry/interop/fuse/stale_mount_internal.h"

extern char** environ;

namespace ferry::interop {
namespace {

constexpr int kMostStacked = 16;  // mounts on one folder
constexpr std::chrono::seconds kLockPatience{10};
constexpr std::chrono::milliseconds kLockPause{20};

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

bool is_stale(int fd) { return has_no_process(fd) && is_of_this_user(fd); }

// What is mounted there, if anything is; the root of that, not the folder below.
Fd open_mount_root(const std::string& folder) {
  return Fd(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// Where an open folder is, without symbolic links. Does not ask its file system.
Result<std::string> path_of_open(int fd) {
  std::string path(PATH_MAX, '\0');
  const auto size = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path.data(), path.size());
  if (size <= 0 || path[0] != '/') return fail_errno(errno, "cannot find out where a mount is");
  path.resize(static_cast<std::size_t>(size));
  return path;
}

// Of the folder that the mount's lies in: whoever has it alone may unmount there.
Result<Fd> lock_parent(const std::string& path) {
  const auto parent = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  Fd lock(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock) return fail_errno(errno, "cannot open the folder {}", parent);
  for (const auto end = Deadline::after(kLockPatience); flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
       std::this_thread::sleep_for(kLockPause))
    if (errno != EWOULDBLOCK || end.expired())
      return fail_errno(errno,
                        "cannot lock the folder {} to unmount {}, which has lost its process",
                        parent, path);
  return lock;
}

}  // namespace

// Another `ferry mount` may unmount the same folder and mount there anew: what is unmounted here is
// found to be stale, and unmounted, under one lock.
Status remove_stale_mounts(const std::string& folder) {
  for (int each = 0; each < kMostStacked; ++each) {
    const auto seen = open_mount_root(folder);
    if (!seen || !is_stale(seen.get())) return {};
    const auto path = FERRY_TRY(path_of_open(seen.get()));
    const auto lock = FERRY_TRY(lock_parent(path));
    const auto root = open_mount_root(path);
    if (!root || !is_stale(root.get())) continue;
    // Somebody without the lock, such as fusermount3, may have unmounted it just now.
    if (mount_number_of(open_mount_root(path).get()) != mount_number_of(root.get())) continue;
    if (umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && !run_fusermount(path))
      return fail(Code::kUnavailable,
                  "cannot unmount {}, where a mount has lost its process: try umount -l {}", folder,
                  folder);
    logger().warn("mount: unmounted {}, whose `ferry mount` was killed", folder);
  }
  return {};
}

}  // namespace ferry::interop
