#include <gtest/gtest.h>

#include "ferry/interop/grpc_endpoint/call_internal.h"

namespace ferry::interop {
namespace {

CallAnswer some_answer() {
  CallAnswer answer{"127.0.0.1:4711", {}};
  for (std::size_t i = 0; i < answer.token.size(); ++i) answer.token[i] = std::byte(i + 1);
  return answer;
}

TEST(CallAnswer, ComesBackAsItWasSaid) {
  const auto said = some_answer();
  const auto heard = CallAnswer::decode(said.encode());
  ASSERT_TRUE(heard) << heard.error().to_string();
  EXPECT_EQ(heard->endpoint, said.endpoint);
  EXPECT_EQ(heard->token, said.token);
}

TEST(CallAnswer, OfAnotherVersionIsUnavailable) {
  auto blob = some_answer().encode();
  blob[0] = std::byte{2};
  const auto heard = CallAnswer::decode(blob);
  ASSERT_FALSE(heard);
  EXPECT_EQ(heard.error().code(), Code::kUnavailable);
}

TEST(CallAnswer, ThatIsCutOffOrTooLongIsRefused) {
  auto blob = some_answer().encode();
  for (std::size_t size = 0; size < blob.size(); ++size)
    EXPECT_FALSE(CallAnswer::decode(std::span(blob).first(size))) << size;
  blob.push_back(std::byte{0});
  EXPECT_FALSE(CallAnswer::decode(blob));
}

}  // namespace
}  // namespace ferry::interop
