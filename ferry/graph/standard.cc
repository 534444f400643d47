#include <iterator>

#include "ferry/graph/standard_internal.h"

namespace ferry::graph {

std::vector<OpDef> standard_ops() {
  std::vector<OpDef> all;
  for (auto* part : {source_ops, element_ops, shape_ops, reduction_ops, image_ops, normal_ops,
                     class_ops, recurrent_ops, update_ops}) {
    auto ops = part();
    all.insert(all.end(), std::make_move_iterator(ops.begin()), std::make_move_iterator(ops.end()));
  }
  return all;
}

}  // namespace ferry::graph
