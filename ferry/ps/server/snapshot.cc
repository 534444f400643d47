#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>

#include "ferry/base/log.h"
#include "ferry/ps/server/snapshot_internal.h"

namespace ferry::ps {
namespace {

namespace fs = std::filesystem;
using tensor::ElementType;
using tensor::Tensor;

constexpr const char* kManifest = "manifest.ferry";
constexpr const char* kPrefix = "snapshot-";

template <class T>
Result<Tensor> over(ElementType type, std::vector<T>& values, std::size_t count) {
  const auto shape = FERRY_TRY(tensor::Shape::of({static_cast<std::int64_t>(count)}));
  return Tensor::over({type, shape}, std::as_writable_bytes(std::span(values)));
}

// "name@1234#what"
struct Key {
  std::string_view name;
  std::uint64_t offset = 0;
  std::string_view what;
};
std::optional<Key> parse_key(std::string_view text) {
  const auto at = text.rfind('@');
  if (at == std::string_view::npos) return std::nullopt;
  Key key;
  key.name = text.substr(0, at);
  const auto* begin = text.data() + at + 1;
  const auto* end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(begin, end, key.offset);
  if (problem != std::errc() || rest == begin) return std::nullopt;
  key.what = std::string_view(rest, static_cast<std::size_t>(end - rest));
  return key;
}

// Copies what of [from_offset, ...) lies in [to_offset, ...), in units of elements.
bool overlap(std::span<const std::byte> from, std::uint64_t from_offset, std::span<std::byte> to,
             std::uint64_t to_offset) {
  const auto begin = std::max(from_offset, to_offset);
  const auto end = std::min(from_offset + from.size(), to_offset + to.size());
  if (begin >= end) return false;
  std::memcpy(to.data() + (begin - to_offset), from.data() + (begin - from_offset), end - begin);
  return true;
}

}  // namespace

std::string Snapshots::file_of(const std::string& path, std::uint32_t server) {
  return fmt::format("{}/server-{:04}.ferry", path, server);
}

Result<std::vector<std::string>> Snapshots::all() const {
  std::vector<std::string> found;
  std::error_code problem;
  for (fs::directory_iterator at(folder_, problem), end; !problem && at != end;
       at.increment(problem))
    if (at->path().filename().string().starts_with(kPrefix)) found.push_back(at->path().string());
  if (problem && problem != std::errc::no_such_file_or_directory)
    return fail(Code::kUnavailable, "cannot look for snapshots in {}: {}", folder_,
                problem.message());
  std::sort(found.rbegin(), found.rend());
  return found;
}

Result<std::string> Snapshots::begin() const {
  std::uint64_t number = 0;
  if (const auto there = FERRY_TRY(all()); !there.empty()) {
    const auto name = fs::path(there.front()).filename().string().substr(std::strlen(kPrefix));
    (void)std::from_chars(name.data(), name.data() + name.size(), number);
  }
  const auto path = fmt::format("{}/{}{:08}", folder_, kPrefix, number + 1);
  std::error_code problem;
  fs::create_directories(path, problem);
  if (problem)
    return fail(Code::kUnavailable, "cannot make the folder {}: {}", path, problem.message());
  return path;
}

Status Snapshots::finish(const std::string& path, const std::vector<TensorInfo>& tensors,
                         std::uint32_t servers) {
  Bytes manifest;
  bootstrap::Encoder out(manifest);
  out.u32(servers).u32(static_cast<std::uint32_t>(tensors.size()));
  for (const auto& info : tensors) put(out, info);
  storage::Checkpoint checkpoint;
  checkpoint.tensors["manifest"] = FERRY_TRY(over(ElementType::kU8, manifest, manifest.size()));
  return storage::save_checkpoint(fmt::format("{}/{}", path, kManifest), checkpoint);
}

void Snapshots::keep_newest(std::size_t count) const {
  std::size_t whole = 0;
  for (const auto& path : all().value_or(std::vector<std::string>())) {
    std::error_code problem;
    if (whole < count) {
      if (fs::exists(fs::path(path) / kManifest, problem)) ++whole;
      continue;
    }
    fs::remove_all(path, problem);
  }
}

Result<Snapshots::Found> Snapshots::read(const std::string& path) {
  const auto checkpoint =
      FERRY_TRY(storage::load_checkpoint(fmt::format("{}/{}", path, kManifest)));
  const auto manifest = checkpoint.tensors.find("manifest");
  if (manifest == checkpoint.tensors.end()) return fail(Code::kDataLoss, "{} is no manifest", path);
  bootstrap::Decoder in(manifest->second.bytes());
  Found found;
  found.path = path;
  found.servers = in.u32();
  const auto count = in.u32();
  for (std::uint32_t each = 0; each < count && in.ok(); ++each)
    found.tensors.push_back(FERRY_TRY(get_tensor(in)));
  FERRY_TRY(in.finish("a manifest"));
  std::map<std::string, std::uint64_t, std::less<>> saved;  // bytes of values by tensor
  for (std::uint32_t server = 0; server < found.servers; ++server) {
    const auto file = FERRY_TRY(storage::load_checkpoint(file_of(path, server)));
    for (const auto& [text, tensor] : file.tensors)
      if (const auto key = parse_key(text); key && key->what.empty())
        saved[std::string(key->name)] += tensor.bytes().size();
  }
  for (const auto& info : found.tensors)
    if (const auto whole = FERRY_TRY(info.spec.bytes()); saved[info.name] < whole)
      return fail(Code::kDataLoss, "its files have {} of {} bytes of the tensor '{}'",
                  saved[info.name], whole, info.name);
  return found;
}

Result<Snapshots::Found> Snapshots::newest() const {
  const auto there = FERRY_TRY(all());
  if (there.empty()) return fail(Code::kNotFound, "there is no snapshot in {}", folder_);
  for (const auto& path : there) {
    auto found = read(path);
    if (found) return found;
    logger().warn("{} is passed over: {}", path, found.error().message());
  }
  return fail(
      Code::kDataLoss,
      "no snapshot in {} is whole; to begin without one, remove them or name another folder",
      folder_);
}

Status Snapshots::put_image(storage::NamedTensors& tensors, const TensorInfo& info,
                            std::uint64_t offset, PartImage& image) {
  const auto name = fmt::format("{}@{}", info.name, offset);
  const auto count = image.values.size() / tensor::size_of(info.spec.type);
  tensors[name] = FERRY_TRY(over(info.spec.type, image.values, count));
  if (!image.master.empty())
    tensors[name + "#master"] = FERRY_TRY(over(ElementType::kF32, image.master, count));
  for (int each = 0; each < 2; ++each)
    if (!image.states[each].empty())
      tensors[fmt::format("{}#state{}", name, each)] =
          FERRY_TRY(over(ElementType::kF32, image.states[each], count));
  // The number goes with the name of an empty tensor: it is no array.
  static std::vector<std::uint8_t> nothing;
  tensors[fmt::format("{}#time{}", name, image.time)] =
      FERRY_TRY(over(ElementType::kU8, nothing, 0));
  return {};
}

Result<bool> Snapshots::add_to(PartImage& image, const storage::NamedTensors& tensors,
                               const TensorInfo& info, const Run& run) {
  const auto size = tensor::size_of(info.spec.type);
  bool some = false;
  const auto wide = [&](std::vector<float>& to, const Tensor& from, std::uint64_t offset) {
    return overlap(from.bytes(), offset / size * sizeof(float),
                   std::as_writable_bytes(std::span(to)), run.offset / size * sizeof(float));
  };
  for (const auto& [text, tensor] : tensors) {
    const auto key = parse_key(text);
    if (!key || key->name != info.name) continue;
    if (key->what.empty()) {
      some = overlap(tensor.bytes(), key->offset, image.values, run.offset) || some;
    } else if (key->what == "#master") {
      (void)wide(image.master, tensor, key->offset);
    } else if (key->what == "#state0" || key->what == "#state1") {
      (void)wide(image.states[key->what.back() - '0'], tensor, key->offset);
    } else if (key->what.starts_with("#time")) {
      std::uint64_t time = 0;
      (void)std::from_chars(key->what.data() + 5, key->what.data() + key->what.size(), time);
      image.time = std::max(image.time, time);
    } else {
      return fail(Code::kDataLoss, "a snapshot with '{}', which means nothing", text);
    }
  }
  return some;
}

}  // namespace ferry::ps
