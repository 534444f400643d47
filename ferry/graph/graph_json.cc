#include <cmath>
#include <cstring>
#include <limits>

#include "ferry/base/base64.h"
#include "ferry/graph/graph_json_internal.h"

namespace ferry::graph {
namespace {

using tensor::ElementType;
using tensor::Shape;
using tensor::Tensor;
using Whole = std::vector<std::int64_t>;

OrderedJson list_to_json(std::span<const std::int64_t> numbers) {
  auto json = OrderedJson::array();
  for (const auto number : numbers) json.push_back(number);
  return json;
}

// JSON has no word for numbers that are none.
OrderedJson real_to_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

OrderedJson tensor_to_json(const Tensor& value) {
  return {{"type", tensor::name_of(value.type())},
          {"shape", list_to_json(value.shape().dims())},
          {"base64", to_base64(value.bytes())}};
}

struct ToJson {
  OrderedJson operator()(bool value) const { return {{"bool", value}}; }
  OrderedJson operator()(std::int64_t value) const { return {{"int", value}}; }
  OrderedJson operator()(double value) const { return {{"float", real_to_json(value)}}; }
  OrderedJson operator()(const std::string& value) const { return {{"text", value}}; }
  OrderedJson operator()(const Whole& value) const { return {{"ints", list_to_json(value)}}; }
  OrderedJson operator()(ElementType value) const { return {{"type", tensor::name_of(value)}}; }
  OrderedJson operator()(const Shape& value) const {
    return {{"shape", list_to_json(value.dims())}};
  }
  OrderedJson operator()(const Tensor& value) const { return {{"tensor", tensor_to_json(value)}}; }
};

using Value = Attributes::Value;

Result<Value> bool_from_json(const Json& json) {
  if (!json.is_boolean()) return fail(Code::kInvalidArgument, "a bool is true or false");
  return Value(json.get<bool>());
}

Result<std::int64_t> whole_from_json(const Json& json) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<std::uint64_t>() > kMost))
    return fail(Code::kInvalidArgument, "an int is a whole number of 64 bits");
  return json.get<std::int64_t>();
}

Result<Value> int_from_json(const Json& json) { return Value(FERRY_TRY(whole_from_json(json))); }

Result<Value> float_from_json(const Json& json) {
  if (json.is_number()) return Value(json.get<double>());
  if (json == "nan") return Value(std::numeric_limits<double>::quiet_NaN());
  if (json == "inf") return Value(std::numeric_limits<double>::infinity());
  if (json == "-inf") return Value(-std::numeric_limits<double>::infinity());
  return fail(Code::kInvalidArgument, "a float is a number, or 'nan', 'inf' or '-inf'");
}

Result<std::string> string_from_json(const Json& json) {
  if (!json.is_string()) return fail(Code::kInvalidArgument, "a text is in quotes");
  return json.get<std::string>();
}

Result<Value> text_from_json(const Json& json) { return Value(FERRY_TRY(string_from_json(json))); }

Result<Whole> list_from_json(const Json& json) {
  if (!json.is_array()) return fail(Code::kInvalidArgument, "numbers are in brackets");
  Whole numbers;
  for (const auto& item : json) numbers.push_back(FERRY_TRY(whole_from_json(item)));
  return numbers;
}

Result<Value> ints_from_json(const Json& json) { return Value(FERRY_TRY(list_from_json(json))); }

Result<ElementType> element_type_from_json(const Json& json) {
  const auto name = FERRY_TRY(string_from_json(json));
  return tensor::element_type_named(name);
}

Result<Value> type_from_json(const Json& json) {
  return Value(FERRY_TRY(element_type_from_json(json)));
}

Result<Shape> dims_from_json(const Json& json) {
  const auto dims = FERRY_TRY(list_from_json(json));
  return Shape::of(dims);
}

Result<Value> shape_from_json(const Json& json) { return Value(FERRY_TRY(dims_from_json(json))); }

Result<Value> tensor_from_json(const Json& json) {
  if (!json.is_object() || json.size() != 3 || !json.contains("type") || !json.contains("shape") ||
      !json.contains("base64"))
    return fail(Code::kInvalidArgument, "a tensor has a type, a shape and base64");
  const tensor::Spec spec{FERRY_TRY(element_type_from_json(json["type"])),
                          FERRY_TRY(dims_from_json(json["shape"]))};
  const auto text = FERRY_TRY(string_from_json(json["base64"]));
  auto share = std::make_shared<std::vector<std::byte>>(FERRY_TRY(from_base64(text)));
  return Value(FERRY_TRY(Tensor::over(spec, *share, share)));
}

struct Kind {
  std::string_view name;
  Result<Value> (*parse)(const Json&);
};
constexpr std::array<Kind, 8> kKinds = {{{"bool", bool_from_json},
                                         {"int", int_from_json},
                                         {"float", float_from_json},
                                         {"text", text_from_json},
                                         {"ints", ints_from_json},
                                         {"type", type_from_json},
                                         {"shape", shape_from_json},
                                         {"tensor", tensor_from_json}}};

}  // namespace

OrderedJson attribute_to_json(const Attributes::Value& value) {
  return std::visit(ToJson(), value);
}

Result<Attributes::Value> attribute_from_json(const Json& json) {
  if (!json.is_object() || json.size() != 1)
    return fail(Code::kInvalidArgument, "an attribute is {{\"kind\": value}}");
  const auto& kind = json.begin().key();
  for (const auto& known : kKinds)
    if (known.name == kind) return known.parse(json.begin().value());
  return fail(Code::kInvalidArgument, "there is no kind of attribute '{}'", kind);
}

}  // namespace ferry::graph
