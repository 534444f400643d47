#include "bench/driver/protocol.h"

#include <gtest/gtest.h>

namespace ferry::bench {
namespace {

TEST(BenchProtocol, WritesARunLine) {
  EXPECT_EQ(run_line({4096, 7, {}, false}),
            "run bytes=4096 rounds=7 touch=page wait=spin produce=0");
  EXPECT_EQ(run_line({1, 2, {Workload::Read::kLines, false}, true}),
            "run bytes=1 rounds=2 touch=all wait=sleep produce=0");
  EXPECT_EQ(run_line({1, 2, {Workload::Read::kBytes, true}, false}),
            "run bytes=1 rounds=2 touch=bytes wait=spin produce=1");
}

TEST(BenchProtocol, HelloHasASentenceWithSpacesInIt) {
  const auto hello = parse_hello("ok name=tcp what=a socket, sizes=any, really sizes=16-4096");
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->name, "tcp");
  EXPECT_EQ(hello->what, "a socket, sizes=any, really");
  EXPECT_EQ(hello->min_bytes, 16u);
  EXPECT_EQ(hello->max_bytes, 4096u);
}

TEST(BenchProtocol, ReadsAResult) {
  const auto result = parse_result("ok ns=1500 cpu_ns=2.5e3 checked=64 bad=1");
  ASSERT_TRUE(result.has_value());
  EXPECT_DOUBLE_EQ(result->ns, 1500);
  EXPECT_DOUBLE_EQ(result->cpu_ns, 2500);
  EXPECT_EQ(result->checked, 64u);
  EXPECT_EQ(result->bad, 1u);
}

TEST(BenchProtocol, AnErrorLineKeepsTheProgramsSentence) {
  const auto result = parse_result("error the receiving process died");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), Code::kAborted);
  EXPECT_EQ(result.error().message(), "the receiving process died");
}

TEST(BenchProtocol, RefusesWhatIsNoAnswer) {
  for (const char* line :
       {"", "ok", "okay then", "ok ns=1", "ok ns=x cpu_ns=1 checked=1 bad=0",
        "ok ns=1 cpu_ns=1 checked=-1 bad=0", "ok ns=1 cpu_ns=1 checked=1 bad=0x"})
    EXPECT_FALSE(parse_result(line).has_value()) << line;
  for (const char* line : {"ok name=a sizes=1-2", "ok name=a what=b", "ok name=a what=b sizes=12",
                           "ok name=a what=b sizes=1-", "ok sizes=1-2 what=b name=a"})
    EXPECT_FALSE(parse_hello(line).has_value()) << line;
}

}  // namespace
}  // namespace ferry::bench
