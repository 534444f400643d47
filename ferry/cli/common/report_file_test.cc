#include "ferry/cli/common/report_file.h"

#include <gtest/gtest.h>

namespace ferry::cli {
namespace {

TEST(ReportFile, SaysWhereItCannotWrite) {
  const auto status = write_report("/nowhere/at/all", "x");
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().message().find("/nowhere/at/all"), std::string::npos);
}

}  // namespace
}  // namespace ferry::cli
