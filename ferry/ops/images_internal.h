#pragma once

#include "ferry/ops/onednn_internal.h"

namespace ferry::ops {

// Images [N, H, W, C] as they lie in memory.
inline dnnl::memory::desc images_of(const tensor::Shape& shape) {
  return layout({shape.dim(0), shape.dim(3), shape.dim(1), shape.dim(2)},
                dnnl::memory::format_tag::nhwc);
}

// How a window slides over images: the attributes of convolutions and pools, as oneDNN has them.
struct Window {
  dnnl::memory::dims size;  // of pools
  dnnl::memory::dims strides;
  dnnl::memory::dims before;
  dnnl::memory::dims after;

  explicit Window(const graph::Attributes& attributes)
      : size(attributes.get_or<std::vector<std::int64_t>>("window", {})),
        strides(attributes.get_or<std::vector<std::int64_t>>("strides", {1, 1})) {
    const auto pads = attributes.get_or<std::vector<std::int64_t>>("pads", {0, 0, 0, 0});
    before = {pads[0], pads[1]};
    after = {pads[2], pads[3]};
  }
};

inline bool is_empty(const tensor::Shape& shape) { return shape.elements() == 0; }

// Zeros for output 0: where there is nothing to add up.
inline Status write_zeros(const Call& call) {
  std::fill_n(FERRY_TRY(call.out_floats()), call.size(), 0.0F);
  return {};
}

}  // namespace ferry::ops
