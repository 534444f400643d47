#include "bench/report/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/report/html.h"
#include "bench/report/json.h"

namespace ferry::bench {
namespace {

Measurements sample(std::size_t repetitions = 6) {
  Measurements measured;
  measured.targets = &transfer_targets();
  measured.sizes = {64, 1 << 20};
  measured.variants = select_variants(
      all_variants(), {.providers = {"shm"}, .against = {"memcpy"}, .spin = true, .sleep = false});
  const auto add = [&](const char* id, std::uint64_t size, double ns) {
    measured.cells[{id, size}] = {std::vector<double>(repetitions, ns),
                                  std::vector<double>(repetitions, 2 * ns), 10, ""};
  };
  add("ferry-shm", 64, 300);
  add("ferry-shm", 1 << 20, 50'000);
  add("shm-memcpy", 64, 250);
  measured.notes = {"<script> is \"left out\""};
  return measured;
}

TEST(ReportTable, TimesHaveARowForWhatWasMeasuredAndADashForTheRest) {
  const auto text = time_table(sample());
  EXPECT_NE(text.find("ferry shm, one copy"), std::string::npos);
  EXPECT_NE(text.find("300 ns ±0%"), std::string::npos);
  EXPECT_NE(text.find("50.0 us ±0%"), std::string::npos);
  EXPECT_EQ(text.find("ferry shm, in place"), std::string::npos);
  const auto row = text.substr(text.find("limit: shm, one memcpy"));
  EXPECT_NE(row.find("250 ns ±0%"), std::string::npos);
  EXPECT_NE(row.find(" -\n"), std::string::npos);
}

TEST(ReportTable, CpuIsPerGigabyteOfBothProcesses) {
  Cell cell;
  cell.cpu_ns = {2e6};
  EXPECT_DOUBLE_EQ(cpu_seconds_per_gb(cell, 1'000'000), 2);
}

TEST(ReportTable, RatiosOnlyOfWhatBothHave) {
  const auto text = ratio_table(sample());
  EXPECT_NE(text.find("1.20 ±0%"), std::string::npos);
  EXPECT_EQ(text.find("in place"), std::string::npos);
  EXPECT_EQ(ratio_text({0.004, 0.0031, 0.25, 6}), "0.0040 (0.0031..0.25)");
}

TEST(ReportTable, FewRepetitionsAreNotCalledAnInterval) {
  const auto few = sample(5);
  EXPECT_EQ(time_table(few).find("±"), std::string::npos);
  EXPECT_NE(time_table(few).find("300 ns"), std::string::npos);
  EXPECT_EQ(ratio_table(few).find("1.20 ±"), std::string::npos);
  EXPECT_NE(ratio_table(few).find("1.20"), std::string::npos);
  EXPECT_EQ(ratio_text({1.07, 1.02, 1.11, 5}), "1.07 (min 1.02, max 1.11)");
  EXPECT_EQ(ratio_text({1.07, 1.07, 1.07, 1}), "1.07");
  const auto report =
      nlohmann::json::parse(json_report("t", {}, {{few, judge(transfer_targets(), few)}}));
  for (const auto& ratios : {report["ratios"], report["targets"]}) {
    ASSERT_FALSE(ratios.empty());
    EXPECT_FALSE(ratios[0].contains("low"));
    EXPECT_TRUE(ratios[0].contains("min"));
  }
}

TEST(ReportJson, HoldsEveryRepetition) {
  const auto measured = sample();
  const auto verdicts = judge(transfer_targets(), measured);
  const auto report = nlohmann::json::parse(json_report("t", {}, {{measured, verdicts}}));
  EXPECT_EQ(report["sizes"], (std::vector<std::uint64_t>{64, 1 << 20}));
  bool found = false;
  for (const auto& variant : report["variants"]) {
    if (variant["id"] != "ferry-shm") continue;
    found = true;
    EXPECT_EQ(variant["results"][0]["ns"].size(), 6u);
    EXPECT_DOUBLE_EQ(variant["results"][1]["median_ns"], 50'000);
  }
  EXPECT_TRUE(found);
  ASSERT_EQ(report["targets"].size(), 1u);
  EXPECT_EQ(report["targets"][0]["verdict"], "met");
}

TEST(ReportJson, SeveralWorkloadsAreAnArray) {
  auto produced = sample();
  produced.work = {Workload::Read::kBytes, true};
  const auto report = nlohmann::json::parse(json_report("t", {}, {{produced, {}}, {sample(), {}}}));
  ASSERT_EQ(report["workloads"].size(), 2u);
  EXPECT_EQ(report["workloads"][0]["produce"], true);
  EXPECT_EQ(report["workloads"][1]["touch"], "page");
}

TEST(ReportJson, SurvivesBytesThatAreNoText) {
  auto measured = sample();
  measured.notes = {"\xff\xfe"};
  EXPECT_FALSE(nlohmann::json::parse(json_report("t", {}, {{measured, {}}})).empty());
}

TEST(ReportHtml, NeedsNothingFromElsewhereAndEscapesWhatItPrints) {
  const auto measured = sample();
  const auto page = html_report("t", {}, {{measured, judge(transfer_targets(), measured)}});
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("<polyline"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt; is &quot;left out&quot;"), std::string::npos);
  for (const char* word : {"http", "<script", "<link", "src=", "nan", "inf\""})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
}

TEST(ReportHtml, HasAPictureOfTheCpuToo) {
  const auto page = html_report("t", {}, {{sample(), {}}});
  EXPECT_NE(page.find("shm, time of a round"), std::string::npos);
  EXPECT_NE(page.find("shm, CPU seconds per GB"), std::string::npos);
}

TEST(ReportHtml, FewRepetitionsHaveNoWhiskers) {
  const auto few = sample(5);
  EXPECT_EQ(html_report("t", {}, {{few, {}}}).find("stroke-width:1.5"), std::string::npos);
}

}  // namespace
}  // namespace ferry::bench
