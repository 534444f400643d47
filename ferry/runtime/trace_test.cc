#include "ferry/runtime/trace.h"

#include <gtest/gtest.h>

#include <array>

namespace ferry::runtime {
namespace {

std::array<std::byte, 100> memory;

TEST(Traces, FindTheBufferThatHoldsAnAddress) {
  Trace trace;
  trace.note(memory.data() + 10, 20, {1, 0});
  EXPECT_FALSE(trace.find(memory.data() + 9));
  ASSERT_TRUE(trace.find(memory.data() + 29));
  EXPECT_EQ(trace.find(memory.data() + 29)->site, (Site{1, 0}));
  EXPECT_FALSE(trace.find(memory.data() + 30));
}

TEST(Traces, LetTheNewestWin) {
  Trace trace;
  trace.note(memory.data(), 40, {1, 0});
  trace.note(memory.data() + 50, 10, {2, 0});
  trace.note(memory.data() + 30, 30, {3, 1});  // over parts of both
  EXPECT_FALSE(trace.find(memory.data() + 5));
  EXPECT_EQ(trace.find(memory.data() + 55)->site, (Site{3, 1}));
}

TEST(Traces, KnowEmptyTensorsByTheirAddress) {
  Trace trace;
  trace.note(memory.data(), 0, {1, 0});
  EXPECT_TRUE(trace.find(memory.data()));
}

}  // namespace
}  // namespace ferry::runtime
