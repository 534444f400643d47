#include "ferry/base/error.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return fail(Code::kInvalidArgument, "{} is odd", n);
  return n / 2;
}
Status check(bool good) {
  if (!good) return fail_errno(EADDRINUSE, "listening on port {}", 7);
  return {};
}
Result<int> quarter(int n) {
  FERRY_TRY(check(n != 100));
  int first = FERRY_TRY(half(n));
  return half(first);
}

TEST(Error, PassesValuesThrough) { EXPECT_EQ(quarter(8).value(), 2); }

TEST(Error, NamesTheFirstPlaceThatFailed) {
  auto result = quarter(6);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(result.error().to_string(), "INVALID_ARGUMENT: 3 is odd");
  EXPECT_NE(std::string_view(result.error().file()).find("error_test.cc"), std::string_view::npos);
  EXPECT_GT(result.error().line(), 0);
}

TEST(Error, KeepsErrnoAndMapsIt) {
  auto result = quarter(100);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kAlreadyExists);
  EXPECT_EQ(result.error().os_code(), EADDRINUSE);
  EXPECT_EQ(result.error().message(), "listening on port 7: Address already in use");
}

}  // namespace
}  // namespace ferry
