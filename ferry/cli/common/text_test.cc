#include "ferry/cli/common/text.h"

#include <gtest/gtest.h>

namespace ferry::cli {
namespace {

TEST(BenchSize, ReadsNumbersWithBinarySuffixes) {
  EXPECT_EQ(parse_size("64").value(), 64u);
  EXPECT_EQ(parse_size("4K").value(), 4096u);
  EXPECT_EQ(parse_size("16m").value(), 16u << 20);
  EXPECT_EQ(parse_size("4GiB").value(), std::uint64_t{4} << 30);
  EXPECT_EQ(parse_size("512B").value(), 512u);
}

TEST(BenchSize, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "0", "K", "4Q", "-1", "4 K", "1.5M", "99999999999999999999", "2048G"})
    EXPECT_EQ(parse_size(text).error().code(), Code::kInvalidArgument) << text;
}

TEST(BenchSize, SortsAListAndDropsDoubles) {
  EXPECT_EQ(parse_sizes("1M,64,4K,64").value(), (std::vector<std::uint64_t>{64, 4096, 1 << 20}));
  EXPECT_FALSE(parse_sizes(",,").has_value());
  EXPECT_FALSE(parse_sizes("64,x").has_value());
}

TEST(BenchSize, WritesSizesAsPeopleReadThem) {
  EXPECT_EQ(size_text(64), "64 B");
  EXPECT_EQ(size_text(4096), "4 KiB");
  EXPECT_EQ(size_text(3 << 19), "1.5 MiB");
  EXPECT_EQ(size_text(std::uint64_t{4} << 30), "4 GiB");
}

TEST(BenchSize, WritesTimesWithThreeDigits) {
  EXPECT_EQ(time_text(0.5), "0.50 ns");
  EXPECT_EQ(time_text(270), "270 ns");
  EXPECT_EQ(time_text(999.6), "1.00 us");
  EXPECT_EQ(time_text(1.42e6), "1.42 ms");
  EXPECT_EQ(time_text(53.04e6), "53.0 ms");
  EXPECT_EQ(time_text(4.094e9), "4.09 s");
}

}  // namespace
}  // namespace ferry::cli
