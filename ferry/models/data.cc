#include "ferry/models/data.h"

#include <vector>

#include "ferry/models/batches.h"
#include "ferry/models/random_internal.h"
#include "ferry/models/text.h"

namespace ferry::models {
namespace {

class ImageData final : public Data {
 public:
  static Result<std::unique_ptr<Data>> open(const DataOptions& options) {
    std::unique_ptr<ImageData> data(new ImageData(FERRY_TRY(read_fashion_mnist(options.split))));
    data->batches_.emplace(FERRY_TRY(Batches::open(data->images_, {.batch = options.batch,
                                                                   .worker = options.worker,
                                                                   .workers = options.workers,
                                                                   .seed = options.seed})));
    return data;
  }
  std::map<std::string, tensor::Tensor> of_step(std::uint64_t step) override {
    const auto batch = batches_->of_step(step);
    return {{"images", batch.images}, {"labels", batch.labels}};
  }
  std::uint64_t steps_per_epoch() const override { return batches_->steps_per_epoch(); }

 private:
  explicit ImageData(Images images) : images_(std::move(images)) {}
  const Images images_;
  std::optional<Batches> batches_;
};

class TextData final : public Data {
 public:
  static Result<std::unique_ptr<Data>> open(const DataOptions& options) {
    auto text = FERRY_TRY(read_text(options.split));
    return std::make_unique<TextData>(
        FERRY_TRY(Pieces::open(std::move(text), {.batch = options.batch,
                                                 .worker = options.worker,
                                                 .workers = options.workers,
                                                 .seed = options.seed})));
  }
  explicit TextData(Pieces pieces) : pieces_(std::move(pieces)) {}
  std::map<std::string, tensor::Tensor> of_step(std::uint64_t step) override {
    const auto batch = pieces_.of_step(step);
    return {{"ids", batch.ids}, {"next", batch.next}};
  }
  std::uint64_t steps_per_epoch() const override { return pieces_.steps_per_epoch(); }

 private:
  Pieces pieces_;
};

// Numbers between -0.5 and 0.5, and classes, anew in each step.
class SyntheticData final : public Data {
 public:
  SyntheticData(const Model& model, const DataOptions& options)
      : inputs_(model.inputs), options_(options), memory_(inputs_.size()) {}

  std::map<std::string, tensor::Tensor> of_step(std::uint64_t step) override {
    auto state = mix_seed(mix_seed(options_.seed, options_.worker), step);
    std::map<std::string, tensor::Tensor> batch;
    for (std::size_t index = 0; index < inputs_.size(); ++index) {
      const auto& input = inputs_[index];
      auto& memory = memory_[index];
      memory.resize(*input.spec.bytes());
      auto tensor = *tensor::Tensor::over(input.spec, memory);
      if (input.spec.type == tensor::ElementType::kI32) {
        for (auto& value : tensor.elements<std::int32_t>())
          value = static_cast<std::int32_t>(next_random(state) %
                                            static_cast<std::uint64_t>(input.below));
      } else {
        constexpr float kUnit = 1.0F / (1 << 24);
        for (auto& value : tensor.elements<float>())
          value = static_cast<float>(next_random(state) >> 40) * kUnit - 0.5F;
      }
      batch.emplace(input.name, std::move(tensor));
    }
    return batch;
  }
  std::uint64_t steps_per_epoch() const override { return 0; }

 private:
  const std::vector<ModelInput> inputs_;
  const DataOptions options_;
  std::vector<std::vector<std::byte>> memory_;
};

class NoData final : public Data {
 public:
  std::map<std::string, tensor::Tensor> of_step(std::uint64_t) override { return {}; }
  std::uint64_t steps_per_epoch() const override { return 0; }
};

}  // namespace

Result<std::unique_ptr<Data>> open_data(const Model& model, const DataOptions& options) {
  switch (model.feeds) {
    case Feeds::kImages:
      return ImageData::open(options);
    case Feeds::kText:
      return TextData::open(options);
    case Feeds::kSynthetic:
      return std::make_unique<SyntheticData>(model, options);
    case Feeds::kOwn:
      if (!model.data)
        return fail(Code::kInvalidArgument, "the model '{}' has no data of its own", model.name);
      return model.data(options);
    case Feeds::kNothing:
      return std::make_unique<NoData>();
  }
  return fail(Code::kInternal, "a model with an unknown kind of data");
}

}  // namespace ferry::models
