#pragma once

#include <string_view>

#include "ferry/graph/op_def.h"

namespace ferry::graph {

// All operators by name. The library's own are there from the start; programs add theirs before
// they build graphs. Thread-safe; definitions stay where they are.
const OpDef* find_op(std::string_view name);
// kAlreadyExists for a second one of a name.
Status register_op(OpDef def);

}  // namespace ferry::graph
