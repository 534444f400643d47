#include "ferry/storage/file_replacement.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

namespace ferry::storage {
namespace {

constexpr std::string_view kDraftEnd = ".new";
constexpr std::size_t kDraftDigits = 16;
constexpr std::size_t kLongestStem = 200;  // so that the whole name is no longer than may be
constexpr int kMakeTries = 16;

// What the names of all new files for this path begin with.
std::string draft_stem(const std::string& path) {
  const auto name = std::filesystem::path(path).filename().string();
  return fmt::format("{}.", std::string_view(name).substr(0, kLongestStem));
}

bool is_draft(std::string_view name, std::string_view stem) {
  if (name.size() != stem.size() + kDraftDigits + kDraftEnd.size()) return false;
  if (!name.starts_with(stem) || !name.ends_with(kDraftEnd)) return false;
  const auto digits = name.substr(stem.size(), kDraftDigits);
  return digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A writer has its file locked until its end, also when it is killed. The file stays locked here
// until it is removed: a writer that has just made it, and has yet to lock it, then makes another.
void remove_if_left_behind(int folder, const char* name) {
  const Fd file(openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat found {};
  if (file && fstat(file.get(), &found) == 0 && S_ISREG(found.st_mode) &&
      found.st_uid == geteuid() && flock(file.get(), LOCK_EX | LOCK_NB) == 0)
    (void)unlinkat(folder, name, 0);
}

void remove_left_behind(int folder, std::string_view stem) {
  Fd again(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> all(fdopendir(again.get()), &closedir);
  if (all == nullptr) return;
  (void)again.release();  // the folder's stream closes it
  for (const auto* entry = readdir(all.get()); entry != nullptr; entry = readdir(all.get()))
    if (is_draft(entry->d_name, stem)) remove_if_left_behind(folder, entry->d_name);
}

}  // namespace

FileReplacement::FileReplacement(FileReplacement&& other) noexcept
    : path_(std::move(other.path_)),
      folder_(std::move(other.folder_)),
      file_(std::move(other.file_)),
      name_(std::exchange(other.name_, {})) {}

FileReplacement::~FileReplacement() {
  if (!name_.empty()) (void)unlinkat(folder_.get(), name_.c_str(), 0);
}

Result<FileReplacement> FileReplacement::begin(const std::string& path) {
  auto folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  Fd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened)
    return fail_errno(errno, "cannot write {}: cannot open the folder {}", path, folder.string());
  FileReplacement made(path, std::move(opened));
  FERRY_TRY(made.make());
  remove_left_behind(made.folder_.get(), draft_stem(path));
  return made;
}

Status FileReplacement::make() {
  for (int tries = 0; tries < kMakeTries; ++tries)
    if (FERRY_TRY(try_to_make())) return {};
  return fail(Code::kUnavailable, "cannot write {}: others take the names of new files", path_);
}

Result<bool> FileReplacement::try_to_make() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number))
    return fail_errno(errno, "cannot write {}: no random name", path_);
  const auto name = fmt::format("{}{:016x}{}", draft_stem(path_), number, kDraftEnd);
  Fd file(openat(folder_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                 0666));
  if (!file && errno == EEXIST) return false;
  if (!file) return fail_errno(errno, "cannot write {}: cannot make a file beside it", path_);
  // Another writer may have taken it for one that was left behind, before it was locked.
  const bool taken = flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  struct stat made {};
  if (taken || fstat(file.get(), &made) != 0 || made.st_nlink == 0) return false;
  file_ = std::move(file);
  name_ = name;
  return true;
}

Status FileReplacement::finish() {
  if (fsync(file_.get()) != 0) return fail_errno(errno, "cannot sync {}", path_);
  const auto target = std::filesystem::path(path_).filename().string();
  if (renameat(folder_.get(), name_.c_str(), folder_.get(), target.c_str()) != 0)
    return fail_errno(errno, "cannot write {}", path_);
  name_.clear();
  if (fsync(folder_.get()) != 0) return fail_errno(errno, "cannot sync the folder of {}", path_);
  return {};
}

}  // namespace ferry::storage
