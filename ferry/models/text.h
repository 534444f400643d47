#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ferry/models/images.h"

namespace ferry::models {

// Texts are bytes below this; all others are spaces.
constexpr std::int64_t kLetters = 128;

// The files of a folder, one after the other in the order of their names: the licences that every
// Debian has. The last tenth of each is for tests. kNotFound says what to install.
Result<std::string> read_text(Split split,
                              const std::string& folder = "/usr/share/common-licenses");

// Which pieces of a text each worker sees in each step: they begin anywhere, and their length is
// the same for all workers, and another one in each step. Depends on the numbers below and nothing
// else. Not thread-safe.
class Pieces {
 public:
  static constexpr std::int64_t kShortest = 16;
  static constexpr std::int64_t kLongest = 48;

  struct Options {
    std::int64_t batch = 32;
    std::uint32_t worker = 0;
    std::uint32_t workers = 1;
    std::uint64_t seed = 1;
  };
  // kInvalidArgument for a text that is shorter than the longest piece.
  static Result<Pieces> open(std::string text, const Options& options);

  struct Batch {
    tensor::Tensor ids;   // i32 [T, B]
    tensor::Tensor next;  // i32 [T * B]: the letter after each
  };
  // Of step n, from 1; valid until the next call.
  Batch of_step(std::uint64_t step);
  // After so many steps the workers have seen about as many letters as there are.
  std::uint64_t steps_per_epoch() const;

 private:
  Pieces(std::string text, const Options& options) : text_(std::move(text)), options_(options) {}
  std::int64_t length_of(std::uint64_t step) const;

  std::string text_;
  Options options_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> next_;
};

}  // namespace ferry::models
