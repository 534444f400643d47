// What files over FUSE are compared with: one file in the memory of a process, as plain as libfuse
// allows. ferry-peer-fuse-ram FOLDER BYTES mounts it as FOLDER/ram, says so, and leaves on SIGTERM.
#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr fuse_ino_t kFile = 2;
std::vector<char> memory;

struct stat stat_of(fuse_ino_t number) {
  struct stat all {};
  all.st_ino = number;
  all.st_mode = number == kFile ? S_IFREG | 0644 : S_IFDIR | 0755;
  all.st_nlink = 1;
  all.st_size = number == kFile ? static_cast<off_t>(memory.size()) : 0;
  all.st_blksize = 1 << 20;
  return all;
}

void get_attributes(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
  const auto all = stat_of(number);
  fuse_reply_attr(request, &all, 1);
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops all{};
  all.init = [](void*, fuse_conn_info* kernel) { kernel->max_background = 32; };
  all.lookup = [](fuse_req_t request, fuse_ino_t, const char* name) {
    if (std::strcmp(name, "ram") != 0) return (void)fuse_reply_err(request, ENOENT);
    fuse_entry_param entry{};
    entry.ino = kFile;
    entry.attr = stat_of(kFile);
    entry.attr_timeout = entry.entry_timeout = 1;
    fuse_reply_entry(request, &entry);
  };
  all.getattr = get_attributes;
  all.setattr = [](fuse_req_t request, fuse_ino_t number, struct stat*, int, fuse_file_info* file) {
    get_attributes(request, number, file);
  };
  all.open = [](fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
    file->direct_io = 1;
    fuse_reply_open(request, file);
  };
  all.read = [](fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info*) {
    const auto from = std::min(memory.size(), static_cast<std::size_t>(offset));
    fuse_reply_buf(request, memory.data() + from, std::min(size, memory.size() - from));
  };
  all.write = [](fuse_req_t request, fuse_ino_t, const char* bytes, std::size_t size, off_t offset,
                 fuse_file_info*) {
    const auto from = static_cast<std::size_t>(offset);
    if (from > memory.size() || size > memory.size() - from)
      return (void)fuse_reply_err(request, EFBIG);
    std::memcpy(memory.data() + from, bytes, size);
    fuse_reply_write(request, size);
  };
  all.fsync = [](fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
    fuse_reply_err(request, 0);
  };
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: ferry-peer-fuse-ram FOLDER BYTES\n");
    return 2;
  }
  memory.resize(std::strtoull(argv[2], nullptr, 10));
  fuse_args arguments{};
  fuse_opt_add_arg(&arguments, "ferry-peer-fuse-ram");
  const auto all = operations();
  auto* session = fuse_session_new(&arguments, &all, sizeof all, nullptr);
  if (session == nullptr || fuse_session_mount(session, argv[1]) != 0) {
    std::fprintf(stderr, "cannot mount on %s\n", argv[1]);
    return 1;
  }
  fuse_set_signal_handlers(session);
  std::printf("ready\n");
  std::fflush(stdout);
  auto* config = fuse_loop_cfg_create();
  fuse_session_loop_mt(session, config);
  fuse_loop_cfg_destroy(config);
  fuse_remove_signal_handlers(session);
  fuse_session_unmount(session);
  fuse_session_destroy(session);
  fuse_opt_free_args(&arguments);
  return 0;
}
