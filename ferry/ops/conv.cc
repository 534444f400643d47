#include "ferry/ops/images_internal.h"
#include "ferry/ops/standard_internal.h"

// Convolutions of oneDNN on images [N, H, W, C] as they lie in memory. Filters are stored
// [KH, KW, C, O]; the primitive says which layout it wants, and gets a copy where that is another.

namespace ferry::ops {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

memory::dims filter_dims(const tensor::Shape& shape) {
  return {shape.dim(3), shape.dim(2), shape.dim(0), shape.dim(1)};
}
memory::desc plain_filters(const tensor::Shape& shape) {
  return layout(filter_dims(shape), Tag::hwio);
}
memory::desc any_filters(const tensor::Shape& shape) {
  return layout(filter_dims(shape), Tag::any);
}

using Forward = dnnl::convolution_forward;
Forward::primitive_desc forward_of(const tensor::Shape& x, const tensor::Shape& w,
                                   const tensor::Shape& y, const Window& window) {
  return {Forward::desc(dnnl::prop_kind::forward_training, kDirect, images_of(x), any_filters(w),
                        images_of(y), window.strides, window.before, window.after),
          with_scratchpad(), engine()};
}

// Convolutions have the primitive, and a change of the filters' layout before it or after it.
class ConvKernel : public Shaped {
 public:
  using Shaped::Shaped;

 protected:
  // The filters in the layout that the primitive wants.
  Result<const void*> filters(const Call& call, std::size_t input) {
    if (!relayout_.needed()) return call.in(input).data();
    const auto wanted = FERRY_TRY(call.context.scratch(relayout_.bytes()));
    relayout_.run(call.in(input).data(), wanted.data());
    return wanted.data();
  }

  Prepared primitive_;  // none where a tensor is empty
  Relayout relayout_;
  bool empty_ = false;
};

class Conv2D final : public ConvKernel {
 public:
  using ConvKernel::ConvKernel;

 private:
  Status prepare(const Shapes& shapes) override {
    const auto& x = shapes.inputs[0].shape;
    const auto& w = shapes.inputs[1].shape;
    const auto& y = shapes.outputs[0].shape;
    empty_ = is_empty(x) || is_empty(w) || is_empty(y);
    if (empty_) return {};
    return on_onednn([&]() -> Status {
      const auto desc = forward_of(x, w, y, Window(shapes.attributes));
      primitive_ = Prepared::of<Forward>(desc);
      primitive_.add(DNNL_ARG_SRC, images_of(x))
          .add(DNNL_ARG_WEIGHTS, desc.weights_desc())
          .add(DNNL_ARG_DST, images_of(y));
      relayout_ = Relayout(plain_filters(w), desc.weights_desc());
      return {};
    });
  }
  Status compute(const Call& call) override {
    if (empty_) return write_zeros(call);
    return on_onednn([&]() -> Status {
      primitive_.set(DNNL_ARG_WEIGHTS, FERRY_TRY(filters(call, 1)));
      primitive_.set(DNNL_ARG_SRC, call.floats(0));
      primitive_.set(DNNL_ARG_DST, FERRY_TRY(call.out_floats()));
      return primitive_.run(call.context);
    });
  }
};

class Conv2DGradInput final : public ConvKernel {
 public:
  using ConvKernel::ConvKernel;

 private:
  using Backward = dnnl::convolution_backward_data;

  Status prepare(const Shapes& shapes) override {
    const auto& dy = shapes.inputs[0].shape;
    const auto& w = shapes.inputs[1].shape;
    const auto& x = shapes.outputs[0].shape;
    empty_ = is_empty(x) || is_empty(w) || is_empty(dy);
    if (empty_) return {};
    return on_onednn([&]() -> Status {
      const Window window(shapes.attributes);
      const Backward::primitive_desc desc(
          Backward::desc(kDirect, images_of(x), any_filters(w), images_of(dy), window.strides,
                         window.before, window.after),
          with_scratchpad(), engine(), forward_of(x, w, dy, window));
      primitive_ = Prepared::of<Backward>(desc);
      primitive_.add(DNNL_ARG_DIFF_DST, images_of(dy))
          .add(DNNL_ARG_WEIGHTS, desc.weights_desc())
          .add(DNNL_ARG_DIFF_SRC, images_of(x));
      relayout_ = Relayout(plain_filters(w), desc.weights_desc());
      return {};
    });
  }
  Status compute(const Call& call) override {
    if (empty_) return write_zeros(call);
    return on_onednn([&]() -> Status {
      primitive_.set(DNNL_ARG_WEIGHTS, FERRY_TRY(filters(call, 1)));
      primitive_.set(DNNL_ARG_DIFF_DST, call.floats(0));
      primitive_.set(DNNL_ARG_DIFF_SRC, FERRY_TRY(call.out_floats()));
      return primitive_.run(call.context);
    });
  }
};

class Conv2DGradFilter final : public ConvKernel {
 public:
  using ConvKernel::ConvKernel;

 private:
  using Backward = dnnl::convolution_backward_weights;

  Status prepare(const Shapes& shapes) override {
    const auto& dy = shapes.inputs[0].shape;
    const auto& x = shapes.inputs[1].shape;
    const auto& w = shapes.outputs[0].shape;
    empty_ = is_empty(x) || is_empty(w) || is_empty(dy);
    if (empty_) return {};
    return on_onednn([&]() -> Status {
      const Window window(shapes.attributes);
      const Backward::primitive_desc desc(
          Backward::desc(kDirect, images_of(x), any_filters(w), images_of(dy), window.strides,
                         window.before, window.after),
          with_scratchpad(), engine(), forward_of(x, w, dy, window));
      primitive_ = Prepared::of<Backward>(desc);
      primitive_.add(DNNL_ARG_DIFF_DST, images_of(dy))
          .add(DNNL_ARG_SRC, images_of(x))
          .add(DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc());
      made_bytes_ = desc.diff_weights_desc().get_size();
      relayout_ = Relayout(desc.diff_weights_desc(), plain_filters(w));
      return {};
    });
  }
  Status compute(const Call& call) override {
    if (empty_) return write_zeros(call);
    return on_onednn([&]() -> Status {
      auto* dw = FERRY_TRY(call.out_floats());
      void* made = dw;
      if (relayout_.needed()) made = FERRY_TRY(call.context.scratch(made_bytes_)).data();
      primitive_.set(DNNL_ARG_DIFF_DST, call.floats(0));
      primitive_.set(DNNL_ARG_SRC, call.floats(1));
      primitive_.set(DNNL_ARG_DIFF_WEIGHTS, made);
      FERRY_TRY(primitive_.run(call.context));
      if (relayout_.needed()) relayout_.run(made, dw);
      return {};
    });
  }

  std::size_t made_bytes_ = 0;
};

}  // namespace

NamedKernels conv_kernels() {
  return {{"Conv2D", made_of<Conv2D>()},
          {"Conv2DGradInput", made_of<Conv2DGradInput>()},
          {"Conv2DGradFilter", made_of<Conv2DGradFilter>()}};
}

}  // namespace ferry::ops
