#include "ferry/ops/images_internal.h"
#include "ferry/ops/standard_internal.h"

// Batch normalisation by oneDNN, over all but the last dimension.

namespace ferry::ops {
namespace {

using dnnl::normalization_flags;
using NormForward = dnnl::batch_normalization_forward;
using NormBackward = dnnl::batch_normalization_backward;

const auto kScaleAndShift = normalization_flags::use_scale | normalization_flags::use_shift;

// Rows of C channels are images of one pixel.
dnnl::memory::desc channels_last(const tensor::Shape& shape) {
  if (shape.rank() == 4) return images_of(shape);
  const auto rows = rows_of(shape);
  return layout(
      {static_cast<std::int64_t>(rows.count), static_cast<std::int64_t>(rows.width), 1, 1},
      dnnl::memory::format_tag::nhwc);
}

dnnl::memory::desc one_each(const tensor::Shape& shape) {
  return layout({shape.dim(shape.rank() - 1)}, dnnl::memory::format_tag::x);
}

NormForward::primitive_desc norm_forward(const Shapes& shapes, const tensor::Shape& x,
                                         dnnl::prop_kind kind, normalization_flags flags) {
  const auto epsilon = static_cast<float>(shapes.attributes.get_or<double>("epsilon", 0));
  return {NormForward::desc(kind, channels_last(x), epsilon, flags), with_scratchpad(), engine()};
}

class BatchNorm final : public Shaped {
 public:
  using Shaped::Shaped;

 private:
  Status prepare(const Shapes& shapes) override {
    const auto& x = shapes.inputs[0].shape;
    if (is_empty(x))
      return fail(Code::kInvalidArgument, "a batch of shape {} has no mean", x.to_string());
    return on_onednn([&]() -> Status {
      primitive_ = Prepared::of<NormForward>(
          norm_forward(shapes, x, dnnl::prop_kind::forward_training, kScaleAndShift));
      primitive_.add(DNNL_ARG_SRC, channels_last(x)).add(DNNL_ARG_DST, channels_last(x));
      for (const auto argument : {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE})
        primitive_.add(argument, one_each(x));
      return {};
    });
  }
  Status compute(const Call& call) override {
    return on_onednn([&]() -> Status {
      primitive_.set(DNNL_ARG_SRC, call.floats(0));
      primitive_.set(DNNL_ARG_SCALE, call.floats(1));
      primitive_.set(DNNL_ARG_SHIFT, call.floats(2));
      primitive_.set(DNNL_ARG_DST, FERRY_TRY(call.out_floats(0)));
      primitive_.set(DNNL_ARG_MEAN, FERRY_TRY(call.out_floats(1)));
      primitive_.set(DNNL_ARG_VARIANCE, FERRY_TRY(call.out_floats(2)));
      return primitive_.run(call.context);
    });
  }

  Prepared primitive_;
};

class BatchNormApply final : public Shaped {
 public:
  using Shaped::Shaped;

 private:
  Status prepare(const Shapes& shapes) override {
    const auto& x = shapes.inputs[0].shape;
    if (is_empty(x)) return {};
    return on_onednn([&]() -> Status {
      primitive_ = Prepared::of<NormForward>(
          norm_forward(shapes, x, dnnl::prop_kind::forward_inference,
                       kScaleAndShift | normalization_flags::use_global_stats));
      primitive_.add(DNNL_ARG_SRC, channels_last(x)).add(DNNL_ARG_DST, channels_last(x));
      for (const auto argument : {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE})
        primitive_.add(argument, one_each(x));
      return {};
    });
  }
  Status compute(const Call& call) override {
    if (call.size() == 0) return write_zeros(call);
    return on_onednn([&]() -> Status {
      primitive_.set(DNNL_ARG_SRC, call.floats(0));
      primitive_.set(DNNL_ARG_SCALE, call.floats(1));
      primitive_.set(DNNL_ARG_SHIFT, call.floats(2));
      primitive_.set(DNNL_ARG_MEAN, call.floats(3));
      primitive_.set(DNNL_ARG_VARIANCE, call.floats(4));
      primitive_.set(DNNL_ARG_DST, FERRY_TRY(call.out_floats()));
      return primitive_.run(call.context);
    });
  }

  Prepared primitive_;
};

class BatchNormGrad final : public Shaped {
 public:
  using Shaped::Shaped;

 private:
  Status prepare(const Shapes& shapes) override {
    const auto& x = shapes.outputs[0].shape;
    if (is_empty(x))
      return fail(Code::kInvalidArgument, "a batch of shape {} has no mean", x.to_string());
    return on_onednn([&]() -> Status {
      const auto epsilon = static_cast<float>(shapes.attributes.get_or<double>("epsilon", 0));
      const NormBackward::primitive_desc desc(
          NormBackward::desc(dnnl::prop_kind::backward, channels_last(x), channels_last(x), epsilon,
                             kScaleAndShift),
          with_scratchpad(), engine(),
          norm_forward(shapes, x, dnnl::prop_kind::forward_training, kScaleAndShift));
      primitive_ = Prepared::of<NormBackward>(desc);
      for (const auto argument : {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC})
        primitive_.add(argument, channels_last(x));
      for (const auto argument : {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE,
                                  DNNL_ARG_DIFF_SCALE, DNNL_ARG_DIFF_SHIFT})
        primitive_.add(argument, one_each(x));
      return {};
    });
  }
  Status compute(const Call& call) override {
    return on_onednn([&]() -> Status {
      primitive_.set(DNNL_ARG_DIFF_DST, call.floats(0));
      primitive_.set(DNNL_ARG_SRC, call.floats(1));
      primitive_.set(DNNL_ARG_SCALE, call.floats(2));
      primitive_.set(DNNL_ARG_SHIFT, call.floats(2));  // must be there, and is not looked at
      primitive_.set(DNNL_ARG_MEAN, call.floats(3));
      primitive_.set(DNNL_ARG_VARIANCE, call.floats(4));
      primitive_.set(DNNL_ARG_DIFF_SRC, FERRY_TRY(call.out_floats(0)));
      primitive_.set(DNNL_ARG_DIFF_SCALE, FERRY_TRY(call.out_floats(1)));
      primitive_.set(DNNL_ARG_DIFF_SHIFT, FERRY_TRY(call.out_floats(2)));
      return primitive_.run(call.context);
    });
  }

  Prepared primitive_;
};

}  // namespace

NamedKernels norm_kernels() {
  auto kernels = lrn_kernels();
  kernels.emplace_back("BatchNorm", made_of<BatchNorm>());
  kernels.emplace_back("BatchNormGrad", made_of<BatchNormGrad>());
  kernels.emplace_back("BatchNormApply", made_of<BatchNormApply>());
  return kernels;
}

}  // namespace ferry::ops
