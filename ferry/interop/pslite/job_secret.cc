#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ferry/bootstrap/secret.h"
#include "ferry/interop/pslite/job_secret_internal.h"

namespace ps {
namespace {

using ferry::Code;
using ferry::Fd;
using ferry::Result;

constexpr std::size_t kSecretBytes = 32;
constexpr mode_t kOthers = 077;
constexpr const char* kUnpublished = ".new-";
constexpr time_t kAbandonedAfter = 24 * 60 * 60;  // seconds

// Where a folder for secrets may be: `base` must be the user's own, or it may be anybody's.
struct Place {
  std::string base;
  bool own_base = false;
  std::string folder;
  std::string path() const { return base + "/" + folder; }
};

std::vector<Place> secret_places() {
  const auto user = geteuid();
  std::vector<Place> places;
  // Of the session; then the same by its usual name, for processes that were started without it.
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime == '/')
    places.push_back({runtime, true, "tensorferry"});
  places.push_back({fmt::format("/run/user/{}", user), true, "tensorferry"});
  const char* temporary = std::getenv("TMPDIR");
  if (temporary != nullptr && *temporary == '/')
    places.push_back({temporary, false, fmt::format("tensorferry-{}", user)});
  places.push_back({"/tmp", false, fmt::format("tensorferry-{}", user)});
  return places;
}

// The folder, which belongs to this user and which no other may enter. What another user has put
// in its place is refused.
Result<Fd> open_secret_folder(const Place& place, bool make) {
  struct stat facts {};
  const Fd base(open(place.base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!base || fstat(base.get(), &facts) != 0)
    return ferry::fail_errno(errno, "cannot open the folder {}", place.base);
  if (place.own_base && facts.st_uid != geteuid())
    return ferry::fail(Code::kPermissionDenied, "the folder {} belongs to user {}", place.base,
                       facts.st_uid);
  if (make && mkdirat(base.get(), place.folder.c_str(), 0700) != 0 && errno != EEXIST)
    return ferry::fail_errno(errno, "cannot make the folder {}", place.path());
  Fd folder(
      openat(base.get(), place.folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder || fstat(folder.get(), &facts) != 0)
    return ferry::fail_errno(errno, "cannot open the folder {}", place.path());
  if (facts.st_uid != geteuid() || (facts.st_mode & kOthers) != 0)
    return ferry::fail(Code::kPermissionDenied,
                       "the folder {} has owner {} and mode {:o}: not this user's alone",
                       place.path(), facts.st_uid, facts.st_mode & 07777);
  return folder;
}

// Jobs at the same address in different network namespaces are different jobs.
std::string secret_name(const std::string& scheduler) {
  struct stat facts {};
  if (stat("/proc/self/ns/net", &facts) != 0) facts.st_ino = 0;
  auto address = scheduler;
  std::replace(address.begin(), address.end(), '/', '_');
  constexpr std::string_view kLocal = "localhost:";
  if (address.rfind(kLocal, 0) == 0) address = "127.0.0.1:" + address.substr(kLocal.size());
  return fmt::format("pslite-{}-{}", facts.st_ino, address);
}

Result<std::string> random_text() {
  std::array<std::byte, kSecretBytes> bytes{};
  FERRY_TRY(ferry::bootstrap::random_bytes(bytes));
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

// What a scheduler that lives has written; empty if none does.
std::string read_secret(const Fd& folder, const std::string& name) {
  const Fd file(openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts {};
  if (!file || fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      facts.st_uid != geteuid() || (facts.st_mode & kOthers) != 0)
    return {};
  if (flock(file.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return {};
  std::string text(2 * kSecretBytes, '\0');
  const auto got = pread(file.get(), text.data(), text.size(), 0);
  return got == static_cast<ssize_t>(text.size()) ? text : std::string();
}

// What schedulers that were killed before publish() have left: nobody has a lock on it. A file that
// is made just now has none for a moment, so that only those of yesterday count.
void remove_abandoned(const Fd& folder) {
  const int copy = openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* list = copy >= 0 ? fdopendir(copy) : nullptr;
  if (list == nullptr) {
    if (copy >= 0) (void)close(copy);
    return;
  }
  while (const auto* entry = readdir(list)) {
    const std::string name = entry->d_name;
    struct stat facts {};
    if (name.rfind(kUnpublished, 0) != 0 ||
        fstatat(folder.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(facts.st_mode) || facts.st_mtime > time(nullptr) - kAbandonedAfter)
      continue;
    const Fd file(
        openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file && flock(file.get(), LOCK_SH | LOCK_NB) == 0)
      (void)unlinkat(folder.get(), name.c_str(), 0);
  }
  (void)closedir(list);
}

}  // namespace

Result<JobSecret> JobSecret::create(const std::string& scheduler) {
  JobSecret secret;
  std::string tried;
  for (const auto& place : secret_places()) {
    auto folder = open_secret_folder(place, true);
    if (folder) {
      secret.folder_ = std::move(*folder);
      secret.path_ = place.path();
      break;
    }
    tried += (tried.empty() ? "" : "; ") + folder.error().message();
  }
  if (!secret.folder_)
    return ferry::fail(Code::kFailedPrecondition,
                       "there is no folder for the job's secret ({}); set FERRY_SECRET, the same "
                       "in all processes of the job, or TMPDIR to a folder of your own",
                       tried);
  remove_abandoned(secret.folder_);
  secret.text_ = FERRY_TRY(random_text());
  secret.final_name_ = secret_name(scheduler);
  secret.name_ = fmt::format("{}{}", kUnpublished, FERRY_TRY(random_text()));
  secret.file_ = Fd(openat(secret.folder_.get(), secret.name_.c_str(),
                           O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!secret.file_) {
    secret.name_.clear();
    return ferry::fail_errno(errno, "cannot make a file in {}", secret.path_);
  }
  if (flock(secret.file_.get(), LOCK_EX | LOCK_NB) != 0 ||
      pwrite(secret.file_.get(), secret.text_.data(), secret.text_.size(), 0) !=
          static_cast<ssize_t>(secret.text_.size()))
    return ferry::fail_errno(errno, "cannot lock or write a file in {}", secret.path_);
  return secret;
}

ferry::Status JobSecret::publish() {
  if (renameat(folder_.get(), name_.c_str(), folder_.get(), final_name_.c_str()) != 0)
    return ferry::fail_errno(errno, "cannot name the file {}/{}", path_, final_name_);
  name_ = final_name_;
  return {};
}

JobSecret::~JobSecret() {
  if (folder_ && !name_.empty()) (void)unlinkat(folder_.get(), name_.c_str(), 0);
  ferry::bootstrap::wipe(std::as_writable_bytes(std::span(text_)));
}

Result<std::string> JobSecret::find(const std::string& scheduler) {
  std::string looked_in;
  for (const auto& place : secret_places()) {
    looked_in += (looked_in.empty() ? "" : ", ") + place.path();
    const auto folder = open_secret_folder(place, false);
    if (!folder) continue;
    if (auto text = read_secret(*folder, secret_name(scheduler)); !text.empty()) return text;
  }
  return ferry::fail(Code::kNotFound,
                     "no scheduler of user {} at {} runs that has left a secret (looked in {}); "
                     "start it, or set FERRY_SECRET, the same in all processes of the job",
                     geteuid(), scheduler, looked_in);
}

}  // namespace ps
