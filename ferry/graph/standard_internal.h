#pragma once

#include <vector>

#include "ferry/graph/op_def.h"

namespace ferry::graph {

// The library's own operators, as docs/design/operators.md lists them; each of the parts is in a
// file of its own.
std::vector<OpDef> standard_ops();
// Those that partition() puts at the borders.
std::vector<OpDef> transfer_ops();

std::vector<OpDef> source_ops();
std::vector<OpDef> element_ops();
std::vector<OpDef> shape_ops();
std::vector<OpDef> reduction_ops();
std::vector<OpDef> image_ops();
std::vector<OpDef> normal_ops();
std::vector<OpDef> class_ops();
std::vector<OpDef> recurrent_ops();
std::vector<OpDef> update_ops();

}  // namespace ferry::graph
