#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>

#include "ferry/base/fd.h"
#include "ferry/ps/scheduler/store_internal.h"
#include "ferry/storage/checkpoint.h"

namespace ferry::ps {
namespace {

constexpr const char* kStateName = "scheduler.state";
constexpr const char* kImageName = "scheduler";

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

}  // namespace ferry::ps
