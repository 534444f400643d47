#include "bench/limits/team.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "bench/limits/link.h"

namespace limits {
namespace {

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(BenchTeam, MembersMeetAndReport) {
  Team team(3);
  team.start([](Team& all, int me) {
    all.set_endpoint(me, "endpoint " + std::to_string(me));
    all.meet();
    const auto next = all.endpoint((me + 1) % 3);
    all.report(static_cast<std::size_t>(me), static_cast<double>(next.back() - '0'));
    all.meet();
  });
  team.finish();
  for (std::size_t me = 0; me < 3; ++me)
    EXPECT_DOUBLE_EQ(team.reported(me), static_cast<double>((me + 1) % 3));
}

TEST(BenchTeam, AFailureReachesTheStarterAndTheOthers) {
  Team team(2);
  team.start([](Team& all, int me) {
    if (me == 1) throw Failure("the second has no luck");
    all.meet();
  });
  EXPECT_EQ(failure_of([&] { team.finish(); }), "the second has no luck");
}

TEST(BenchTeam, ADeathIsNoticed) {
  Team team(1);
  team.start([](Team&, int) { _exit(7); });
  EXPECT_EQ(failure_of([&] { team.finish(); }), "one of the measuring processes died");
}

}  // namespace
}  // namespace limits
