#include <gtest/gtest.h>

#include "ferry/fabric/book_internal.h"

namespace ferry::fabric {
namespace {

const RemoteRegion kGrant{1, 2, 3, 4, Rights::kRead};

TEST(Book, AnswersAtOnceOrWhenTheNameAppears) {
  Book book(10, 10);
  int answers = 0;
  auto expect = [&](const Result<RemoteRegion>& found) {
    ++answers;
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, kGrant);
  };
  book.look_up("w", 1, Deadline::after(std::chrono::hours(1)), expect);
  EXPECT_EQ(answers, 0);
  ASSERT_TRUE(book.publish("w", kGrant));
  EXPECT_EQ(answers, 1);
  book.look_up("w", 1, Deadline(), expect);
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(book.waiting(), 0U);
}

TEST(Book, WaitersExpireAndAreForgottenWithTheirSession) {
  Book book(10, 10);
  int late = 0;
  book.look_up("a", 1, Deadline(), [&](const Result<RemoteRegion>& found) {
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), Code::kDeadlineExceeded);
    ++late;
  });
  book.look_up("b", 2, Deadline::after(std::chrono::hours(1)), [](const auto&) { FAIL(); });
  book.expire(now_ns());
  EXPECT_EQ(late, 1);
  book.forget(2);
  EXPECT_EQ(book.waiting(), 0U);
}

TEST(Book, OnePeerCannotTakeTheWaitingPlacesOfOthers) {
  Book book(10, 3);
  int answers = 0;
  const auto later = Deadline::after(std::chrono::hours(1));
  const auto count = [&](const Result<RemoteRegion>& found) {
    EXPECT_TRUE(found);
    ++answers;
  };
  Code refused = Code::kOk;
  for (int i = 0; i < 3; ++i) book.look_up("w", 1, later, count);
  book.look_up("w", 1, later, [&](const auto& found) { refused = found.error().code(); });
  EXPECT_EQ(refused, Code::kResourceExhausted);
  for (std::uint32_t owner = 2; owner < 20; ++owner) book.look_up("w", owner, later, count);
  EXPECT_EQ(book.waiting(), 21U);
  ASSERT_TRUE(book.publish("w", kGrant));
  EXPECT_EQ(answers, 21);
  // An answer frees the place of its owner; so do the deadline, and the end of the session.
  for (int i = 0; i < 3; ++i) book.look_up("x", 1, Deadline(), [](const auto&) {});
  book.expire(now_ns());
  for (int i = 0; i < 3; ++i) book.look_up("x", 1, later, [](const auto&) {});
  book.forget(1);
  book.look_up("y", 1, later, count);
  ASSERT_TRUE(book.publish("y", kGrant));
  EXPECT_EQ(answers, 22);
}

TEST(Book, NamesAreUniqueBoundedAndCounted) {
  Book book(2, 10);
  ASSERT_TRUE(book.publish("a", kGrant));
  EXPECT_EQ(book.publish("a", kGrant).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(book.publish("", kGrant).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(book.publish(std::string(257, 'x'), kGrant).error().code(), Code::kInvalidArgument);
  ASSERT_TRUE(book.publish("b", kGrant));
  EXPECT_EQ(book.publish("c", kGrant).error().code(), Code::kResourceExhausted);
  ASSERT_TRUE(book.withdraw("a"));
  EXPECT_EQ(book.withdraw("a").error().code(), Code::kNotFound);
  ASSERT_TRUE(book.publish("c", kGrant));
}

}  // namespace
}  // namespace ferry::fabric
