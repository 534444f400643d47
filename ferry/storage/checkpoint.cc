#include "ferry/storage/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "ferry/base/fd.h"
#include "ferry/base/log.h"
#include "ferry/storage/checkpoint_format_internal.h"
#include "ferry/storage/file_replacement.h"

namespace ferry::storage {
namespace {

namespace fs = std::filesystem;

Status write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset,
                const std::string& path) {
  while (!bytes.empty()) {
    const auto written = pwrite(fd, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30),
                                static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail_errno(errno, "cannot write {}", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

std::uint64_t aligned(std::uint64_t offset) {
  return (offset + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}

Table table_of(const Checkpoint& checkpoint) {
  Table table;
  table.step = checkpoint.step;
  for (const auto& [name, tensor] : checkpoint.tensors)
    table.entries.push_back({.name = name,
                             .spec = tensor.spec(),
                             .bytes = tensor.bytes().size(),
                             .digest = digest_of(tensor.bytes())});
  auto offset = aligned(table_length(table.entries));
  for (auto& entry : table.entries) {
    entry.offset = offset;
    offset = aligned(offset + entry.bytes);
  }
  return table;
}

Status write_file(int fd, const std::string& path, const Checkpoint& checkpoint) {
  const auto table = table_of(checkpoint);
  FERRY_TRY(write_at(fd, table_bytes(table), 0, path));
  // Also where the last tensors are empty.
  const auto end = table.entries.empty() ? table_length(table.entries)
                                         : table.entries.back().offset + table.entries.back().bytes;
  if (ftruncate(fd, static_cast<off_t>(end)) != 0)
    return fail_errno(errno, "cannot write {}", path);
  for (const auto& entry : table.entries)
    FERRY_TRY(write_at(fd, checkpoint.tensors.at(entry.name).bytes(), entry.offset, path));
  return {};
}

Result<tensor::Tensor> tensor_in(std::span<const std::byte> file, const Entry& entry) {
  const auto bytes = file.subspan(entry.offset, entry.bytes);
  if (digest_of(bytes) != entry.digest)
    return fail(Code::kDataLoss, "the checksum of '{}' is wrong", entry.name);
  auto memory = std::shared_ptr<std::byte>(
      static_cast<std::byte*>(
          ::operator new(std::max<std::size_t>(entry.bytes, 1), std::align_val_t(64))),
      [](std::byte* at) { ::operator delete(at, std::align_val_t(64)); });
  if (!bytes.empty()) std::memcpy(memory.get(), bytes.data(), bytes.size());
  return tensor::Tensor::over(entry.spec, {memory.get(), entry.bytes}, memory);
}

// What can be read of a folder.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem))
    all.push_back(at->path());
  return all;
}

// A step's folder, by number; none for others.
std::optional<std::uint64_t> step_of(const fs::path& folder) {
  const auto name = folder.filename().string();
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size() || name.size() > 24)
    return std::nullopt;
  std::uint64_t step = 0;
  for (const auto digit : name.substr(kPrefix.size())) {
    if (digit < '0' || digit > '9') return std::nullopt;
    step = step * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  return step;
}

std::string folder_of(const std::string& path, std::uint64_t step) {
  return fmt::format("{}/step-{:08}", path, step);
}

// All files of a step together.
Result<Checkpoint> load_step(std::uint64_t step, const fs::path& folder) {
  Checkpoint all{.step = step, .tensors = {}};
  for (const auto& path : entries_of(folder)) {
    if (path.extension() != ".ferry") continue;
    auto shard = FERRY_TRY(load_checkpoint(path.string()));
    if (shard.step != step)
      return fail(Code::kDataLoss, "{} is of step {}", path.string(), shard.step);
    all.tensors.merge(shard.tensors);
  }
  return all;
}

}  // namespace

Status save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  auto next = FERRY_TRY(FileReplacement::begin(path));
  FERRY_TRY(write_file(next.fd(), path, checkpoint));
  return next.finish();
}

Result<Checkpoint> load_checkpoint(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (!fd || fstat(fd.get(), &found) != 0) return fail_errno(errno, "cannot open {}", path);
  if (found.st_size == 0) return fail(Code::kDataLoss, "{} is empty", path);
  const auto file =
      FERRY_TRY(Mapping::shared(fd.get(), static_cast<std::size_t>(found.st_size), false));
  auto table = parse_table(file.bytes());
  if (!table) return fail(table.error().code(), "{}: {}", path, table.error().message());
  Checkpoint checkpoint{.step = table->step, .tensors = {}};
  for (const auto& entry : table->entries) {
    auto tensor = tensor_in(file.bytes(), entry);
    if (!tensor) return fail(tensor.error().code(), "{}: {}", path, tensor.error().message());
    checkpoint.tensors.emplace(entry.name, *std::move(tensor));
  }
  return checkpoint;
}

Status CheckpointFolder::save(const std::string& shard, const Checkpoint& checkpoint) const {
  const auto folder = folder_of(path_, checkpoint.step);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return fail(Code::kUnavailable, "cannot make the folder {}: {}", folder, error.message());
  return save_checkpoint(fmt::format("{}/{}.ferry", folder, shard), checkpoint);
}

std::vector<std::uint64_t> CheckpointFolder::steps() const {
  std::vector<std::uint64_t> all;
  for (const auto& path : entries_of(path_))
    if (const auto step = step_of(path)) all.push_back(*step);
  std::sort(all.rbegin(), all.rend());
  return all;
}

Result<Checkpoint> CheckpointFolder::load(std::uint64_t step,
                                          const std::set<std::string>& names) const {
  auto loaded = FERRY_TRY(load_step(step, folder_of(path_, step)));
  for (const auto& name : names)
    if (loaded.tensors.count(name) == 0)
      return fail(Code::kNotFound, "{} is missing; is it another model's, or optimizer's?", name);
  return loaded;
}

Result<Checkpoint> CheckpointFolder::load_newest(const std::set<std::string>& names) const {
  std::string why;
  for (const auto step : steps()) {
    auto loaded = load(step, names);
    if (loaded) return loaded;
    logger().warn("passing over step {} in {}: {}", step, path_, loaded.error().message());
    if (why.empty()) why = fmt::format("; of step {}: {}", step, loaded.error().message());
  }
  return fail(Code::kNotFound, "there is no checkpoint in {} that can be used{}", path_, why);
}

Status CheckpointFolder::keep_newest(std::size_t count) const {
  const auto all = steps();
  for (std::size_t index = count; index < all.size(); ++index) {
    const auto folder = folder_of(path_, all[index]);
    std::error_code error;
    fs::remove_all(folder, error);
    if (error) return fail(Code::kUnavailable, "cannot remove {}: {}", folder, error.message());
  }
  return {};
}

}  // namespace ferry::storage
