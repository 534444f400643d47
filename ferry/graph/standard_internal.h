#pragma once

#include <vector>

#include "ferry/graph/op.h"

namespace ferry::graph {

// The library's own operators, as docs/design/operators.md lists them; each of the parts is in a
// file of its own.
std::vector<OpDef> standard_ops();
// Those that partition() puts at the borders.
std::vector<OpDef> transfer_ops();

}  // namespace ferry::graph
