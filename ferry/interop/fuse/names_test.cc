#include <gtest/gtest.h>

#include "ferry/interop/fuse/names_internal.h"

namespace ferry::interop {
namespace {

TEST(FileNames, AreThoseOfTensorsWhereTheyCanBe) {
  EXPECT_EQ(path_of_name("w"), "w");
  EXPECT_EQ(path_of_name("conv1/w"), "conv1/w");
  EXPECT_EQ(path_of_name("a b:0"), "a b:0");
  EXPECT_EQ(path_of_name(std::string(256, 'x')), "");
  EXPECT_EQ(path_of_name(std::string(255, 'x')).size(), 255U);
}

TEST(FileNames, ComeBack) {
  for (const std::string name : {"w", "conv1/w", "/w", "w/", "a//b", "../../etc/passwd", ".", "..",
                                 "50%", "%41", "%", "a/./b", "%zz", ""}) {
    const auto path = path_of_name(name);
    EXPECT_EQ(name_of_path(path), name) << path;
    EXPECT_NE(path.front(), '/') << path;
    EXPECT_EQ(path.find("//"), std::string::npos) << path;
    EXPECT_EQ(("/" + path + "/").find("/../"), std::string::npos) << path;
    EXPECT_EQ(("/" + path + "/").find("/./"), std::string::npos) << path;
  }
}

}  // namespace
}  // namespace ferry::interop
