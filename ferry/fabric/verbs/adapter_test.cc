#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ferry/fabric/verbs/adapter_internal.h"

namespace ferry::fabric::verbs {
namespace {

TEST(NumaNodes, AreWhatTheDeviceSays) {
  std::string root = (std::filesystem::temp_directory_path() / "ferry-sysfs-XXXXXX").string();
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const auto say = [&root](const std::string& device, const std::string& text) {
    std::filesystem::create_directories(root + "/" + device + "/device");
    std::ofstream(root + "/" + device + "/device/numa_node") << text;
  };
  say("mlx5_0", "1\n");
  say("mlx5_1", "0\n");
  say("rxe0", "-1\n");
  say("odd0", "many\n");
  EXPECT_EQ(numa_node_of("mlx5_0", root), 1);
  EXPECT_EQ(numa_node_of("mlx5_1", root), 0);
  EXPECT_EQ(numa_node_of("rxe0", root), -1);
  EXPECT_EQ(numa_node_of("odd0", root), -1);
  EXPECT_EQ(numa_node_of("none", root), -1);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace ferry::fabric::verbs
