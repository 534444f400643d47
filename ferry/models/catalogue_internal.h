#pragma once

#include "ferry/models/model.h"

namespace ferry::models {

Model lenet(const ModelOptions& options);
Model mlp(const ModelOptions& options);
Model mlp_2048(const ModelOptions& options);

}  // namespace ferry::models
