#include "ferry/base/copy.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ferry {
namespace {

TEST(Copy, EveryVariantCopiesWhatMemcpyDoes) {
  constexpr std::size_t kRoom = 2048;
  std::mt19937 random(7);
  std::vector<std::byte> from(kRoom);
  for (auto& byte : from) byte = static_cast<std::byte>(random());
  std::size_t count = 0;
  const auto* variants = copy_variants(count);
  ASSERT_GE(count, 1U);
  for (std::size_t v = 0; v < count; ++v)
    for (std::size_t to_at : {0, 1, 31, 63, 64})
      for (std::size_t from_at : {0, 3, 32, 61})
        for (std::size_t length = 0; length < 1400; length += length < 300 ? 1 : 37) {
          std::vector<std::byte> to(kRoom, std::byte{0xee});
          auto wanted = to;
          std::memcpy(wanted.data() + to_at, from.data() + from_at, length);
          variants[v].copy(to.data() + to_at, from.data() + from_at, length);
          ASSERT_EQ(to, wanted) << variants[v].name << " length " << length << " to " << to_at
                                << " from " << from_at;
        }
}

}  // namespace
}  // namespace ferry
