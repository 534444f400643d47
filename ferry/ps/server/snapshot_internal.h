#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ferry/ps/wire/messages_internal.h"
#include "ferry/storage/checkpoint.h"

namespace ferry::ps {

// What one part is made of, whatever the blocks. Narrow types have a master copy in f32.
struct PartImage {
  std::vector<std::byte> values;
  std::vector<float> master;
  std::array<std::vector<float>, 2> states;
  std::uint64_t time = 0;                // how often it was updated
  std::vector<std::uint64_t> updates{};  // the same for each block; none: all as often
};

// Snapshots of a job in a folder: `snapshot-00000007/` with a file of each server, and
// `manifest.ferry`, which is written last. One without a manifest is none.
class Snapshots {
 public:
  explicit Snapshots(std::string folder) : folder_(std::move(folder)) {}

  // A new one, beyond all that are there.
  Result<std::string> begin() const;
  static Status finish(const std::string& path, const std::vector<TensorInfo>& tensors,
                       std::uint32_t servers);
  // Removes all but the newest `count` that are whole, and what is broken before these.
  void keep_newest(std::size_t count) const;

  struct Found {
    std::string path;
    std::vector<TensorInfo> tensors;
    std::uint32_t servers = 0;
  };
  // The newest whose files are all there and unbroken; others are logged and passed over. kNotFound
  // if there are none at all, kDataLoss if all of them are broken.
  Result<Found> newest() const;

  static std::string file_of(const std::string& path, std::uint32_t server);
  // The image of a part of a tensor under the names that add_to() reads.
  static Status put_image(storage::NamedTensors& tensors, const TensorInfo& info,
                          std::uint64_t offset, PartImage& image);
  // What these tensors, of one file, have of the part; true if something.
  static Result<bool> add_to(PartImage& image, const storage::NamedTensors& tensors,
                             const TensorInfo& info, const Run& run);

 private:
  // The folders of all snapshots, whole or not, the newest first.
  Result<std::vector<std::string>> all() const;
  // Reads and checks one snapshot. kDataLoss: it is not whole.
  static Result<Found> read(const std::string& path);
  std::string folder_;
};

}  // namespace ferry::ps
