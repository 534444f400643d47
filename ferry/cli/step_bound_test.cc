#include "ferry/cli/step_bound.h"

#include <gtest/gtest.h>

namespace ferry::cli {
namespace {

StepBound bound_with(double computation, double carrying) {
  StepBound bound;
  bound.step = 0.1;
  bound.computation = computation;
  bound.path = StepPath::kSocket;
  bound.bytes = 3 << 20;
  bound.carrying = carrying;
  return bound;
}

bool says(const StepBound& bound, const std::string& words) {
  return bound.sentence().find(words) != std::string::npos;
}

TEST(StepBounds, NameTheLargerPart) {
  EXPECT_TRUE(says(bound_with(0.06, 0.03), "100.0 ms")) << bound_with(0.06, 0.03).sentence();
  EXPECT_TRUE(says(bound_with(0.06, 0.03), "60.0 ms (60 %)"));
  EXPECT_TRUE(says(bound_with(0.06, 0.03), "30.0 ms (30 %) for the 3 MiB sent"));
  EXPECT_TRUE(says(bound_with(0.06, 0.03), "computation bounds it"));
  EXPECT_TRUE(says(bound_with(0.03, 0.06), "its bytes bound it"));
  EXPECT_TRUE(says(bound_with(0.03, 0.04), "neither is half of it"));
  EXPECT_TRUE(says(bound_with(0.03, 0.2), "cannot be told")) << "a limit above the step";
}

TEST(StepBounds, SayNothingOfWhatIsNotKnown) {
  EXPECT_FALSE(says(bound_with(0, 0.03), "computation"));
  EXPECT_FALSE(says(bound_with(0.06, 0), "bounds it"));
  auto emulated = bound_with(0.06, 0.03);
  emulated.emulated = true;
  EXPECT_TRUE(says(emulated, "emulated computation"));
}

TEST(StepBounds, ASocketCarriesBytes) {
  const auto speed = socket_speed();
  ASSERT_TRUE(speed) << speed.error().to_string();
  EXPECT_GT(*speed, 0);
}

}  // namespace
}  // namespace ferry::cli
