#include "ferry/storage/file_replacement.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "ferry/storage/checkpoint.h"
#include "ferry/storage/temporary_folder.h"

namespace ferry::storage {
namespace {

namespace fs = std::filesystem;

class FileReplacements : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = make_temporary_folder("ferry-replacement");
    ASSERT_TRUE(made) << made.error().to_string();
    folder_ = *made;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_))
      all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static Status replace(const std::string& path, const std::string& text) {
    auto next = FERRY_TRY(FileReplacement::begin(path));
    EXPECT_EQ(::write(next.fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return next.finish();
  }

  std::string folder_;
};

TEST_F(FileReplacements, AreWholeOrNotThere) {
  ASSERT_TRUE(replace(at("x"), "one"));
  {
    auto next = FileReplacement::begin(at("x"));
    ASSERT_TRUE(next) << next.error().to_string();
    EXPECT_EQ(::write(next->fd(), "half", 4), 4);
    EXPECT_EQ(text_of(at("x")), "one");
  }
  EXPECT_EQ(names(), std::vector<std::string>{"x"});
  ASSERT_TRUE(replace(at("x"), "two"));
  EXPECT_EQ(text_of(at("x")), "two");
  EXPECT_EQ(names(), std::vector<std::string>{"x"});
}

// Whoever may write to the folder could have a file of another user overwritten that way.
TEST_F(FileReplacements, ACheckpointDoesNotFollowALinkThatWasPlanted) {
  std::ofstream(at("precious")) << "precious";
  fs::create_symlink(at("precious"), at("x.new"));
  fs::create_symlink(at("precious"), at("x"));
  ASSERT_TRUE(save_checkpoint(at("x"), {.step = 1, .tensors = {}}));
  EXPECT_EQ(text_of(at("precious")), "precious");
  EXPECT_TRUE(fs::is_symlink(at("x.new")));
  EXPECT_FALSE(fs::is_symlink(at("x")));
  EXPECT_EQ(load_checkpoint(at("x"))->step, 1U);
}

TEST_F(FileReplacements, RemoveWhatAKilledWriterLeft) {
  const auto child = ::fork();
  if (child == 0) {
    const auto next = FileReplacement::begin(at("x"));
    ::raise(SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(names().size(), 1U);
  // Of another file, and no writer's.
  std::ofstream(at("y.0123456789abcdef.new")) << "y";
  std::ofstream(at("x.new")) << "x";
  ASSERT_TRUE(replace(at("x"), "one"));
  EXPECT_EQ(names(), (std::vector<std::string>{"x", "x.new", "y.0123456789abcdef.new"}));
}

TEST_F(FileReplacements, LeaveOthersWhoStillWriteAlone) {
  auto slow = FileReplacement::begin(at("x"));
  ASSERT_TRUE(slow) << slow.error().to_string();
  ASSERT_TRUE(replace(at("x"), "quick"));
  EXPECT_EQ(::write(slow->fd(), "slow", 4), 4);
  ASSERT_TRUE(slow->finish());
  EXPECT_EQ(text_of(at("x")), "slow");
  EXPECT_EQ(names(), std::vector<std::string>{"x"});
}

// A writer used to let go of a file that it took for one left behind before it removed it: by then,
// another writer could have locked the file as its own.
TEST_F(FileReplacements, OfOnePathByManyAtOnceAllSucceed) {
  constexpr int kWriters = 8;
  constexpr int kSaves = 200;
  std::atomic<int> failures{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i)
    writers.emplace_back([&] {
      for (int save = 0; save < kSaves; ++save)
        if (!replace(at("x"), "text")) ++failures;
    });
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(text_of(at("x")), "text");
}

TEST_F(FileReplacements, OfLongNamesAreMade) {
  const std::string longest(255, 'n');
  ASSERT_TRUE(replace(at(longest), "one"));
  EXPECT_EQ(names(), std::vector<std::string>{longest});
}

}  // namespace
}  // namespace ferry::storage
