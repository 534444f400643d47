#include "ferry/models/onnx/file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

namespace ferry::models::onnx {
namespace {

// Fields go by their numbers in onnx.proto. Those that do not matter here are passed over.

Result<std::uint64_t> number_in(const std::string& text) {
  std::uint64_t number = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || stop != end)
    return fail(Code::kDataLoss, "'{}' is no offset or length of external data", text);
  return number;
}

// StringStringEntryProto, of TensorProto.external_data
Status parse_external(Fields fields, ExternalData& external) {
  std::string key;
  std::string value;
  while (const auto field = FERRY_TRY(fields.next())) {
    if (field->number == 1) key = FERRY_TRY(text_in(*field));
    if (field->number == 2) value = FERRY_TRY(text_in(*field));
  }
  if (key == "location") external.location = value;
  if (key == "offset") external.offset = FERRY_TRY(number_in(value));
  if (key == "length") external.length = FERRY_TRY(number_in(value));
  return {};
}

Result<TensorEntry> parse_tensor(Fields fields) {
  constexpr std::int64_t kExternal = 1;
  TensorEntry tensor;
  ExternalData external;
  while (const auto field = FERRY_TRY(fields.next())) {
    switch (field->number) {
      case 1:
        FERRY_TRY(add_ints(*field, tensor.dims));
        break;
      case 2:
        tensor.type = FERRY_TRY(int_in(*field));
        break;
      case 4:
        FERRY_TRY(add_floats(*field, tensor.floats));
        break;
      case 5:
      case 7:
        FERRY_TRY(add_ints(*field, tensor.ints));
        break;
      case 8:
        tensor.name = FERRY_TRY(text_in(*field));
        break;
      case 9:
        tensor.raw = FERRY_TRY(bytes_in(*field));
        break;
      case 10:
        FERRY_TRY(add_doubles(*field, tensor.floats));
        break;
      case 13: {
        const auto message = FERRY_TRY(message_in(*field));
        FERRY_TRY(parse_external(message, external));
        break;
      }
      case 14:
        if (FERRY_TRY(int_in(*field)) == kExternal) tensor.external.emplace();
        break;
      default:
        break;
    }
  }
  if (tensor.external) tensor.external = std::move(external);
  return tensor;
}

Result<Attribute> parse_attribute(Fields fields) {
  Attribute attribute;
  while (const auto field = FERRY_TRY(fields.next())) {
    switch (field->number) {
      case 1:
        attribute.name = FERRY_TRY(text_in(*field));
        break;
      case 2:
        attribute.real = FERRY_TRY(float_in(*field));
        break;
      case 3:
        attribute.whole = FERRY_TRY(int_in(*field));
        break;
      case 4:
        attribute.text = FERRY_TRY(text_in(*field));
        break;
      case 5: {
        const auto message = FERRY_TRY(message_in(*field));
        attribute.tensor = FERRY_TRY(parse_tensor(message));
        break;
      }
      case 7:
        FERRY_TRY(add_floats(*field, attribute.reals));
        break;
      case 8:
        FERRY_TRY(add_ints(*field, attribute.wholes));
        break;
      default:
        break;
    }
  }
  return attribute;
}

Result<NodeEntry> parse_node(Fields fields) {
  NodeEntry node;
  while (const auto field = FERRY_TRY(fields.next())) {
    switch (field->number) {
      case 1:
        node.inputs.push_back(FERRY_TRY(text_in(*field)));
        break;
      case 2:
        node.outputs.push_back(FERRY_TRY(text_in(*field)));
        break;
      case 3:
        node.name = FERRY_TRY(text_in(*field));
        break;
      case 4:
        node.op = FERRY_TRY(text_in(*field));
        break;
      case 5: {
        const auto message = FERRY_TRY(message_in(*field));
        node.attributes.push_back(FERRY_TRY(parse_attribute(message)));
        break;
      }
      case 7:
        node.domain = FERRY_TRY(text_in(*field));
        break;
      default:
        break;
    }
  }
  return node;
}

// The messages of field `number` in that of `field`, each given to `use`.
template <class Use>
Status each_message(Fields fields, std::uint32_t number, const Use& use) {
  while (const auto field = FERRY_TRY(fields.next())) {
    if (field->number != number) continue;
    const auto message = FERRY_TRY(message_in(*field));
    FERRY_TRY(use(message));
  }
  return {};
}

// TensorShapeProto.Dimension: a number, or a name for one that is unknown.
Status parse_dimension(Fields fields, Dims& dims) {
  std::int64_t dim = tensor::Shape::kUnknown;
  while (const auto field = FERRY_TRY(fields.next()))
    if (field->number == 1) dim = FERRY_TRY(int_in(*field));
  dims.push_back(dim);
  return {};
}

// TypeProto.Tensor
Status parse_type(Fields fields, InputEntry& input) {
  while (const auto field = FERRY_TRY(fields.next())) {
    if (field->number == 1) input.type = FERRY_TRY(int_in(*field));
    if (field->number != 2) continue;
    const auto shape = FERRY_TRY(message_in(*field));
    FERRY_TRY(each_message(
        shape, 1, [&](const Fields& dimension) { return parse_dimension(dimension, input.dims); }));
  }
  return {};
}

Result<InputEntry> parse_input(Fields fields) {
  InputEntry input;
  while (const auto field = FERRY_TRY(fields.next())) {
    if (field->number == 1) input.name = FERRY_TRY(text_in(*field));
    if (field->number != 2) continue;
    const auto type = FERRY_TRY(message_in(*field));
    FERRY_TRY(
        each_message(type, 1, [&](const Fields& tensor) { return parse_type(tensor, input); }));
  }
  return input;
}

Status parse_graph(Fields fields, File& file) {
  while (const auto field = FERRY_TRY(fields.next())) {
    constexpr std::uint32_t kNode = 1;
    constexpr std::uint32_t kInitializer = 5;
    constexpr std::uint32_t kInput = 11;
    constexpr std::uint32_t kOutput = 12;
    if (field->number != kNode && field->number != kInitializer && field->number != kInput &&
        field->number != kOutput)
      continue;
    const auto message = FERRY_TRY(message_in(*field));
    if (field->number == kNode) file.nodes.push_back(FERRY_TRY(parse_node(message)));
    if (field->number == kInitializer)
      file.initializers.push_back(FERRY_TRY(parse_tensor(message)));
    if (field->number == kInput) file.inputs.push_back(FERRY_TRY(parse_input(message)));
    if (field->number == kOutput) file.outputs.push_back(FERRY_TRY(parse_input(message)).name);
  }
  return {};
}

// Of the standard operators; other sets are refused where a node is of one.
Status parse_opset(Fields fields, std::int64_t& opset) {
  std::string domain;
  std::int64_t version = 0;
  while (const auto field = FERRY_TRY(fields.next())) {
    if (field->number == 1) domain = FERRY_TRY(text_in(*field));
    if (field->number == 2) version = FERRY_TRY(int_in(*field));
  }
  if (domain.empty()) opset = version;
  return {};
}

}  // namespace

const Attribute* NodeEntry::find(std::string_view attribute) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const auto& each) { return each.name == attribute; });
  return found == attributes.end() ? nullptr : &*found;
}

Result<File> parse_file(std::shared_ptr<const std::vector<std::byte>> bytes) {
  constexpr std::uint32_t kGraph = 7;
  constexpr std::uint32_t kOpset = 8;
  File file;
  file.bytes = std::move(bytes);
  Fields fields(*file.bytes, 0);
  bool has_graph = false;
  while (const auto field = FERRY_TRY(fields.next())) {
    if (field->number != kGraph && field->number != kOpset) continue;
    const auto message = FERRY_TRY(message_in(*field));
    if (field->number == kOpset) FERRY_TRY(parse_opset(message, file.opset));
    if (field->number != kGraph) continue;
    if (std::exchange(has_graph, true))
      return fail(Code::kDataLoss, "byte {}: a second graph", field->at);
    FERRY_TRY(parse_graph(message, file));
  }
  if (!has_graph) return fail(Code::kDataLoss, "there is no graph in it");
  return file;
}

Result<File> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::error_code problem;
  const auto size = std::filesystem::file_size(path, problem);
  if (problem) return fail(Code::kNotFound, "{}", problem.message());
  if (!in) return fail(Code::kNotFound, "it cannot be opened");
  constexpr std::uint64_t kMost = std::uint64_t{2} << 30U;  // of any protobuf message
  if (size > kMost) return fail(Code::kInvalidArgument, "{} bytes are too many", size);
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  in.read(reinterpret_cast<char*>(bytes->data()), static_cast<std::streamsize>(size));
  if (in.gcount() != static_cast<std::streamsize>(size))
    return fail(Code::kDataLoss, "only {} of {} bytes could be read", in.gcount(), size);
  auto file = FERRY_TRY(parse_file(std::move(bytes)));
  FERRY_TRY(read_external(file, std::filesystem::path(path).parent_path()));
  return file;
}

}  // namespace ferry::models::onnx
