#include "ferry/models/batches.h"

#include <numeric>

#include "ferry/models/random_internal.h"

namespace ferry::models {
Result<Batches> Batches::open(const Images& images, const Options& options) {
  const auto per_step = options.batch * std::int64_t{options.workers};
  if (options.worker >= options.workers || per_step < 1 || per_step > images.count())
    return fail(Code::kInvalidArgument,
                "{} samples are not enough for {} workers with batches of {}", images.count(),
                options.workers, options.batch);
  return Batches(images, options);
}

Batches::Batches(const Images& images, const Options& options)
    : images_(images),
      options_(options),
      steps_per_epoch_(static_cast<std::uint64_t>(images.count() /
                                                  (options.batch * std::int64_t{options.workers}))),
      order_(static_cast<std::size_t>(images.count())) {
  const auto pixels = images.pixels.shape().dim(1) * images.pixels.shape().dim(2);
  pixels_.resize(static_cast<std::size_t>(options.batch * pixels));
  labels_.resize(static_cast<std::size_t>(options.batch));
}

void Batches::shuffle(std::uint64_t epoch) {
  std::iota(order_.begin(), order_.end(), 0);
  auto state = mix_seed(options_.seed, epoch);
  for (auto left = order_.size(); left > 1; --left)
    std::swap(order_[left - 1], order_[next_random(state) % left]);
  epoch_ = epoch;
}

Batches::Batch Batches::of_step(std::uint64_t step) {
  const auto epoch = (step - 1) / steps_per_epoch_;
  if (epoch != epoch_) shuffle(epoch);
  const auto batch = static_cast<std::size_t>(options_.batch);
  const auto first = ((step - 1) % steps_per_epoch_ * options_.workers + options_.worker) * batch;
  const auto size = pixels_.size() / batch;
  for (std::size_t index = 0; index < batch; ++index) {
    const auto sample = order_[first + index];
    const auto* from = images_.pixels.data() + sample * size;
    for (std::size_t pixel = 0; pixel < size; ++pixel)
      pixels_[index * size + pixel] = static_cast<float>(from[pixel]) / 255.0F - 0.5F;
    labels_[index] = static_cast<std::int32_t>(images_.labels.bytes()[sample]);
  }
  const auto image = images_.pixels.shape();
  const auto shape = *tensor::Shape::of({options_.batch, image.dim(1), image.dim(2), 1});
  return {*tensor::Tensor::over({tensor::ElementType::kF32, shape},
                                std::as_writable_bytes(std::span(pixels_))),
          *tensor::Tensor::over({tensor::ElementType::kI32, *tensor::Shape::of({options_.batch})},
                                std::as_writable_bytes(std::span(labels_)))};
}

}  // namespace ferry::models
