#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "ferry/base/fd.h"
#include "ferry/base/log.h"
#include "ferry/ps/scheduler/store_internal.h"
#include "ferry/storage/checkpoint.h"

namespace ferry::ps {
namespace {

constexpr const char* kStateName = "scheduler.state";
constexpr const char* kImageName = "scheduler";
constexpr std::chrono::seconds kSaving{10};
constexpr std::chrono::milliseconds kSaveAgain{200};
constexpr std::chrono::milliseconds kLoadAgain{50};
constexpr std::chrono::milliseconds kLongestPause{2000};

// A checkpoint with one tensor of bytes: that room knows how to write a file that is whole.
class FileStore final : public Store {
 public:
  FileStore(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  Result<std::optional<Bytes>> load() override {
    auto found = storage::load_checkpoint(path_);
    if (!found && found.error().code() == Code::kNotFound) return std::optional<Bytes>();
    if (!found) return tl::unexpected<Error>(found.error());
    const auto image = found->tensors.find(kImageName);
    if (image == found->tensors.end())
      return fail(Code::kDataLoss, "{} is a checkpoint, and not the state of a scheduler", path_);
    saves_ = found->step;
    const auto bytes = image->second.bytes();
    return std::optional(Bytes(bytes.begin(), bytes.end()));
  }

  Status save(const Bytes& image) override {
    auto copy = image;
    const auto shape = FERRY_TRY(tensor::Shape::of({static_cast<std::int64_t>(copy.size())}));
    storage::Checkpoint all{.step = ++saves_, .tensors = {}};
    all.tensors.emplace(kImageName,
                        FERRY_TRY(tensor::Tensor::over({tensor::ElementType::kU8, shape}, copy)));
    return storage::save_checkpoint(path_, all);
  }

 private:
  const std::string path_;
  const Fd lock_;
  std::uint64_t saves_ = 0;
};

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::string& where) {
  if (where.starts_with("etcd://")) return open_etcd(where);
  std::error_code problem;
  const auto path = std::filesystem::is_directory(where, problem)
                        ? (std::filesystem::path(where) / kStateName).string()
                        : where;
  // Beside it, since the file itself is another one after each save.
  const auto beside = path + ".lock";
  Fd lock(::open(beside.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!lock)
    return fail_errno(errno,
                      "cannot make {} for the scheduler's state; is there such a folder, and no "
                      "link of that name?",
                      beside);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(Code::kFailedPrecondition,
                "another scheduler keeps its state in {}; end it first, or name another place",
                path);
  return std::unique_ptr<Store>(std::make_unique<FileStore>(path, std::move(lock)));
}

// An etcd that is away may be so for a moment only.
Result<std::optional<Bytes>> load_patiently(Store& store, Deadline deadline) {
  for (auto pause = kLoadAgain;; pause = std::min(2 * pause, kLongestPause)) {
    auto loaded = store.load();
    if (loaded || loaded.error().code() != Code::kUnavailable || deadline.expired()) return loaded;
    logger().warn("{}; the scheduler tries again for {} s", loaded.error().message(),
                  deadline.left_ms() / 1000);
    std::this_thread::sleep_for(std::min<Nanos>(pause, deadline.left()));
  }
}

// A disk that is full, or an etcd that is away, may be so for a moment only.
Status save_patiently(Store& store, const Bytes& image) {
  const auto deadline = Deadline::after(kSaving);
  for (;;) {
    auto saved = store.save(image);
    if (saved || saved.error().code() == Code::kAborted || deadline.expired()) return saved;
    logger().warn("{}", saved.error().message());
    std::this_thread::sleep_for(kSaveAgain);
  }
}

}  // namespace ferry::ps
