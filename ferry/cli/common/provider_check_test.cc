#include "ferry/cli/common/provider_check.h"

#include <gtest/gtest.h>

namespace ferry::cli {
namespace {

TEST(ProviderCheck, SaysWhetherAProviderWorksAndWhyNot) {
  EXPECT_TRUE(try_provider("fake").has_value());
  const auto unknown = try_provider("nothing");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().message().find("there is no provider 'nothing'"), std::string::npos);
}

TEST(ProviderCheck, TheReasonIsOneLine) {
  const auto verbs = try_provider("verbs");
  if (verbs) GTEST_SKIP() << "verbs works here";
  EXPECT_EQ(verbs.error().message().find('\n'), std::string::npos);
  EXPECT_FALSE(verbs.error().message().empty());
}

}  // namespace
}  // namespace ferry::cli
