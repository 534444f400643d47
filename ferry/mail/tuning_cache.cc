#include "ferry/mail/tuning_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <tuple>

#include "ferry/base/hash.h"
#include "ferry/base/log.h"

namespace ferry::mail {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = 256 << 10;
constexpr const char* kLockName = "calibrating";
constexpr const char* kSuffix = ".json";

// Names files, keeps nobody out. What the file says of itself is compared too.
std::uint64_t hash_of(std::string_view text) { return Hash().take(text).value(); }

std::string time_now() {
  auto now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string machine_name() {
  std::array<char, 65> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

Result<std::string> read_file(const std::string& file) {
  Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail_errno(errno, "opening {}", file);
  std::string text(kLargestFile + 1, '\0');
  std::size_t have = 0;
  for (ssize_t got = 1; got != 0 && have < text.size(); have += static_cast<std::size_t>(got)) {
    got = ::read(fd.get(), text.data() + have, text.size() - have);
    if (got < 0) return fail_errno(errno, "reading {}", file);
  }
  text.resize(have);
  return text;
}

Status write_all(int fd, std::string_view text, const std::string& file) {
  while (!text.empty()) {
    auto put = ::write(fd, text.data(), text.size());
    if (put < 0) return fail_errno(errno, "writing {}", file);
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

// Under another name first, then renamed: nobody sees half of it.
Status replace_file(const std::string& file, std::string_view text) {
  auto draft = file + ".XXXXXX";
  Fd fd(::mkostemp(draft.data(), O_CLOEXEC));
  if (!fd) return fail_errno(errno, "creating {}", draft);
  auto status = write_all(fd.get(), text, draft);
  if (status && ::rename(draft.c_str(), file.c_str()) != 0)
    status = fail_errno(errno, "renaming {} to {}", draft, file);
  if (!status) ::unlink(draft.c_str());
  return status;
}

// PROVIDER-HASH.json, or what a writer that died left of it: the same and ".XXXXXX".
bool is_entry(std::string_view name) {
  constexpr std::size_t kHashDigits = 16;
  constexpr std::size_t kDraft = 7;
  auto end = name.rfind(kSuffix);
  if (end == std::string_view::npos) return false;
  auto rest = name.substr(end + std::string_view(kSuffix).size());
  bool whole = rest.empty() || (rest.size() == kDraft && rest[0] == '.');
  auto dash = name.rfind('-', end);
  if (!whole || dash == std::string_view::npos || dash == 0) return false;
  auto hash = name.substr(dash + 1, end - dash - 1);
  return hash.size() == kHashDigits &&
         hash.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Nothing if there is no such file. What is wrong with one is said once, here.
std::optional<TuningEntry> read_entry(const std::string& file) {
  auto text = read_file(file);
  bool missing = !text && (text.error().os_code() == ENOENT || text.error().os_code() == ENOTDIR);
  if (missing) return std::nullopt;
  auto entry = text ? TuningEntry::from_text(*text) : tl::unexpected<Error>(text.error());
  if (entry) return *std::move(entry);
  logger().warn("the tuning in {} is ignored: {}", file, entry.error().message());
  return std::nullopt;
}

}  // namespace

TuningPath TuningPath::between(std::string host, std::string other, std::string provider) {
  if (other < host) host.swap(other);
  return {std::move(host), std::move(other), std::move(provider)};
}

TuningPath TuningPath::of(const fabric::Channel& channel) {
  return between(fabric::host_id(), channel.peer_host(), channel.provider());
}

std::string TuningCache::file_of(const TuningPath& path) const {
  auto hash = hash_of(path.host + " " + path.other_host);
  return fmt::format("{}/{}-{:016x}{}", folder_, path.provider, hash, kSuffix);
}

std::optional<TuningEntry> TuningCache::load(const TuningPath& path) const {
  if (folder_.empty()) return std::nullopt;
  auto file = file_of(path);
  auto entry = read_entry(file);
  if (!entry || entry->path == path) return entry;
  logger().warn("the tuning in {} is ignored: it is of other hosts", file);
  return std::nullopt;
}

Status TuningCache::make_folder() const {
  if (folder_.empty())
    return fail(Code::kFailedPrecondition,
                "there is no folder for tunings: set FERRY_TUNING to one, or HOME");
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return fail_errno(error.value(), "making the folder {}", folder_);
  return {};
}

Status TuningCache::store(const TuningPath& path, const Calibration& found) const {
  FERRY_TRY(check_tuning(found.tuning));
  FERRY_TRY(make_folder());
  TuningEntry entry{path, found, time_now(), machine_name()};
  return replace_file(file_of(path), entry.to_text());
}

std::vector<TuningEntry> TuningCache::list() const {
  std::vector<TuningEntry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != kSuffix) continue;
    if (auto entry = read_entry(at->path().string())) entries.push_back(*std::move(entry));
  }
  auto order = [](const TuningEntry& entry) {
    return std::tie(entry.when, entry.path.provider, entry.path.host, entry.path.other_host);
  };
  std::sort(entries.begin(), entries.end(),
            [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return entries;
}

Result<int> TuningCache::forget(std::string_view provider) const {
  int removed = 0;
  std::error_code error;
  if (!fs::exists(folder_, error)) return removed;
  auto prefix = provider.empty() ? "" : std::string(provider) + "-";
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    auto name = at->path().filename().string();
    if (!is_entry(name) || !name.starts_with(prefix) || at->is_directory(error)) continue;
    if (::unlink(at->path().c_str()) != 0)
      return fail_errno(errno, "removing {}", at->path().string());
    ++removed;
  }
  if (error) return fail_errno(error.value(), "looking into {}", folder_);
  return removed;
}

Result<Fd> TuningCache::try_lock() const {
  FERRY_TRY(make_folder());
  // Hosts may share the folder.
  auto file = fmt::format("{}/{}-{}", folder_, kLockName, fabric::host_id());
  Fd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return fail_errno(errno, "opening {}", file);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno == EWOULDBLOCK) return fail(Code::kUnavailable, "another process calibrates now");
  return fail_errno(errno, "locking {}", file);
}

}  // namespace ferry::mail
