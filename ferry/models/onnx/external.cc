#include <filesystem>
#include <fstream>
#include <map>

#include "ferry/models/onnx/file.h"

// Tensors whose elements are in files beside the model. Files are not trusted: a path must not lead
// out of the model's folder, and no more is read than the files hold.

namespace ferry::models::onnx {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBeside = std::uint64_t{16} << 30U;  // of all tensors together

// Where the file is, with symbolic links followed: in the folder, or below it.
Result<fs::path> path_of(const std::string& folder, const std::string& location) {
  std::error_code problem;
  const auto root = fs::canonical(folder.empty() ? "." : folder, problem);
  if (problem) return fail(Code::kNotFound, "the folder {}: {}", folder, problem.message());
  if (location.empty()) return fail(Code::kDataLoss, "external data without a file's name");
  const auto path = fs::canonical(root / location, problem);
  if (problem)
    return fail(Code::kNotFound, "the file {} beside it: {}", location, problem.message());
  const auto inside = path.lexically_relative(root);
  if (fs::path(location).is_absolute() || inside.empty() || *inside.begin() == "..")
    return fail(Code::kInvalidArgument,
                "its external data is in {}, which is not in the model's folder", location);
  if (!fs::is_regular_file(path, problem))
    return fail(Code::kInvalidArgument, "its external data, {}, is no regular file", location);
  return path;
}

// One file, and how many bytes of it tensors have taken.
struct Beside {
  std::ifstream in;
  std::uint64_t size = 0;
  std::uint64_t taken = 0;
};

class Reader {
 public:
  Reader(File& file, const std::string& folder) : file_(file), folder_(folder) {}

  Status read(TensorEntry& tensor) {
    if (!tensor.external) return {};
    auto done = read_one(tensor, *tensor.external);
    if (!done)
      return fail(done.error().code(), "constant '{}': {}", tensor.name, done.error().message());
    tensor.external.reset();
    return {};
  }

 private:
  Result<Beside*> open(const std::string& location) {
    const auto path = FERRY_TRY(path_of(folder_, location));
    auto& beside = files_[path];
    if (beside.in.is_open()) return &beside;
    beside.in.open(path, std::ios::binary);
    std::error_code problem;
    beside.size = fs::file_size(path, problem);
    if (problem || !beside.in) return fail(Code::kNotFound, "{} cannot be opened", location);
    return &beside;
  }

  Status read_one(TensorEntry& tensor, const ExternalData& external) {
    auto& beside = *FERRY_TRY(open(external.location));
    const auto left = external.offset > beside.size ? 0 : beside.size - external.offset;
    const auto length = external.length.value_or(left);
    if (external.offset > beside.size || length > left)
      return fail(Code::kDataLoss, "bytes {} to {} of {} are wanted, which has {}", external.offset,
                  external.offset + length, external.location, beside.size);
    // Tensors do not share bytes; a small file that says so could ask for any amount of memory.
    if (length > beside.size - beside.taken)
      return fail(Code::kDataLoss, "its tensors have more bytes than {}, which has {}",
                  external.location, beside.size);
    beside.taken += length;
    all_ += length;
    if (all_ > kMostBeside)
      return fail(Code::kInvalidArgument, "more than {} bytes of external data", kMostBeside);
    auto& bytes = file_.beside.emplace_back(length);
    beside.in.seekg(static_cast<std::streamoff>(external.offset));
    beside.in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(length));
    if (!beside.in || beside.in.gcount() != static_cast<std::streamsize>(length))
      return fail(Code::kDataLoss, "{} could not be read", external.location);
    tensor.raw = bytes;
    return {};
  }

  File& file_;
  const std::string& folder_;
  std::map<fs::path, Beside> files_;
  std::uint64_t all_ = 0;
};

}  // namespace

Status read_external(File& file, const std::string& folder) {
  Reader reader(file, folder);
  for (auto& tensor : file.initializers) FERRY_TRY(reader.read(tensor));
  for (auto& node : file.nodes)
    for (auto& attribute : node.attributes) FERRY_TRY(reader.read(attribute.tensor));
  return {};
}

std::uint64_t size_of(const File& file) {
  std::uint64_t size = file.bytes->size();
  for (const auto& bytes : file.beside) size += bytes.size();
  return size;
}

}  // namespace ferry::models::onnx
