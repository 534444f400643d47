#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ferry/models/onnx/wire.h"
#include "ferry/tensor/tensor.h"

// What an ONNX file says, before anybody asks whether we can do it. Names are the file's own.

namespace ferry::models::onnx {

using Dims = std::vector<std::int64_t>;

// Elements lie in `raw`, little-endian, or in one of the lists.
struct TensorEntry {
  std::string name;
  Dims dims;
  std::int64_t type = 0;  // TensorProto.DataType
  std::span<const std::byte> raw;
  std::vector<float> floats;
  Dims ints;
  bool external = false;
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
  std::shared_ptr<const std::vector<std::byte>> bytes;  // that spans above look at
  std::int64_t opset = 0;
  std::vector<NodeEntry> nodes;
  std::vector<TensorEntry> initializers;
  std::vector<InputEntry> inputs;    // initializers may be among them
  std::vector<std::string> outputs;  // names
};

// kDataLoss where the bytes are no such file, with the place.
Result<File> parse_file(std::shared_ptr<const std::vector<std::byte>> bytes);
// kNotFound if it cannot be opened.
Result<File> read_file(const std::string& path);

}  // namespace ferry::models::onnx
