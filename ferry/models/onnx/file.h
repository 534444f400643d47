#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferry/models/onnx/wire.h"
#include "ferry/tensor/tensor.h"

// What an ONNX file says, before anybody asks whether we can do it. Names are the file's own.

namespace ferry::models::onnx {

using Dims = std::vector<std::int64_t>;

// Where the elements of a tensor lie in another file.
struct ExternalData {
  std::string location;  // a path below the model's folder
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length = {};  // none: to the end of the file
};

// Elements lie in `raw`, little-endian, or in one of the lists; or in a file beside the model,
// which `external` names until read_file() has made them `raw`.
struct TensorEntry {
  std::string name;
  Dims dims;
  std::int64_t type = 0;  // TensorProto.DataType
  std::span<const std::byte> raw;
  std::vector<float> floats;
  Dims ints;
  std::optional<ExternalData> external = {};
};

struct Attribute {
  std::string name;
  float real = 0;
  std::int64_t whole = 0;
  std::string text;
  std::vector<float> reals;
  Dims wholes;
  TensorEntry tensor;
};

struct NodeEntry {
  std::string name;
  std::string op;
  std::string domain;
  std::vector<std::string> inputs;  // an empty name: one that is left out
  std::vector<std::string> outputs;
  std::vector<Attribute> attributes;

  const Attribute* find(std::string_view attribute) const;
};

struct InputEntry {
  std::string name;
  std::int64_t type = 0;
  Dims dims;  // -1: the file does not say
};

struct File {
  std::shared_ptr<const std::vector<std::byte>> bytes;  // that spans above look at,
  std::vector<std::vector<std::byte>> beside;           // and bytes of files beside it
  std::int64_t opset = 0;
  std::vector<NodeEntry> nodes;
  std::vector<TensorEntry> initializers;
  std::vector<InputEntry> inputs;    // initializers may be among them
  std::vector<std::string> outputs;  // names
};

// kDataLoss where the bytes are no such file, with the place.
Result<File> parse_file(std::shared_ptr<const std::vector<std::byte>> bytes);
// With the tensors of files beside it. kNotFound if one cannot be opened; kInvalidArgument for a
// file that is not in the model's folder, or below it.
Result<File> read_file(const std::string& path);
// Reads the tensors that are in files below `folder`. kDataLoss if a file is too short, or has
// fewer bytes than all tensors in it together.
Status read_external(File& file, const std::string& folder);

// Of the file, and of those beside it.
std::uint64_t size_of(const File& file);

}  // namespace ferry::models::onnx
