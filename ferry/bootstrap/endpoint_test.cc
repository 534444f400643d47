#include "ferry/bootstrap/endpoint.h"

#include <gtest/gtest.h>

namespace ferry::bootstrap {
namespace {

TEST(EndpointTest, ReadsNamesAndAddresses) {
  EXPECT_EQ(*Endpoint::parse("127.0.0.1:7000"), (Endpoint{"127.0.0.1", 7000}));
  EXPECT_EQ(*Endpoint::parse("node-3.rack_1.example:0"), (Endpoint{"node-3.rack_1.example", 0}));
  EXPECT_EQ(*Endpoint::parse("[::1]:65535"), (Endpoint{"::1", 65535}));
  EXPECT_EQ(*Endpoint::parse("[fe80::1%eth0]:1"), (Endpoint{"fe80::1%eth0", 1}));
}

TEST(EndpointTest, WritesWhatItReads) {
  for (const char* text : {"127.0.0.1:7000", "[::1]:0", "localhost:65535"})
    EXPECT_EQ(Endpoint::parse(text)->to_string(), text);
}

TEST(EndpointTest, RefusesTheRestWithAdvice) {
  const struct {
    std::string text;
    const char* says;
  } kBad[] = {{"", "write host:port"},
              {"localhost", "write host:port"},
              {":7000", "no valid host"},
              {"::1:7000", "brackets"},
              {"[::1]", "brackets"},
              {"[]:1", "no valid host"},
              {"[localhost]:1", "no valid host"},
              {"[::1:1", "brackets"},
              {"a b:1", "no valid host"},
              {std::string("a\0b:1", 5), "no valid host"},
              {"http://a:1", "brackets"},
              {"host:", "0 to 65535"},
              {"host:65536", "0 to 65535"},
              {"host:-1", "0 to 65535"},
              {"host:+1", "0 to 65535"},
              {"host: 1", "0 to 65535"},
              {"host:1x", "0 to 65535"},
              {"host:000080", "0 to 65535"},
              {std::string(1000, 'a') + ":1", "write host:port"}};
  for (const auto& bad : kBad) {
    auto parsed = Endpoint::parse(bad.text);
    ASSERT_FALSE(parsed) << bad.text;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
    EXPECT_NE(parsed.error().message().find(bad.says), std::string::npos)
        << parsed.error().message();
  }
}

TEST(EndpointTest, ShowsNoControlBytesOfTheInput) {
  auto parsed = Endpoint::parse("\x1b[31mred");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message().find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace ferry::bootstrap
