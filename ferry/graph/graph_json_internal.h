#pragma once

#include <nlohmann/json.hpp>

#include "ferry/graph/attributes.h"

namespace ferry::graph {

// What is read: its objects are trees, so that many keys in one cost no more than in many.
using Json = nlohmann::json;
// What is written: keys stay in the order that reads well.
using OrderedJson = nlohmann::ordered_json;

// {"float": 0.5}; the kinds are bool, int, float, text, ints, type, shape and tensor.
OrderedJson attribute_to_json(const Attributes::Value& value);
// kInvalidArgument for what that would not give.
Result<Attributes::Value> attribute_from_json(const Json& json);

}  // namespace ferry::graph
