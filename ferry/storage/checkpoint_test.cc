#include "ferry/storage/checkpoint.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

namespace ferry::storage {
namespace {

namespace fs = std::filesystem;

tensor::Tensor saved_floats(std::vector<float> values) {
  auto kept = std::make_shared<std::vector<float>>(std::move(values));
  const auto shape = *tensor::Shape::of({static_cast<std::int64_t>(kept->size())});
  return *tensor::Tensor::over({tensor::ElementType::kF32, shape},
                               std::as_writable_bytes(std::span(*kept)), kept);
}

class Checkpoints : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ferry-checkpoint-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string file(const std::string& name) const { return folder + "/" + name; }
  // Flips one bit of a file.
  static void damage(const std::string& path, std::uint64_t at) {
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(byte);
  }
  static Code code_of_load(const std::string& path) {
    const auto loaded = load_checkpoint(path);
    return loaded ? Code::kOk : loaded.error().code();
  }

  std::string folder;
};

TEST_F(Checkpoints, ComeBackAsTheyWere) {
  const Checkpoint saved{7, {{"a", saved_floats({1, 2, 3})}, {"empty", saved_floats({})}}};
  ASSERT_TRUE(save_checkpoint(file("x"), saved));
  const auto loaded = load_checkpoint(file("x"));
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  EXPECT_EQ(loaded->step, 7U);
  ASSERT_EQ(loaded->tensors.size(), 2U);
  EXPECT_EQ(loaded->tensors.at("a").spec(), saved.tensors.at("a").spec());
  EXPECT_EQ(loaded->tensors.at("a").elements<float>()[2], 3);
}

TEST_F(Checkpoints, NoticeEveryFlippedBit) {
  ASSERT_TRUE(save_checkpoint(file("x"), {1, {{"a", saved_floats({1, 2})}}}));
  const auto bytes = fs::file_size(file("x"));
  std::uint64_t harmless = 0;
  for (std::uint64_t at = 0; at < bytes; ++at) {
    damage(file("x"), at);
    harmless += code_of_load(file("x")) == Code::kOk ? 1 : 0;
    damage(file("x"), at);
  }
  EXPECT_LT(harmless, 64U);  // only what fills the file up between table and tensors
  EXPECT_EQ(code_of_load(file("x")), Code::kOk);
}

TEST_F(Checkpoints, NoticeEveryCut) {
  ASSERT_TRUE(save_checkpoint(file("x"), {1, {{"a", saved_floats({1, 2})}}}));
  for (auto bytes = fs::file_size(file("x")); bytes-- > 0;) {
    fs::resize_file(file("x"), bytes);
    EXPECT_EQ(code_of_load(file("x")), Code::kDataLoss) << bytes;
  }
}

TEST_F(Checkpoints, NameWhatIsNotThere) {
  EXPECT_EQ(code_of_load(file("none")), Code::kNotFound);
  const auto saved = save_checkpoint(file("none/x"), {});
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code(), Code::kNotFound);
}

// The status of a process that has a disk of 64 KiB at `folder`: what `body` says, or 77 if it
// cannot have one.
int with_small_disk(const std::string& folder, const std::function<int()>& body) {
  const auto child = fork();
  if (child == 0) {
    const bool alone = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!alone || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("ferry", folder.c_str(), "tmpfs", 0, "size=64k") != 0)
      _exit(77);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Checkpoints, StayWhenTheDiskIsFull) {
  const auto status = with_small_disk(folder, [&] {
    if (!save_checkpoint(file("x"), {1, {{"a", saved_floats({1})}}})) return 1;
    const std::vector<float> many(1 << 16);
    const auto saved = save_checkpoint(file("x"), {2, {{"a", saved_floats(many)}}});
    if (saved || saved.error().code() != Code::kResourceExhausted) return 2;
    const auto there = load_checkpoint(file("x"));
    if (!there || there->step != 1) return 3;
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1 ? 0 : 4;
  });
  if (status == 77) GTEST_SKIP() << "this user cannot make a small disk";
  EXPECT_EQ(status, 0);
}

TEST_F(Checkpoints, OfSeveralTasksMakeAWhole) {
  const CheckpointFolder run(folder);
  for (const std::uint64_t step : {10, 20}) {
    ASSERT_TRUE(run.save("ps-0", {step, {{"a", saved_floats({static_cast<float>(step)})}}}));
    ASSERT_TRUE(run.save("ps-1", {step, {{"b", saved_floats({0})}}}));
  }
  ASSERT_TRUE(run.save("ps-0", {30, {{"a", saved_floats({30})}}}));  // ps-1 did not get so far
  const auto newest = run.load_newest({"a", "b"});
  ASSERT_TRUE(newest) << newest.error().to_string();
  EXPECT_EQ(newest->step, 20U);
  EXPECT_EQ(newest->tensors.at("a").elements<float>()[0], 20);
}

TEST_F(Checkpoints, ThatAreBrokenArePassedOver) {
  const CheckpointFolder run(folder);
  ASSERT_TRUE(run.save("ps-0", {10, {{"a", saved_floats({1})}}}));
  ASSERT_TRUE(run.save("ps-0", {20, {{"a", saved_floats({2})}}}));
  const auto newest = folder + "/step-00000020/ps-0.ferry";
  damage(newest, fs::file_size(newest) - 1);
  EXPECT_EQ(run.load_newest({"a"})->step, 10U);
  EXPECT_EQ(run.load_newest({"a", "b"}).error().code(), Code::kNotFound);
}

TEST_F(Checkpoints, AreKeptAsLongAsAsked) {
  const CheckpointFolder run(folder);
  for (const std::uint64_t step : {1, 2, 3, 4})
    ASSERT_TRUE(run.save("ps-0", {step, {{"a", saved_floats({1})}}}));
  ASSERT_TRUE(run.keep_newest(2));
  EXPECT_FALSE(fs::exists(folder + "/step-00000002"));
  EXPECT_EQ(run.load_newest({"a"})->step, 4U);
}

}  // namespace
}  // namespace ferry::storage
