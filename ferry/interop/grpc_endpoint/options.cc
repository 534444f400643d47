#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "ferry/base/fd.h"
#include "ferry/base/log.h"
#include "ferry/interop/grpc_endpoint/linked.h"
#include "ferry/interop/grpc_endpoint/options_internal.h"
#include "ferry/mail/tuning.h"

namespace ferry::interop {

namespace {

std::string word_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

double number_of(const char* name, double otherwise, double least, double most,
                 const std::string& otherwise_text = {}) {
  const auto text = word_of(name);
  if (text.empty()) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end == '\0' && value >= least && value <= most) return value;
  logger().warn("{}={}: a number from {} to {} is expected; {} is used", name, text, least, most,
                otherwise_text.empty() ? fmt::format("{}", otherwise) : otherwise_text);
  return otherwise;
}

void read_without(PluginOptions& options) {
  std::istringstream words(word_of("FERRY_GRPC_WITHOUT"));
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "pipelining") {
      options.pipelining = false;
    } else if (word == "coalescing") {
      options.coalescing = false;
    } else if (word == "zero-copy") {
      options.zero_copy = false;
    } else {
      logger().warn(
          "FERRY_GRPC_WITHOUT={}: pipelining, coalescing and zero-copy can be done without", word);
    }
  }
}

std::optional<std::uint64_t> threshold_of(const char* name, std::uint64_t least,
                                          std::uint64_t most) {
  const double value = number_of(name, -1, static_cast<double>(least), static_cast<double>(most),
                                 "what is measured");
  return value < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(value));
}

LinkThresholds read_thresholds() {
  using Limits = mail::TuningLimits;
  LinkThresholds set;
  set.eager_threshold = threshold_of("FERRY_GRPC_EAGER", 0, Limits::kEager);
  set.copy_up_to = threshold_of("FERRY_GRPC_COPY_UP_TO", 0, Limits::kCopy);
  set.chunk_bytes = threshold_of("FERRY_GRPC_CHUNK", Limits::kLeastChunk, Limits::kMostChunk);
  if (const auto chunks = threshold_of("FERRY_GRPC_CHUNKS_IN_FLIGHT", 1, Limits::kChunks))
    set.chunks_in_flight = static_cast<std::uint32_t>(*chunks);
  return set;
}

PluginOptions read_environment() {
  PluginOptions options;
  const auto word = word_of("FERRY_GRPC");
  options.on = word != "off" && word != "0";
  options.provider = word_of("FERRY_GRPC_PROVIDER");
  if (options.provider.empty()) options.provider = "auto";
  options.listen = word_of("FERRY_GRPC_LISTEN");
  options.secret = word_of("FERRY_SECRET");
  options.secret_file = word_of("FERRY_SECRET_FILE");
  if (const double spin = number_of("FERRY_GRPC_SPIN_US", -1, 0, 1e6); spin >= 0) {
    options.spin = Nanos(static_cast<std::int64_t>(spin * 1e3));
    options.spins_always = true;
  }
  options.memory = static_cast<std::uint64_t>(number_of("FERRY_GRPC_MEMORY", 256, 4, 1e6)) << 20;
  options.thresholds = read_thresholds();
  read_without(options);
  options.stats = word_of("FERRY_GRPC_STATS");
  options.patience = number_of("FERRY_GRPC_PATIENCE", 1, 0.01, 1e4);
  options.give_up =
      Nanos(static_cast<std::int64_t>(number_of("FERRY_GRPC_GIVE_UP", 60, 1, 1e6) * 1e9));
  if (const auto level = word_of("FERRY_LOG"); !level.empty()) (void)set_log_level(level);
  return options;
}

PluginOptions& options_of_process() {
  static PluginOptions options = read_environment();
  return options;
}

// Made whole elsewhere and then linked to its name, so that nobody reads half of it.
Status make_user_secret(const std::string& path) {
  auto secret = FERRY_TRY(bootstrap::Secret::generate());
  const auto draft = fmt::format("{}.{}", path, ::getpid());
  ::unlink(draft.c_str());
  FERRY_TRY(secret.save(draft));
  const bool made = ::link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST;
  const int error = errno;
  ::unlink(draft.c_str());
  if (!made) return fail_errno(error, "cannot make '{}', which processes of one user share", path);
  return {};
}

Status check_owner(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return fail_errno(errno, "cannot look at '{}'", path);
  const bool ours =
      S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0;
  if (ours) return {};
  return fail(Code::kPermissionDenied,
              "'{}' is not a private file of this user; remove it, or set FERRY_SECRET_FILE", path);
}

}  // namespace

const PluginOptions& PluginOptions::get() { return options_of_process(); }

void set_plugin(const PluginSetting& setting) {
  auto& options = options_of_process();
  options.provider = setting.provider;
  options.secret = setting.secret;
  options.secret_file = setting.secret_file;
  options.patience = setting.patience;
}

Result<SecretSource> SecretSource::find(const PluginOptions& options) {
  if (!options.secret.empty() || !options.secret_file.empty())
    return SecretSource{options.secret, options.secret.empty() ? options.secret_file : ""};
  const auto path = fmt::format("/dev/shm/tensorferry-grpc-{}", ::geteuid());
  if (::access(path.c_str(), F_OK) != 0) FERRY_TRY(make_user_secret(path));
  FERRY_TRY(check_owner(path));
  return SecretSource{"", path};
}

Result<bootstrap::Secret> SecretSource::read() const {
  return file.empty() ? bootstrap::Secret::from_text(text) : bootstrap::Secret::from_file(file);
}

}  // namespace ferry::interop
