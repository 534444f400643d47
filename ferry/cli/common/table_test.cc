#include "ferry/cli/common/table.h"

#include <gtest/gtest.h>

namespace ferry::cli {
namespace {

TEST(Table, LinesUpColumnsByWhatIsShown) {
  EXPECT_EQ(render_table({"name", "time"}, {{"a", "1 ±2%"}, {}, {"longer", "10"}}),
            "name     time\n"
            "-------------\n"
            "a       1 ±2%\n"
            "-------------\n"
            "longer     10\n");
}

}  // namespace
}  // namespace ferry::cli
