#include <cmath>
#include <limits>
#include <type_traits>

#include "ferry/math/convert.h"
#include "ferry/ops/standard_internal.h"
#include "ferry/ops/threads_internal.h"

// Operators that know all element types.

namespace ferry::ops {
namespace {

using tensor::ElementType;

// A number of 16 bits as it lies in memory.
struct Half {
  std::uint16_t bits;
  static constexpr auto kToFloat = math::f32_from_f16;
  static constexpr auto kFromFloat = math::f16_from_f32;
};
struct Brain {
  std::uint16_t bits;
  static constexpr auto kToFloat = math::f32_from_bf16;
  static constexpr auto kFromFloat = math::bf16_from_f32;
};
template <class T>
constexpr bool kIsSmallFloat = std::is_same_v<T, Half> || std::is_same_v<T, Brain>;

// Calls use(T{}) with the C++ type of the element type.
template <class Use>
Status with_type(ElementType type, Use use) {
  switch (type) {
    case ElementType::kF16:
      return use(Half{});
    case ElementType::kBf16:
      return use(Brain{});
    case ElementType::kF32:
      return use(float{});
    case ElementType::kF64:
      return use(double{});
    case ElementType::kI32:
      return use(std::int32_t{});
    case ElementType::kI64:
      return use(std::int64_t{});
    case ElementType::kU8:
      return use(std::uint8_t{});
    default:
      return fail(Code::kUnimplemented, "there is no kernel for elements of type {}",
                  tensor::name_of(type));
  }
}

// A fraction is cut off; what does not fit becomes the nearest that does, and NaN 0.
template <class To, class From>
To number_as(From value) {
  if constexpr (std::is_floating_point_v<To> || std::is_same_v<To, From>) {
    return static_cast<To>(value);
  } else {
    constexpr auto kLeast = std::numeric_limits<To>::min();
    constexpr auto kMost = std::numeric_limits<To>::max();
    if constexpr (std::is_floating_point_v<From>) {
      if (std::isnan(value)) return 0;
      if (value >= static_cast<From>(kMost)) return kMost;
      if (value <= static_cast<From>(kLeast)) return kLeast;
    } else {
      const auto wide = static_cast<std::int64_t>(value);
      if (wide > static_cast<std::int64_t>(kMost)) return kMost;
      if (wide < static_cast<std::int64_t>(kLeast)) return kLeast;
    }
    return static_cast<To>(value);
  }
}

// Elements of 16 bits go by way of floats, a stretch at a time.
constexpr std::size_t kStretch = 1024;

template <class To, class From>
void cast_stretch(const From* x, To* y, std::size_t n) {
  if constexpr (std::is_same_v<To, From>) {
    std::copy_n(x, n, y);
  } else if constexpr (kIsSmallFloat<From>) {
    std::array<float, kStretch> floats;
    From::kToFloat(&x->bits, floats.data(), n);
    cast_stretch(floats.data(), y, n);
  } else if constexpr (kIsSmallFloat<To>) {
    std::array<float, kStretch> floats;
    for (std::size_t i = 0; i < n; ++i) floats[i] = static_cast<float>(x[i]);
    To::kFromFloat(floats.data(), &y->bits, n);
  } else {
    for (std::size_t i = 0; i < n; ++i) y[i] = number_as<To>(x[i]);
  }
}

template <class To, class From>
void cast_all(const tensor::Tensor& from, const tensor::Tensor& to) {
  const auto* x = reinterpret_cast<const From*>(from.data());
  auto* y = reinterpret_cast<To*>(to.data());
  parallel(count_of(to.shape()), kGrain, [=](std::size_t begin, std::size_t end) {
    for (auto at = begin; at < end; at += kStretch)
      cast_stretch(x + at, y + at, std::min(kStretch, end - at));
  });
}

Status run_cast(const Call& call) {
  const auto out = FERRY_TRY(call.out());
  return with_type(call.in(0).type(), [&](auto from) {
    return with_type(out.type(), [&](auto to) -> Status {
      cast_all<decltype(to), decltype(from)>(call.in(0), out);
      return {};
    });
  });
}

Status run_ones_like(const Call& call) {
  const auto out = FERRY_TRY(call.out());
  return with_type(out.type(), [&](auto to) -> Status {
    using T = decltype(to);
    constexpr float kOne = 1;
    T one{};
    cast_stretch(&kOne, &one, 1);
    std::fill_n(reinterpret_cast<T*>(out.data()), count_of(out.shape()), one);
    return {};
  });
}

}  // namespace

NamedKernels cast_kernels() {
  return {{"Cast", shaped(run_cast)}, {"OnesLike", shaped(run_ones_like)}};
}

}  // namespace ferry::ops
