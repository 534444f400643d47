#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "ferry/base/log.h"
#include "ferry/interop/fuse/mount.h"
#include "ferry/interop/fuse/stale_mount_internal.h"
#include "ferry/interop/fuse/tree_internal.h"

// The files of a model as FUSE asks for them. docs/files.md says what each of them does.

namespace ferry::interop {
namespace {

constexpr double kKeepNames = 1;  // seconds that the kernel remembers what a path leads to
constexpr unsigned kMostRequests = 32;
constexpr std::size_t kMostNew = std::size_t{1} << 30;  // bytes of a new tensor's first values

int errno_of(const Error& error) {
  switch (error.code()) {
    case Code::kNotFound:
      return ENOENT;
    case Code::kAlreadyExists:
      return EEXIST;
    case Code::kInvalidArgument:
      return EINVAL;
    case Code::kOutOfRange:
      return EFBIG;
    case Code::kResourceExhausted:
      return ENOSPC;
    case Code::kDeadlineExceeded:
      return ETIMEDOUT;
    case Code::kCancelled:
      return EINTR;
    case Code::kAborted:
      return ECANCELED;
    case Code::kUnavailable:
      return ENOTCONN;
    case Code::kFailedPrecondition:
    case Code::kPermissionDenied:
      return EPERM;
    default:
      return EIO;
  }
}

// A file that is open.
struct Handle {
  Found found;
  bool writes = false;
};

class Session {
 public:
  Session(ModelFiles& files, const MountOptions& options)
      : files_(files), options_(options), tree_(files) {
    (void)number_of("");
  }

  Status serve(const std::function<void()>& on_ready);
  bool over() const { return session_ != nullptr && fuse_session_exited(session_) != 0; }

  void look_up(fuse_req_t request, fuse_ino_t folder, const char* name);
  void describe(fuse_req_t request, fuse_ino_t number);
  void change(fuse_req_t request, fuse_ino_t number, const struct stat& wanted, int what);
  void open(fuse_req_t request, fuse_ino_t number, fuse_file_info* file);
  void read(fuse_req_t request, std::size_t size, off_t offset, const fuse_file_info* file);
  void write(fuse_req_t request, std::span<const std::byte> bytes, off_t offset,
             const fuse_file_info* file);
  void flush(fuse_req_t request, const fuse_file_info* file);
  void sync(fuse_req_t request, const fuse_file_info* file);
  void list(fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset);
  void make_folder(fuse_req_t request, fuse_ino_t folder, const char* name);
  void remove_folder(fuse_req_t request, fuse_ino_t folder, const char* name);
  void refuse(fuse_req_t request, const char* why) {
    answer(request, fail(Code::kPermissionDenied, "{}", why));
  }

 private:
  static Handle& handle_of(const fuse_file_info* file) {
    return *reinterpret_cast<Handle*>(file->fh);  // NOLINT(performance-no-int-to-ptr)
  }
  static void answer(fuse_req_t request, const Status& done) {
    if (!done) logger().warn("mount: {}", done.error().message());
    (void)fuse_reply_err(request, done ? 0 : errno_of(done.error()));
  }
  std::string path_of(fuse_ino_t number) {
    const std::lock_guard hold(mutex_);
    return number >= 1 && number <= paths_.size() ? paths_[number - 1] : "?";
  }
  fuse_ino_t number_of(const std::string& path) {
    const std::lock_guard hold(mutex_);
    const auto [at, made] = numbers_.emplace(path, paths_.size() + 1);
    if (made) paths_.push_back(path);
    return at->second;
  }
  std::string path_in(fuse_ino_t folder, const char* name) {
    const auto above = path_of(folder);
    return above.empty() ? name : above + "/" + name;
  }
  struct stat stat_of(const std::string& path, const Found& found);
  void reply_entry(fuse_req_t request, const std::string& path, const Found& found);
  Status read_some(const Handle& handle, std::size_t size, std::uint64_t offset, Piece& piece);
  Status write_some(Handle& handle, std::span<const std::byte> bytes, std::uint64_t offset);
  Status change_size(const Found& found, std::uint64_t size);

  ModelFiles& files_;
  const MountOptions& options_;
  Tree tree_;
  std::mutex mutex_;
  std::vector<std::string> paths_;  // by number, which begins at 1
  std::map<std::string, fuse_ino_t> numbers_;
  fuse_session* session_ = nullptr;
};

struct stat Session::stat_of(const std::string& path, const Found& found) {
  struct stat all {};
  all.st_ino = number_of(path);
  all.st_uid = getuid();
  all.st_gid = getgid();
  if (found.kind == FileKind::kFolder) {
    all.st_mode = S_IFDIR | 0755;
    all.st_nlink = 2;
    return all;
  }
  all.st_mode = S_IFREG | (found.writable() ? 0644 : 0444);
  all.st_nlink = 1;
  all.st_size = static_cast<off_t>(found.bytes());
  all.st_blksize = 1 << 20;
  all.st_blocks = (all.st_size + 511) / 512;
  return all;
}

void Session::reply_entry(fuse_req_t request, const std::string& path, const Found& found) {
  fuse_entry_param entry{};
  entry.attr = stat_of(path, found);
  entry.ino = entry.attr.st_ino;
  entry.entry_timeout = entry.attr_timeout =
      found.made != nullptr || found.kind == FileKind::kFolder ? 0 : kKeepNames;
  (void)fuse_reply_entry(request, &entry);
}

void Session::look_up(fuse_req_t request, fuse_ino_t folder, const char* name) {
  const auto path = path_in(folder, name);
  const auto found = tree_.look(path);
  if (!found) return answer(request, tl::unexpected<Error>(found.error()));
  if (!*found) return (void)fuse_reply_err(request, ENOENT);
  reply_entry(request, path, **found);
}

void Session::describe(fuse_req_t request, fuse_ino_t number) {
  const auto path = path_of(number);
  const auto found = tree_.look(path);
  if (!found) return answer(request, tl::unexpected<Error>(found.error()));
  if (!*found) return (void)fuse_reply_err(request, ENOENT);
  const auto all = stat_of(path, **found);
  (void)fuse_reply_attr(request, &all, (*found)->made != nullptr ? 0 : kKeepNames);
}

// O_TRUNC forgets what was written. Tensors keep their size.
Status Session::change_size(const Found& found, std::uint64_t size) {
  if (!found.writable()) return fail(Code::kPermissionDenied, "this file cannot be written");
  if (found.made != nullptr) {
    const std::lock_guard hold(found.made->mutex);
    auto& text = found.kind == FileKind::kMeta ? found.made->meta : found.made->value;
    if (size > kMostNew) return fail(Code::kOutOfRange, "{} bytes are too many", size);
    text.resize(size);
    return {};
  }
  if (size > found.bytes())
    return fail(Code::kOutOfRange, "a file of {} bytes cannot have {}", found.bytes(), size);
  if (size > 0) return {};
  for (const auto& tensor : found.tensors) FERRY_TRY(files_.forget(*tensor));
  return {};
}

void Session::change(fuse_req_t request, fuse_ino_t number, const struct stat& wanted, int what) {
  const auto found = tree_.look(path_of(number));
  if (!found) return answer(request, tl::unexpected<Error>(found.error()));
  if (!*found) return (void)fuse_reply_err(request, ENOENT);
  if ((what & FUSE_SET_ATTR_SIZE) != 0) {
    const auto done = change_size(**found, static_cast<std::uint64_t>(wanted.st_size));
    if (!done) return answer(request, done);
  }
  describe(request, number);  // owners, modes and times are not kept
}

void Session::open(fuse_req_t request, fuse_ino_t number, fuse_file_info* file) {
  auto found = tree_.look(path_of(number));
  if (!found) return answer(request, tl::unexpected<Error>(found.error()));
  if (!*found) return (void)fuse_reply_err(request, ENOENT);
  const bool writes = (file->flags & O_ACCMODE) != O_RDONLY;
  if (writes && !(*found)->writable()) return (void)fuse_reply_err(request, EACCES);
  auto handle = std::make_unique<Handle>(Handle{**std::move(found), writes});
  if (handle->found.kind == FileKind::kValue && !writes)
    for (const auto& tensor : handle->found.tensors) files_.drop_cached(*tensor);
  file->fh = reinterpret_cast<std::uint64_t>(handle.get());
  file->direct_io = 1;
  if (fuse_reply_open(request, file) == 0) (void)handle.release();  // flush and release follow
}

Status Session::read_some(const Handle& handle, std::size_t size, std::uint64_t offset,
                          Piece& piece) {
  const auto& found = handle.found;
  if (found.kind == FileKind::kMeta || found.made != nullptr) {
    auto text = std::make_shared<std::string>(found.text);
    if (found.made != nullptr) {
      const std::lock_guard hold(found.made->mutex);
      *text = found.kind == FileKind::kMeta ? found.made->meta : found.made->value;
    }
    const auto all = std::as_bytes(std::span(*text));
    const auto from = std::min<std::uint64_t>(offset, all.size());
    piece.spans.push_back(all.subspan(from, std::min<std::uint64_t>(size, all.size() - from)));
    piece.keep.push_back(std::move(text));
    return {};
  }
  const auto end = offset + size;
  std::uint64_t begin = 0;
  for (const auto& tensor : found.tensors) {
    const auto from = std::max(begin, offset);
    const auto to = std::min(begin + tensor->bytes, end);
    if (from < to) {
      if (found.kind == FileKind::kGrad)
        FERRY_TRY(files_.read_staged(*tensor, from - begin, to - from, piece));
      else
        FERRY_TRY(files_.read_value(*tensor, from - begin, to - from, piece));
    }
    begin += tensor->bytes;
  }
  return {};
}

void Session::read(fuse_req_t request, std::size_t size, off_t offset, const fuse_file_info* file) {
  const auto& handle = handle_of(file);
  if (offset == 0 && handle.found.kind == FileKind::kValue)
    for (const auto& tensor : handle.found.tensors) files_.drop_cached_if_unused(*tensor);
  Piece piece;
  const auto done = read_some(handle, size, static_cast<std::uint64_t>(offset), piece);
  if (!done) return answer(request, done);
  std::vector<iovec> parts;
  parts.reserve(piece.spans.size());
  for (const auto& bytes : piece.spans)
    parts.push_back({const_cast<std::byte*>(bytes.data()), bytes.size()});
  if (parts.size() < IOV_MAX) {
    (void)fuse_reply_iov(request, parts.data(), static_cast<int>(parts.size()));
    return;
  }
  std::vector<char> joined;
  for (const auto& part : parts) {
    const auto* bytes = static_cast<const char*>(part.iov_base);
    joined.insert(joined.end(), bytes, bytes + part.iov_len);
  }
  (void)fuse_reply_buf(request, joined.data(), joined.size());
}

Status Session::write_some(Handle& handle, std::span<const std::byte> bytes, std::uint64_t offset) {
  auto& found = handle.found;
  if (found.made != nullptr) {
    const std::lock_guard hold(found.made->mutex);
    auto& text = found.kind == FileKind::kMeta ? found.made->meta : found.made->value;
    if (offset + bytes.size() > kMostNew)
      return fail(Code::kOutOfRange, "a new tensor begins with at most {} bytes", kMostNew);
    text.resize(std::max(text.size(), static_cast<std::size_t>(offset) + bytes.size()));
    std::memcpy(text.data() + offset, bytes.data(), bytes.size());
    return {};
  }
  if (offset + bytes.size() > found.bytes())
    return fail(Code::kOutOfRange, "the file has {} bytes; {} were to be written from {} on",
                found.bytes(), bytes.size(), offset);
  const auto end = offset + bytes.size();
  std::uint64_t begin = 0;
  for (const auto& tensor : found.tensors) {
    const auto from = std::max(begin, offset);
    const auto to = std::min(begin + tensor->bytes, end);
    if (from < to)
      FERRY_TRY(files_.write(*tensor, from - begin, bytes.subspan(from - offset, to - from)));
    begin += tensor->bytes;
  }
  return {};
}

void Session::write(fuse_req_t request, std::span<const std::byte> bytes, off_t offset,
                    const fuse_file_info* file) {
  const auto done = write_some(handle_of(file), bytes, static_cast<std::uint64_t>(offset));
  if (!done) return answer(request, done);
  (void)fuse_reply_write(request, bytes.size());
}

void Session::flush(fuse_req_t request, const fuse_file_info* file) {
  const auto& handle = handle_of(file);
  if (!handle.writes) return (void)fuse_reply_err(request, 0);
  if (const auto& made = handle.found.made; made != nullptr) {
    if (handle.found.kind != FileKind::kMeta) return (void)fuse_reply_err(request, 0);
    {
      const std::lock_guard hold(made->mutex);
      if (made->meta.empty()) return (void)fuse_reply_err(request, 0);
    }
    return answer(request, tree_.make_tensor(made));
  }
  answer(request, files_.commits_on_close() ? files_.commit() : Status());
}

void Session::sync(fuse_req_t request, const fuse_file_info* file) {
  const auto& handle = handle_of(file);
  // The program `sync` opens what it syncs for reading.
  const bool step =
      handle.found.made == nullptr && (handle.writes || handle.found.kind == FileKind::kGrad);
  answer(request, step ? files_.commit() : Status());
}

void Session::list(fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset) {
  const auto path = path_of(number);
  const auto names = tree_.children(path);
  if (!names) return answer(request, tl::unexpected<Error>(names.error()));
  std::vector<std::string> all = {".", ".."};
  all.insert(all.end(), names->begin(), names->end());
  std::vector<char> out(size);
  std::size_t used = 0;
  for (auto at = static_cast<std::size_t>(offset); at < all.size(); ++at) {
    struct stat entry {};
    const auto child = path.empty() ? all[at] : path + "/" + all[at];
    entry.st_ino = at < 2 ? number : number_of(child);
    entry.st_mode = S_IFDIR;  // a hint only
    const auto needed = fuse_add_direntry(request, out.data() + used, size - used, all[at].c_str(),
                                          &entry, static_cast<off_t>(at + 1));
    if (needed > size - used) break;
    used += needed;
  }
  (void)fuse_reply_buf(request, out.data(), used);
}

void Session::make_folder(fuse_req_t request, fuse_ino_t folder, const char* name) {
  const auto path = path_in(folder, name);
  const auto made = tree_.make_folder(path);
  if (!made) return answer(request, made);
  reply_entry(request, path, Found{});
}

void Session::remove_folder(fuse_req_t request, fuse_ino_t folder, const char* name) {
  answer(request, tree_.remove_folder(path_in(folder, name)));
}

Session& session_of(fuse_req_t request) {
  return *static_cast<Session*>(fuse_req_userdata(request));
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops all{};
  all.init = [](void*, fuse_conn_info* kernel) {
    kernel->max_background = kMostRequests;
    kernel->want &= ~static_cast<unsigned>(FUSE_CAP_ATOMIC_O_TRUNC);
  };
  all.lookup = [](fuse_req_t request, fuse_ino_t folder, const char* name) {
    session_of(request).look_up(request, folder, name);
  };
  all.getattr = [](fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
    session_of(request).describe(request, number);
  };
  all.setattr = [](fuse_req_t request, fuse_ino_t number, struct stat* wanted, int what,
                   fuse_file_info*) { session_of(request).change(request, number, *wanted, what); };
  all.open = [](fuse_req_t request, fuse_ino_t number, fuse_file_info* file) {
    session_of(request).open(request, number, file);
  };
  all.read = [](fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset,
                fuse_file_info* file) { session_of(request).read(request, size, offset, file); };
  all.write = [](fuse_req_t request, fuse_ino_t, const char* bytes, std::size_t size, off_t offset,
                 fuse_file_info* file) {
    session_of(request).write(request, std::as_bytes(std::span(bytes, size)), offset, file);
  };
  all.flush = [](fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
    session_of(request).flush(request, file);
  };
  all.fsync = [](fuse_req_t request, fuse_ino_t, int, fuse_file_info* file) {
    session_of(request).sync(request, file);
  };
  all.release = [](fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
    const std::unique_ptr<Handle> gone(
        reinterpret_cast<Handle*>(file->fh));  // NOLINT(performance-no-int-to-ptr)
    (void)fuse_reply_err(request, 0);
  };
  all.readdir = [](fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset,
                   fuse_file_info*) { session_of(request).list(request, number, size, offset); };
  all.mkdir = [](fuse_req_t request, fuse_ino_t folder, const char* name, mode_t) {
    session_of(request).make_folder(request, folder, name);
  };
  all.rmdir = [](fuse_req_t request, fuse_ino_t folder, const char* name) {
    session_of(request).remove_folder(request, folder, name);
  };
  all.create = [](fuse_req_t request, fuse_ino_t, const char*, mode_t, fuse_file_info*) {
    session_of(request).refuse(request, "files are those of tensors; mkdir begins a new tensor");
  };
  all.unlink = [](fuse_req_t request, fuse_ino_t, const char*) {
    session_of(request).refuse(request, "tensors stay for the whole job");
  };
  all.statfs = [](fuse_req_t request, fuse_ino_t) {
    struct statvfs all_of_it {};
    all_of_it.f_bsize = 4096;
    all_of_it.f_namemax = 255;
    (void)fuse_reply_statfs(request, &all_of_it);
  };
  return all;
}

// The arguments of libfuse, freed with the object.
class Arguments {
 public:
  Arguments() {
    for (const auto* word : {"ferry", "-o", "fsname=tensorferry,subtype=ferry,default_permissions"})
      (void)fuse_opt_add_arg(&all_, word);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments() { fuse_opt_free_args(&all_); }
  fuse_args* get() { return &all_; }

 private:
  fuse_args all_{};
};

Status Session::serve(const std::function<void()>& on_ready) {
  Arguments arguments;
  const auto all = operations();
  session_ = fuse_session_new(arguments.get(), &all, sizeof all, this);
  if (session_ == nullptr) return fail(Code::kUnavailable, "FUSE cannot be used here");
  Status done;
  if (fuse_session_mount(session_, options_.folder.c_str()) != 0) {
    done = fail(Code::kUnavailable,
                "cannot mount on {}: it must be a folder of this machine, /dev/fuse must be there, "
                "and fusermount3 for those who are not root",
                options_.folder);
  } else {
    (void)fuse_set_signal_handlers(session_);
    on_ready();
    auto* config = fuse_loop_cfg_create();
    const int ended = fuse_session_loop_mt(session_, config);
    fuse_loop_cfg_destroy(config);
    fuse_remove_signal_handlers(session_);
    fuse_session_unmount(session_);
    if (ended < 0) done = fail_errno(-ended, "the mount of {} has ended", options_.folder);
  }
  fuse_session_destroy(std::exchange(session_, nullptr));
  return done;
}

}  // namespace

Status mount_model(const MountOptions& options, const std::function<void()>& on_ready) {
  FERRY_TRY(remove_stale_mounts(options.folder));
  struct stat folder {};
  // statfs() asks the file system itself: stat() may answer for one whose process has ended.
  struct statfs alive {};
  if (stat(options.folder.c_str(), &folder) != 0 || statfs(options.folder.c_str(), &alive) != 0)
    return fail_errno(errno, "cannot mount on {}", options.folder);
  if (!S_ISDIR(folder.st_mode))
    return fail(Code::kInvalidArgument, "cannot mount on {}: it is no folder", options.folder);
  auto worker = FERRY_TRY(ps::Worker::open(options.worker, Deadline::after(options.patience)));
  Session* serving = nullptr;
  ModelFiles files(std::move(worker), options.patience,
                   [&serving] { return serving != nullptr && serving->over(); });
  Session session(files, options);
  serving = &session;
  const auto served = session.serve(on_ready);
  serving = nullptr;
  const auto left = files.leave();
  return served ? left : served;
}

}  // namespace ferry::interop
