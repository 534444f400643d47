#include "ferry/models/images.h"

#include <zlib.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

namespace ferry::models {
namespace {

struct CloseGz {
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using Gz = std::unique_ptr<gzFile_s, CloseGz>;

constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;
constexpr unsigned char kU8 = 8;  // the format's number for the type

Status read_exactly(gzFile_s* file, std::span<std::byte> into, const std::string& path) {
  while (!into.empty()) {
    const auto some = static_cast<unsigned>(std::min<std::size_t>(into.size(), 1U << 30));
    const int got = gzread(file, into.data(), some);
    if (got <= 0) {
      int error = 0;
      const char* text = gzerror(file, &error);
      return fail(Code::kDataLoss, "{} is broken or cut off: {}", path,
                  got < 0 ? text : "it ends too early");
    }
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<tensor::Shape> read_shape(gzFile_s* file, const std::string& path) {
  std::array<unsigned char, 4> magic{};
  FERRY_TRY(read_exactly(file, std::as_writable_bytes(std::span(magic)), path));
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != kU8 || magic[3] > tensor::Shape::kMaxRank)
    return fail(Code::kDataLoss, "{} is not an IDX file of bytes", path);
  std::vector<std::int64_t> dims;
  for (int index = 0; index < magic[3]; ++index) {
    std::array<unsigned char, 4> dim{};
    FERRY_TRY(read_exactly(file, std::as_writable_bytes(std::span(dim)), path));
    dims.push_back(std::int64_t{dim[0]} << 24 | std::int64_t{dim[1]} << 16 |
                   std::int64_t{dim[2]} << 8 | std::int64_t{dim[3]});
  }
  auto shape = tensor::Shape::of(dims);
  if (!shape || static_cast<std::uint64_t>(shape->elements()) > kMostBytes)
    return fail(Code::kDataLoss, "{} claims to be too large", path);
  return shape;
}

}  // namespace

Result<tensor::Tensor> read_idx(const std::string& path) {
  errno = 0;
  const Gz file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) return fail_errno(errno, "cannot open {}", path);
  const auto shape = FERRY_TRY(read_shape(file.get(), path));
  auto memory =
      std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(shape.elements()));
  FERRY_TRY(read_exactly(file.get(), *memory, path));
  std::byte more;
  if (gzread(file.get(), &more, 1) > 0)
    return fail(Code::kDataLoss, "{} goes on after its end", path);
  return tensor::Tensor::over({tensor::ElementType::kU8, shape}, *memory, memory);
}

Result<Images> read_fashion_mnist(Split split, const std::string& folder) {
  const std::string prefix = folder + (split == Split::kTrain ? "/train" : "/t10k");
  auto pixels = read_idx(prefix + "-images-idx3-ubyte.gz");
  if (!pixels && pixels.error().code() == Code::kNotFound)
    return fail(Code::kNotFound, "{}; Debian's package dataset-fashion-mnist has it",
                pixels.error().message());
  Images images{FERRY_TRY(std::move(pixels)),
                FERRY_TRY(read_idx(prefix + "-labels-idx1-ubyte.gz"))};
  if (images.pixels.shape().rank() != 3 || images.labels.shape().rank() != 1 ||
      images.pixels.shape().dim(0) != images.count())
    return fail(Code::kDataLoss, "{}: images {} and labels {} do not belong together", folder,
                images.pixels.shape().to_string(), images.labels.shape().to_string());
  return images;
}

}  // namespace ferry::models
