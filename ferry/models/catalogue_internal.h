#pragma once

#include "ferry/models/model_def.h"

namespace ferry::models {

Model lenet(const ModelOptions& options);
Model mlp(const ModelOptions& options);
Model mlp_2048(const ModelOptions& options);
Model fcn_5(const ModelOptions& options);
Model alexnet(const ModelOptions& options);
Model vgg_16(const ModelOptions& options);
Model googlenet(const ModelOptions& options);
Model inception_v3(const ModelOptions& options);
Model inception_v4(const ModelOptions& options);
Model resnet_50(const ModelOptions& options);
Model resnet_152(const ModelOptions& options);
Model lstm_model(const ModelOptions& options);
Model gru_model(const ModelOptions& options);
Model seq2seq(const ModelOptions& options);
Model lstm_text(const ModelOptions& options);
Model gru_text(const ModelOptions& options);

}  // namespace ferry::models
