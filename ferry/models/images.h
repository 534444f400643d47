#pragma once

#include <string>

#include "ferry/tensor/tensor.h"

namespace ferry::models {

// A data set of images with labels.
struct Images {
  tensor::Tensor pixels;  // u8 [N, H, W]
  tensor::Tensor labels;  // u8 [N]
  std::int64_t count() const { return labels.shape().dim(0); }
};

// One file of the IDX format, compressed by gzip or not: u8, up to 8 dimensions. kNotFound if there
// is none, kDataLoss says what is broken.
Result<tensor::Tensor> read_idx(const std::string& path);

// Fashion-MNIST as Debian's dataset-fashion-mnist has it. kNotFound says what to install.
enum class Split { kTrain, kTest };
Result<Images> read_fashion_mnist(Split split,
                                  const std::string& folder = "/usr/share/datasets/fashion-mnist");

}  // namespace ferry::models
