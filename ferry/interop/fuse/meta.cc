#include <array>
#include <nlohmann/json.hpp>

#include "ferry/interop/fuse/meta_internal.h"

namespace ferry::interop {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<ps::UpdateKind, std::string_view>, 6> kUpdates = {
    {{ps::UpdateKind::kAssign, "assign"},
     {ps::UpdateKind::kSum, "sum"},
     {ps::UpdateKind::kSgd, "sgd"},
     {ps::UpdateKind::kMomentum, "momentum"},
     {ps::UpdateKind::kAdam, "adam"},
     {ps::UpdateKind::kFunction, "function"}}};
constexpr std::array kTypes = {tensor::ElementType::kF32, tensor::ElementType::kF16,
                               tensor::ElementType::kBf16};

std::string_view update_name(ps::UpdateKind kind) {
  for (const auto& [known, name] : kUpdates)
    if (known == kind) return name;
  return "?";
}

json json_of(const TensorFile& tensor) {
  json shape = json::array();
  for (std::size_t dimension = 0; dimension < tensor.spec.shape.rank(); ++dimension)
    shape.push_back(tensor.spec.shape.dim(dimension));
  json all = {{"name", tensor.name},
              {"type", tensor::name_of(tensor.spec.type)},
              {"shape", shape},
              {"bytes", tensor.bytes},
              {"update", update_name(tensor.update.kind)}};
  const auto& update = tensor.update;
  if (update.kind >= ps::UpdateKind::kSgd && update.kind <= ps::UpdateKind::kAdam)
    all["rate"] = update.rate;
  if (update.kind == ps::UpdateKind::kMomentum) all["momentum"] = update.momentum;
  if (update.kind == ps::UpdateKind::kAdam) {
    all["beta1"] = update.beta1;
    all["beta2"] = update.beta2;
    all["epsilon"] = update.epsilon;
  }
  if (update.kind == ps::UpdateKind::kFunction) all["function"] = update.function;
  return all;
}

Result<double> number_of(const std::string& key, const json& value) {
  if (!value.is_number()) return fail(Code::kInvalidArgument, "'{}' is no number", key);
  return value.get<double>();
}

Result<tensor::Shape> shape_of(const json& dimensions) {
  if (!dimensions.is_array()) return fail(Code::kInvalidArgument, "'shape' is no list of numbers");
  std::vector<std::int64_t> dims;
  for (const auto& dimension : dimensions) {
    if (!dimension.is_number_integer() || dimension.get<std::int64_t>() < 0)
      return fail(Code::kInvalidArgument, "'shape' has {}, which is no dimension",
                  dimension.dump());
    dims.push_back(dimension.get<std::int64_t>());
  }
  return tensor::Shape::of(dims);
}

Result<tensor::ElementType> type_of(const json& value) {
  for (const auto type : kTypes)
    if (value == tensor::name_of(type)) return type;
  return fail(Code::kInvalidArgument, "'type' is {}; tensors are f32, f16 or bf16", value.dump());
}

Result<ps::UpdateKind> kind_of(const json& value) {
  for (const auto& [kind, name] : kUpdates)
    if (value == name) return kind;
  return fail(Code::kInvalidArgument,
              "'update' is {}; there are assign, sum, sgd, momentum, adam and function",
              value.dump());
}

Status take(const std::string& key, const json& value, Wanted& wanted) {
  auto& update = wanted.update;
  if (key == "shape") {
    wanted.spec.shape = FERRY_TRY(shape_of(value));
  } else if (key == "type") {
    wanted.spec.type = FERRY_TRY(type_of(value));
  } else if (key == "update") {
    update.kind = FERRY_TRY(kind_of(value));
  } else if (key == "rate") {
    update.rate = FERRY_TRY(number_of(key, value));
  } else if (key == "momentum") {
    update.momentum = FERRY_TRY(number_of(key, value));
  } else if (key == "beta1") {
    update.beta1 = FERRY_TRY(number_of(key, value));
  } else if (key == "beta2") {
    update.beta2 = FERRY_TRY(number_of(key, value));
  } else if (key == "epsilon") {
    update.epsilon = FERRY_TRY(number_of(key, value));
  } else if (key == "function" && value.is_string()) {
    update.function = value.get<std::string>();
  } else {
    return fail(Code::kInvalidArgument, "'{}' means nothing here", key);
  }
  return {};
}

}  // namespace

std::string meta_of(const TensorFile& tensor) { return json_of(tensor).dump() + "\n"; }

std::string meta_of(const ModelFiles::Tensors& tensors) {
  json all = json::array();
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    auto one = json_of(*tensor);
    one["offset"] = offset;
    offset += tensor->bytes;
    all.push_back(std::move(one));
  }
  return all.dump(1) + "\n";
}

Result<Wanted> parse_meta(const std::string& text) {
  const auto parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || !parsed.contains("shape"))
    return fail(Code::kInvalidArgument,
                "meta of a new tensor looks like {{\"shape\": [10, 3], \"type\": \"f32\", "
                "\"update\": \"sgd\", \"rate\": 0.1}}");
  Wanted wanted{.spec = {tensor::ElementType::kF32, {}}, .update = {}};
  for (const auto& [key, value] : parsed.items()) FERRY_TRY(take(key, value, wanted));
  return wanted;
}

}  // namespace ferry::interop
