#include "ferry/math/optimize.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "ferry/math/random.h"
#include "ferry/math/variants_internal.h"

namespace ferry::math {
namespace {

constexpr std::size_t kCount = 2051;

struct Arrays {
  std::vector<float> w, g, h, m, v;
  std::array<const float*, 2> sources;

  Arrays() : w(kCount), g(kCount), h(kCount), m(kCount), v(kCount), sources{g.data(), h.data()} {
    std::uint64_t key = 0;
    for (auto* array : {&w, &g, &h, &m, &v}) {
      for (std::size_t i = 0; i < kCount; ++i)
        (*array)[i] = static_cast<float>(random_unit(key, i));
      ++key;
    }
  }
  Parts gradient() const { return {sources, 0.5F}; }
};

// Sum, product and difference, each rounded to a float: what volatile sees to.
float rounded(float value) {
  volatile float kept = value;
  return kept;
}
float gradient_at(const Arrays& a, std::size_t i) {
  return rounded(rounded(a.g[i] + a.h[i]) * 0.5F);
}

TEST(Optimizers, SgdIsItsFormulaInAllVariantsAndPlaces) {
  const Arrays start;
  for (const auto most : {Variant::kPlain, Variant::kAvx2, Variant::kAvx512}) {
    use_at_most(most);
    Arrays a;
    std::vector<float> apart(kCount);
    sgd(a.w.data(), apart.data(), a.gradient(), 0.1F, kCount);
    EXPECT_EQ(a.w, start.w);
    sgd(a.w.data(), a.w.data(), a.gradient(), 0.1F, kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_EQ(a.w[i], start.w[i] - rounded(0.1F * gradient_at(start, i)));
    EXPECT_EQ(apart, a.w);
  }
}

TEST(Optimizers, MomentumIsItsFormulaInAllVariants) {
  const Arrays start;
  for (const auto most : {Variant::kPlain, Variant::kAvx2, Variant::kAvx512}) {
    use_at_most(most);
    Arrays a;
    momentum(a.w.data(), a.w.data(), a.m.data(), a.gradient(), {.rate = 0.1F, .momentum = 0.9F},
             kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const float velocity = rounded(rounded(0.9F * start.m[i]) + gradient_at(start, i));
      ASSERT_EQ(a.m[i], velocity);
      ASSERT_EQ(a.w[i], start.w[i] - rounded(0.1F * velocity));
    }
  }
}

TEST(Optimizers, AdamFollowsItsFormula) {
  const Arrays start;
  Arrays a;
  const Adam how{.rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6, .t = 3};
  adam(a.w.data(), a.w.data(), a.m.data(), a.v.data(), a.gradient(), how, kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const double g = gradient_at(start, i);
    const double m = 0.9 * start.m[i] + 0.1 * g;
    const double v = 0.99 * start.v[i] + 0.01 * g * g;
    const double step = 0.01 * (m / (1 - 0.729)) / (std::sqrt(v / (1 - 0.970299)) + 1e-6);
    ASSERT_NEAR(a.m[i], m, 1e-6);
    ASSERT_NEAR(a.v[i], v, 1e-6);
    ASSERT_NEAR(a.w[i], start.w[i] - step, 1e-6);
  }
}

TEST(Optimizers, AdamGivesTheSameBitsInAllVariants) {
  std::vector<Arrays> results;
  for (const auto most : {Variant::kPlain, Variant::kAvx2, Variant::kAvx512}) {
    use_at_most(most);
    Arrays a;
    adam(a.w.data(), a.w.data(), a.m.data(), a.v.data(), a.gradient(), {.rate = 0.1}, kCount);
    results.push_back(a);
    EXPECT_EQ(a.w, results[0].w);
    EXPECT_EQ(a.m, results[0].m);
    EXPECT_EQ(a.v, results[0].v);
  }
}

}  // namespace
}  // namespace ferry::math
