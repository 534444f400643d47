#include <algorithm>

#include "ferry/interop/fuse/meta_internal.h"
#include "ferry/interop/fuse/names_internal.h"
#include "ferry/interop/fuse/tree_internal.h"

namespace ferry::interop {
namespace {

std::optional<FileKind> kind_named(const std::string& leaf, bool root) {
  if (leaf == "meta") return FileKind::kMeta;
  if (leaf == "grad") return FileKind::kGrad;
  if (leaf == (root ? "model" : "value")) return FileKind::kValue;
  return std::nullopt;
}

bool lies_in(const std::string& path, const std::string& folder) {
  return folder.empty() || path.starts_with(folder + "/");
}

}  // namespace

bool Found::writable() const {
  if (kind == FileKind::kGrad) return made == nullptr;
  if (made != nullptr) return kind != FileKind::kFolder;
  return kind == FileKind::kValue && !tensors.empty() &&
         std::all_of(tensors.begin(), tensors.end(),
                     [](const auto& tensor) { return tensor->assigned(); });
}

std::uint64_t Found::bytes() const {
  if (made != nullptr) {
    const std::lock_guard hold(made->mutex);
    return kind == FileKind::kMeta ? made->meta.size() : made->value.size();
  }
  if (kind == FileKind::kMeta) return text.size();
  std::uint64_t all = 0;
  for (const auto& tensor : tensors) all += tensor->bytes;
  return all;
}

std::shared_ptr<NewTensor> Tree::made_at(const std::string& path) {
  const std::lock_guard hold(mutex_);
  const auto found = made_.find(path);
  return found == made_.end() ? nullptr : found->second;
}

Result<std::optional<Found>> Tree::look_at_file(const std::string& folder,
                                                const std::string& leaf) {
  const auto kind = kind_named(leaf, folder.empty());
  if (!kind) return std::nullopt;
  if (folder.empty()) {
    Found found{.kind = *kind, .tensors = FERRY_TRY(files_.list()), .made = {}, .text = {}};
    if (*kind == FileKind::kMeta) found.text = meta_of(found.tensors);
    return found;
  }
  // First those that are being made: they need no answer of the scheduler, and make_tensor() takes
  // them away only when find() finds them.
  if (auto made = made_at(folder); made != nullptr && *kind != FileKind::kGrad)
    return Found{.kind = *kind, .tensors = {}, .made = std::move(made), .text = {}};
  if (auto tensor = FERRY_TRY(files_.find(name_of_path(folder))); tensor != nullptr) {
    Found found{.kind = *kind, .tensors = {tensor}, .made = {}, .text = {}};
    if (*kind == FileKind::kMeta) found.text = meta_of(*tensor);
    return found;
  }
  return std::nullopt;
}

Result<std::optional<Found>> Tree::look(const std::string& path) {
  if (path.empty()) return Found{};
  const auto slash = path.rfind('/');
  const auto folder = slash == std::string::npos ? "" : path.substr(0, slash);
  auto file = FERRY_TRY(look_at_file(folder, path.substr(folder.empty() ? 0 : slash + 1)));
  if (file) return file;
  if (made_at(path) != nullptr) return Found{};
  if (FERRY_TRY(files_.find(name_of_path(path))) != nullptr) return Found{};
  if (FERRY_TRY(children(path)).empty()) return std::nullopt;
  return Found{};
}

Result<std::set<std::string>> Tree::children(const std::string& path) {
  std::set<std::string> names;
  if (path.empty()) names = {"model", "grad", "meta"};
  const auto see = [&](const std::string& other) {
    if (other.empty() || !lies_in(other, path)) return;
    const auto begin = path.empty() ? 0 : path.size() + 1;
    names.insert(other.substr(begin, other.find('/', begin) - begin));
  };
  for (const auto& tensor : FERRY_TRY(files_.list())) {
    const auto other = path_of_name(tensor->name);
    see(other);
    if (other == path) names.insert({"value", "grad", "meta"});
  }
  const std::lock_guard hold(mutex_);
  for (const auto& [other, made] : made_) {
    see(other);
    if (other == path) names.insert({"value", "meta"});
  }
  return names;
}

Status Tree::make_folder(const std::string& path) {
  if (FERRY_TRY(look(path))) return fail(Code::kAlreadyExists, "'{}' is there already", path);
  auto made = std::make_shared<NewTensor>();
  made->name = name_of_path(path);
  const std::lock_guard hold(mutex_);
  made_.emplace(path, std::move(made));
  return {};
}

Status Tree::remove_folder(const std::string& path) {
  const std::lock_guard hold(mutex_);
  if (made_.erase(path) > 0) return {};
  return fail(Code::kFailedPrecondition, "'{}' is no new tensor; tensors stay for the whole job",
              path);
}

Status Tree::make_tensor(const std::shared_ptr<NewTensor>& made) {
  std::string meta;
  std::string value;
  {
    const std::lock_guard hold(made->mutex);
    meta = made->meta;
    value = made->value;
  }
  const auto wanted = FERRY_TRY(parse_meta(meta));
  FERRY_TRY(files_.make(made->name, wanted.spec, std::as_bytes(std::span(value)), wanted.update));
  const std::lock_guard hold(mutex_);
  made_.erase(path_of_name(made->name));
  return {};
}

}  // namespace ferry::interop
