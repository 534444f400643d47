#include "ferry/cli/doctor_host.h"

#include <gtest/gtest.h>

namespace ferry::cli {
namespace {

TEST(Doctor, AdviceThatSeveralFindingsShareIsGivenOnce) {
  const auto text = to_text({{"provider verbs", Finding::Level::kNote, "none", "load the driver"},
                             {"RDMA devices", Finding::Level::kNote, "none", "load the driver"},
                             {"open files", Finding::Level::kGood, "20000", ""}});
  EXPECT_EQ(text.find("load the driver"), text.rfind("load the driver"));
  EXPECT_NE(text.find("-> as for provider verbs"), std::string::npos);
  EXPECT_NE(text.find("ok    open files"), std::string::npos);
}

}  // namespace
}  // namespace ferry::cli
