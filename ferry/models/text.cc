#include "ferry/models/text.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "ferry/models/random_internal.h"

namespace ferry::models {
namespace {

namespace files = std::filesystem;

// Links are other names of the same texts.
Result<std::set<files::path>> files_of(const std::string& folder) {
  std::error_code error;
  std::set<files::path> found;
  for (files::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (!entry->is_symlink() && entry->is_regular_file()) found.insert(entry->path());
  if (found.empty())
    return fail(Code::kNotFound, "there is no text in {}; Debian's package base-files has it",
                folder);
  return found;
}

Result<std::string> text_of(const files::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) return fail(Code::kUnavailable, "cannot read {}", path.string());
  std::replace_if(
      text.begin(), text.end(),
      [](char letter) { return static_cast<unsigned char>(letter) >= kLetters; }, ' ');
  return text;
}

tensor::Tensor over_ints(std::vector<std::int32_t>& values, const tensor::Shape& shape) {
  return *tensor::Tensor::over({tensor::ElementType::kI32, shape},
                               std::as_writable_bytes(std::span(values)));
}

}  // namespace

Result<std::string> read_text(Split split, const std::string& folder) {
  std::string all;
  for (const auto& path : FERRY_TRY(files_of(folder))) {
    const auto text = FERRY_TRY(text_of(path));
    const auto cut = text.size() - text.size() / 10;
    all += split == Split::kTrain ? text.substr(0, cut) : text.substr(cut);
  }
  return all;
}

Result<Pieces> Pieces::open(std::string text, const Options& options) {
  if (text.size() <= static_cast<std::size_t>(kLongest) || options.batch < 1)
    return fail(Code::kInvalidArgument, "no pieces of {} letters, {} at a time, in a text of {}",
                kLongest, options.batch, text.size());
  return Pieces(std::move(text), options);
}

std::int64_t Pieces::length_of(std::uint64_t step) const {
  auto state = mix_seed(options_.seed, step);
  constexpr std::uint64_t kLengths = kLongest - kShortest + 1;
  return kShortest + static_cast<std::int64_t>(next_random(state) % kLengths);
}

Pieces::Batch Pieces::of_step(std::uint64_t step) {
  const auto length = static_cast<std::size_t>(length_of(step));
  const auto batch = static_cast<std::size_t>(options_.batch);
  ids_.resize(length * batch);
  next_.resize(length * batch);
  auto state = mix_seed(mix_seed(options_.seed, options_.worker + 1), step);
  for (std::size_t piece = 0; piece < batch; ++piece) {
    const auto begin = next_random(state) % (text_.size() - length);
    const auto letters = std::as_bytes(std::span(text_)).subspan(begin, length + 1);
    for (std::size_t index = 0; index < length; ++index) {
      ids_[index * batch + piece] = std::to_integer<std::int32_t>(letters[index]);
      next_[index * batch + piece] = std::to_integer<std::int32_t>(letters[index + 1]);
    }
  }
  const auto steps = static_cast<std::int64_t>(length);
  return {over_ints(ids_, *tensor::Shape::of({steps, options_.batch})),
          over_ints(next_, *tensor::Shape::of({steps * options_.batch}))};
}

std::uint64_t Pieces::steps_per_epoch() const {
  constexpr std::uint64_t kUsual = (kShortest + kLongest) / 2;
  const auto a_step = kUsual * static_cast<std::uint64_t>(options_.batch) * options_.workers;
  return std::max<std::uint64_t>(text_.size() / a_step, 1);
}

}  // namespace ferry::models
