#include "ferry/storage/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

namespace ferry::storage {
namespace {

// Sets TMPDIR, and sets it back.
class TemporaryPlace {
 public:
  explicit TemporaryPlace(const std::string& path) {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", path.c_str(), 1);
  }
  TemporaryPlace(const TemporaryPlace&) = delete;
  TemporaryPlace& operator=(const TemporaryPlace&) = delete;
  ~TemporaryPlace() {
    if (before_)
      ::setenv("TMPDIR", before_->c_str(), 1);
    else
      ::unsetenv("TMPDIR");
  }

 private:
  std::optional<std::string> before_;
};

TEST(TemporaryFolder, IsNewAndOfThisUserAlone) {
  const auto folder = make_temporary_folder("ferry-test");
  ASSERT_TRUE(folder) << folder.error().to_string();
  struct stat found {};
  ASSERT_EQ(::stat(folder->c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700U);
  const auto other = make_temporary_folder("ferry-test");
  ASSERT_TRUE(other) << other.error().to_string();
  EXPECT_NE(*other, *folder);
  ::rmdir(folder->c_str());
  ::rmdir(other->c_str());
}

TEST(TemporaryFolder, NeedsAPlaceThatThereIs) {
  for (const auto* place : {"/nowhere/to/be/found", "/dev/null"}) {
    const TemporaryPlace set(place);
    const auto folder = make_temporary_folder("ferry-test");
    ASSERT_FALSE(folder);
    EXPECT_EQ(folder.error().code(), Code::kFailedPrecondition);
    EXPECT_NE(folder.error().message().find("TMPDIR"), std::string::npos);
  }
}

}  // namespace
}  // namespace ferry::storage
