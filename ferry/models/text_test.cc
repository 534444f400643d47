#include "ferry/models/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace ferry::models {
namespace {

// A folder that is gone with the object.
class Shelf {
 public:
  Shelf() {
    std::string name = (std::filesystem::temp_directory_path() / "ferry-text-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Shelf() { std::filesystem::remove_all(path_); }
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;

  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string alphabet(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

TEST(Text, IsReadInOrderAndSplit) {
  const Shelf shelf;
  shelf.put("b", "bbbbbbbbbBcccccccccC");
  shelf.put("a",
            "caf\xc3\xa9"
            "aaaaA");
  std::filesystem::create_symlink(shelf.path() + "/a", shelf.path() + "/link");
  EXPECT_EQ(*read_text(Split::kTrain, shelf.path()), "caf  aaaabbbbbbbbbBcccccccc");
  EXPECT_EQ(*read_text(Split::kTest, shelf.path()), "AcC");
  EXPECT_EQ(read_text(Split::kTrain, shelf.path() + "/none").error().code(), Code::kNotFound);
}

TEST(Text, ComesInPiecesWithTheLetterAfterEach) {
  auto pieces = *Pieces::open(alphabet(1000), {.batch = 3});
  const auto batch = pieces.of_step(1);
  const auto length = batch.ids.shape().dim(0);
  EXPECT_EQ(batch.ids.shape().dim(1), 3);
  EXPECT_EQ(batch.next.shape().dim(0), 3 * length);
  const auto ids = batch.ids.elements<std::int32_t>();
  const auto next = batch.next.elements<std::int32_t>();
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(next[i], ids[i] == 'z' ? 'a' : ids[i] + 1);
  for (std::size_t i = 3; i < ids.size(); ++i) EXPECT_EQ(ids[i], next[i - 3]);
}

TEST(Text, HasOneLengthForAllWorkersAndAnotherInEachStep) {
  const auto text = alphabet(1000);
  auto first = *Pieces::open(text, {.batch = 4, .worker = 0, .workers = 2});
  auto second = *Pieces::open(text, {.batch = 4, .worker = 1, .workers = 2});
  auto again = *Pieces::open(text, {.batch = 4, .worker = 0, .workers = 2});
  std::set<std::int64_t> lengths;
  for (std::uint64_t step = 1; step <= 200; ++step) {
    const auto a = first.of_step(step);
    const auto b = second.of_step(step);
    const auto same = again.of_step(step);
    ASSERT_EQ(a.ids.shape(), b.ids.shape());
    EXPECT_FALSE(std::equal(a.ids.bytes().begin(), a.ids.bytes().end(), b.ids.bytes().begin()));
    EXPECT_TRUE(std::equal(a.ids.bytes().begin(), a.ids.bytes().end(), same.ids.bytes().begin()));
    lengths.insert(a.ids.shape().dim(0));
  }
  EXPECT_EQ(*lengths.begin(), Pieces::kShortest);
  EXPECT_EQ(*lengths.rbegin(), Pieces::kLongest);
  EXPECT_EQ(first.steps_per_epoch(), 3U);
}

TEST(Text, MustBeLongerThanItsPieces) {
  EXPECT_EQ(Pieces::open(alphabet(48), {}).error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Pieces::open(alphabet(49), {}));
}

}  // namespace
}  // namespace ferry::models
