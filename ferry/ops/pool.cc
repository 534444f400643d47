#include "ferry/ops/images_internal.h"
#include "ferry/ops/standard_internal.h"

namespace ferry::ops {
namespace {

using PoolForward = dnnl::pooling_forward;
using PoolBackward = dnnl::pooling_backward;

PoolForward::primitive_desc pool_forward(dnnl::algorithm how, const tensor::Shape& x,
                                         const tensor::Shape& y, const Window& window) {
  return {PoolForward::desc(dnnl::prop_kind::forward_inference, how, images_of(x), images_of(y),
                            window.strides, window.size, window.before, window.after),
          with_scratchpad(), engine()};
}

template <dnnl::algorithm kHow>
class Pool final : public Shaped {
 public:
  using Shaped::Shaped;

 private:
  Status prepare(const Shapes& shapes) override {
    const auto& x = shapes.inputs[0].shape;
    const auto& y = shapes.outputs[0].shape;
    empty_ = is_empty(x) || is_empty(y);
    if (empty_) return {};
    return on_onednn([&]() -> Status {
      primitive_ = Prepared::of<PoolForward>(pool_forward(kHow, x, y, Window(shapes.attributes)));
      primitive_.add(DNNL_ARG_SRC, images_of(x)).add(DNNL_ARG_DST, images_of(y));
      return {};
    });
  }
  Status compute(const Call& call) override {
    if (empty_) return write_zeros(call);
    return on_onednn([&]() -> Status {
      primitive_.set(DNNL_ARG_SRC, call.floats(0));
      primitive_.set(DNNL_ARG_DST, FERRY_TRY(call.out_floats()));
      return primitive_.run(call.context);
    });
  }

  Prepared primitive_;
  bool empty_ = false;
};

class AvgPoolGrad final : public Shaped {
 public:
  using Shaped::Shaped;

 private:
  static constexpr auto kHow = dnnl::algorithm::pooling_avg_exclude_padding;

  Status prepare(const Shapes& shapes) override {
    const auto& dy = shapes.inputs[0].shape;
    const auto& x = shapes.outputs[0].shape;
    empty_ = is_empty(x) || is_empty(dy);
    if (empty_) return {};
    return on_onednn([&]() -> Status {
      const Window window(shapes.attributes);
      const PoolBackward::primitive_desc desc(
          PoolBackward::desc(kHow, images_of(x), images_of(dy), window.strides, window.size,
                             window.before, window.after),
          with_scratchpad(), engine(), pool_forward(kHow, x, dy, window));
      primitive_ = Prepared::of<PoolBackward>(desc);
      primitive_.add(DNNL_ARG_DIFF_DST, images_of(dy)).add(DNNL_ARG_DIFF_SRC, images_of(x));
      return {};
    });
  }
  Status compute(const Call& call) override {
    if (empty_) return write_zeros(call);
    return on_onednn([&]() -> Status {
      primitive_.set(DNNL_ARG_DIFF_DST, call.floats(0));
      primitive_.set(DNNL_ARG_DIFF_SRC, FERRY_TRY(call.out_floats()));
      return primitive_.run(call.context);
    });
  }

  Prepared primitive_;
  bool empty_ = false;
};

// Gradients of one image's maxima. Which element was the largest is not kept from the step before;
// it is the first of the window that equals y.
struct MaxFlow {
  std::int64_t rows, columns, channels, y_rows, y_columns;
  const Window& window;

  // Adds dy of the window at (row, column) to dx; `open` says which channels have not found theirs.
  void flow(const float* dy, const float* x, const float* y, float* dx, std::int64_t row,
            std::int64_t column, std::uint32_t* open) const {
    std::fill_n(open, channels, 1U);
    const auto top = row * window.strides[0] - window.before[0];
    const auto left = column * window.strides[1] - window.before[1];
    for (auto r = std::max<std::int64_t>(0, top); r < std::min(rows, top + window.size[0]); ++r)
      for (auto c = std::max<std::int64_t>(0, left); c < std::min(columns, left + window.size[1]);
           ++c)
        take(dy, x + (r * columns + c) * channels, y, dx + (r * columns + c) * channels, open);
  }
  void take(const float* dy, const float* x, const float* y, float* dx, std::uint32_t* open) const {
    for (std::int64_t i = 0; i < channels; ++i) {
      const std::uint32_t found = x[i] == y[i] ? open[i] : 0U;
      dx[i] += found != 0 ? dy[i] : 0.0F;
      open[i] -= found;
    }
  }
  void image(const float* dy, const float* x, const float* y, float* dx,
             std::uint32_t* open) const {
    for (std::int64_t row = 0; row < y_rows; ++row)
      for (std::int64_t column = 0; column < y_columns; ++column) {
        const auto at = (row * y_columns + column) * channels;
        flow(dy + at, x, y + at, dx, row, column, open);
      }
  }
};

// Windows overlap: an image's gradients are added up in scratch, then written.
Status run_max_pool_grad(const Call& call) {
  const Window window(call.attributes());
  const auto& x = call.shape(1);
  const auto& y = call.shape(0);
  const MaxFlow flow{x.dim(1), x.dim(2), x.dim(3), y.dim(1), y.dim(2), window};
  auto* dx = FERRY_TRY(call.out_floats());
  if (call.size() == 0) return {};
  const auto x_image = call.size() / dim(x, 0);
  const auto y_image = count_of(y) / dim(x, 0);
  auto* sums = FERRY_TRY(call.scratch<float>(threads() * x_image));
  auto* open = FERRY_TRY(call.scratch<std::uint32_t>(threads() * dim(x, 3)));
  parallel(dim(x, 0), 1, [&](std::size_t begin, std::size_t end, unsigned part) {
    auto* sum = sums + part * x_image;
    for (auto n = begin; n < end; ++n) {
      std::fill_n(sum, x_image, 0.0F);
      flow.image(call.floats(0) + n * y_image, call.floats(1) + n * x_image,
                 call.floats(2) + n * y_image, sum, open + part * dim(x, 3));
      std::copy_n(sum, x_image, dx + n * x_image);
    }
  });
  return {};
}

}  // namespace

NamedKernels pool_kernels() {
  return {{"MaxPool", made_of<Pool<dnnl::algorithm::pooling_max>>()},
          {"AvgPool", made_of<Pool<dnnl::algorithm::pooling_avg_exclude_padding>>()},
          {"MaxPoolGrad", shaped(run_max_pool_grad)},
          {"AvgPoolGrad", made_of<AvgPoolGrad>()}};
}

}  // namespace ferry::ops
