#include <gtest/gtest.h>

#include "ferry/fabric/pending_calls_internal.h"

namespace ferry::fabric {
namespace {

std::vector<std::byte> bytes_of(std::size_t count) { return std::vector<std::byte>(count); }

TEST(PendingCalls, AnAnswerGoesToItsOwnCall) {
  PendingCalls calls;
  const auto [first, one] = calls.add();
  const auto [second, other] = calls.add();
  EXPECT_NE(first, second);
  calls.answer(second, bytes_of(7));
  EXPECT_FALSE(one->done);
  ASSERT_TRUE(other->done);
  EXPECT_EQ(other->answer->size(), 7U);
}

TEST(PendingCalls, ACallIsAnsweredOnce) {
  PendingCalls calls;
  const auto [id, call] = calls.add();
  calls.answer(id, bytes_of(1));
  calls.answer(id, bytes_of(2));
  EXPECT_EQ(call->answer->size(), 1U);
}

TEST(PendingCalls, AnAnswerToACallerThatGaveUpIsDropped) {
  PendingCalls calls;
  const auto [id, call] = calls.add();
  calls.remove(id);
  calls.answer(id, bytes_of(1));
  EXPECT_FALSE(call->done);
  calls.answer(id + 100, bytes_of(1));  // never asked
}

}  // namespace
}  // namespace ferry::fabric
