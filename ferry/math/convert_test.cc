#include "ferry/math/convert.h"

#include <gtest/gtest.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ferry/math/random.h"

namespace ferry::math {
namespace {

TEST(Convert, EveryHalfThereAndBack) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> floats(halves.size());
  std::vector<std::uint16_t> again(halves.size());
  f32_from_f16(halves.data(), floats.data(), halves.size());
  f16_from_f32(floats.data(), again.data(), halves.size());
  for (std::size_t i = 0; i < halves.size(); ++i) {
    if (std::isnan(floats[i]))
      EXPECT_EQ(again[i] & 0x7C00, 0x7C00);
    else
      EXPECT_EQ(again[i], halves[i]);
  }
  EXPECT_EQ(floats[0x3C00], 1);
  EXPECT_EQ(floats[0x0001], 0x1.0p-24F);
  EXPECT_EQ(floats[0xFBFF], -65504);
}

TEST(Convert, EveryBrainFloatThereAndBack) {
  std::vector<std::uint16_t> brains(65536);
  for (std::size_t i = 0; i < brains.size(); ++i) brains[i] = static_cast<std::uint16_t>(i);
  std::vector<float> floats(brains.size());
  std::vector<std::uint16_t> again(brains.size());
  f32_from_bf16(brains.data(), floats.data(), brains.size());
  bf16_from_f32(floats.data(), again.data(), brains.size());
  for (std::size_t i = 0; i < brains.size(); ++i) {
    if (std::isnan(floats[i]))
      EXPECT_TRUE((again[i] & 0x7F80) == 0x7F80 && (again[i] & 0x7F) != 0);
    else
      EXPECT_EQ(again[i], brains[i]);
  }
}

TEST(Convert, TiesGoToEven) {
  const std::vector<float> x = {1 + 0x1.0p-11F, 1 + 0x1.8p-10F, 65520, 65519, 0x1.0p-25F};
  std::vector<std::uint16_t> y(x.size());
  f16_from_f32(x.data(), y.data(), x.size());
  EXPECT_EQ(y, (std::vector<std::uint16_t>{0x3C00, 0x3C02, 0x7C00, 0x7BFF, 0}));
  const std::vector<float> b = {1 + 0x1.0p-8F, 1 + 0x1.8p-7F, -3.4e38F};
  y.resize(b.size());
  bf16_from_f32(b.data(), y.data(), b.size());
  EXPECT_EQ(y, (std::vector<std::uint16_t>{0x3F80, 0x3F82, 0xFF80}));
}

#if defined(__x86_64__)
[[gnu::target("f16c")]] std::uint16_t by_the_processor(float x) {
  return static_cast<std::uint16_t>(_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(x), 0), 0));
}

TEST(Convert, RoundsToHalvesAsTheProcessorDoes) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "the processor does not convert";
  for (std::uint64_t i = 0; i < 200000; ++i) {
    auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random_bits(1, i)));
    if (i % 2 == 0) x = static_cast<float>((random_unit(2, i) - 0.5) * 0.001);
    if (std::isnan(x)) continue;
    std::uint16_t found = 0;
    f16_from_f32(&x, &found, 1);
    ASSERT_EQ(found, by_the_processor(x)) << x;
  }
}
#endif

}  // namespace
}  // namespace ferry::math
