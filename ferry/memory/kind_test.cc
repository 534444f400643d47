#include "ferry/memory/kind.h"

#include <gtest/gtest.h>

namespace ferry::memory {
namespace {

TEST(HostKind, GivesZeroedMemoryThatFillAndCopyWorkOn) {
  Kind& kind = host_kind();
  EXPECT_EQ(name_of(kind.id()), "host");
  auto backing = kind.allocate(std::size_t{2} << 20, -1).value();
  auto bytes = backing->bytes();
  ASSERT_EQ(bytes.size(), std::size_t{2} << 20);
  EXPECT_GE(backing->fd(), 0);
  EXPECT_EQ(bytes.front(), std::byte{0});
  EXPECT_EQ(bytes.back(), std::byte{0});
  ASSERT_TRUE(kind.fill(bytes.first(100), std::byte{7}));
  ASSERT_TRUE(kind.copy(bytes.subspan(1000, 100), bytes.first(100)));
  EXPECT_EQ(bytes[1099], std::byte{7});
  EXPECT_EQ(bytes[1100], std::byte{0});
  EXPECT_EQ(kind.copy(bytes.first(2), bytes.first(1)).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ferry::memory
