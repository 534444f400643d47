#include "ferry/cli/tune_show.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ferry::cli {
namespace {

using mail::TuningEntry;
using mail::TuningPath;
using ::testing::HasSubstr;
using ::testing::Not;

TuningEntry sample_entry() {
  TuningEntry entry;
  entry.path = TuningPath::between("aaaaaaaaaaaa", "bbbbbbbbbbbb", "tcp");
  entry.when = "2026-01-31T12:00:00Z";
  entry.where = "machine";
  entry.found.tuning.eager_threshold = 2048;
  entry.found.curves = {{"eager", {{1024, 1000}, {2048, 2000}, {4096, 9000}}, 0},
                        {"announced", {{1024, 4000}, {2048, 4000}, {4096, 4000}}, 0},
                        {"chunk", {{131072, 5e6}, {524288, 4e6}}, 0}};
  return entry;
}

TEST(TuneShow, MarksLieOnALogarithmicScale) {
  EXPECT_EQ(plot_line({1, 100}, "ea", 1, 100, 5), "e   a");
  EXPECT_EQ(plot_line({10}, "*", 1, 100, 5), "  *  ");
  EXPECT_EQ(plot_line({10, 10}, "ea", 1, 100, 5), "  =  ");
  EXPECT_EQ(plot_line({7}, "*", 7, 7, 3), "*  ");
  for (double time : {0.0, -1.0, 1e308, 1e-300})
    for (double least : {0.0, -1.0, 1e-300, 7.0})
      EXPECT_EQ(plot_line({time}, "*", least, 1e308, 3).size(), 3U) << time << " " << least;
}

TEST(TuneShow, SaysWhatIsUsedAndWhy) {
  const auto text = to_text(sample_entry());
  EXPECT_THAT(text, HasSubstr("tcp between host aaaaaaaa and host bbbbbbbb, measured 2026-01-31"));
  EXPECT_THAT(text, ::testing::ContainsRegex("eager threshold +2 KiB"));
  EXPECT_THAT(text, ::testing::ContainsRegex("2 KiB +2.00 us +4.00 us .* eager\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("4 KiB +9.00 us +4.00 us .* announced\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("512 KiB +4.00 ms .* used\n"));
  EXPECT_THAT(text, Not(HasSubstr("taken over")));
}

TEST(TuneShow, WithoutCurvesSaysWhereTheyAre) {
  auto entry = sample_entry();
  entry.found.curves.clear();
  EXPECT_THAT(to_text(entry), HasSubstr("taken over from the peer"));
}

TEST(TuneShow, JsonHasEverything) {
  const auto all = to_json({sample_entry(), sample_entry()});
  ASSERT_EQ(all["tunings"].size(), 2U);
  EXPECT_EQ(all["tunings"][0]["tuning"]["eager_threshold"], 2048);
  EXPECT_EQ(all["tunings"][0]["curves"].size(), 3U);
}

}  // namespace
}  // namespace ferry::cli
