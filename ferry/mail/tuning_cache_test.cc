#include "ferry/mail/tuning_cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace ferry::mail {
namespace {

namespace fs = std::filesystem;

class TuningFiles : public ::testing::Test {
 protected:
  TuningFiles() {
    char name[] = "/tmp/ferry-tuning-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~TuningFiles() override { fs::remove_all(folder_); }

  static Calibration sample(std::uint64_t threshold = 32 << 10) {
    Calibration found;
    found.tuning.eager_threshold = threshold;
    found.tuning.chunks_in_flight = 2;
    found.curves = {{"eager", {{1024, 500}, {2048, 700}}, 0.05}, {"announced", {{1024, 800}}, 0}};
    return found;
  }
  TuningCache cache() const { return TuningCache(folder_); }
  // The one file there is.
  fs::path file() const {
    for (const auto& at : fs::directory_iterator(folder_)) return at.path();
    return {};
  }
  std::string text() const {
    std::ifstream in(file());
    return (std::ostringstream() << in.rdbuf()).str();
  }
  void overwrite(const std::string& text) const { std::ofstream(file()) << text; }

  std::string folder_;
  const TuningPath path_ = TuningPath::between("b", "a", "shm");
};

TEST_F(TuningFiles, WhatIsKeptIsFoundAgain) {
  EXPECT_FALSE(cache().load(path_));
  ASSERT_TRUE(cache().store(path_, sample()));
  auto entry = cache().load(path_);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->found, sample());
  EXPECT_EQ(entry->path, path_);
  EXPECT_EQ(entry->when.size(), 20U);
  // Either end of the pair asks for the same, and others for something else.
  EXPECT_TRUE(cache().load(TuningPath::between("a", "b", "shm")));
  EXPECT_FALSE(cache().load(TuningPath::between("a", "b", "tcp")));
  EXPECT_FALSE(cache().load(TuningPath::between("a", "a", "shm")));
}

TEST_F(TuningFiles, AFolderIsMadeWhenItIsNeeded) {
  TuningCache below(folder_ + "/one/two");
  EXPECT_FALSE(below.load(path_));
  EXPECT_TRUE(below.list().empty());
  EXPECT_EQ(below.forget().value(), 0);
  ASSERT_TRUE(below.store(path_, sample()));
  EXPECT_TRUE(below.load(path_));
}

TEST_F(TuningFiles, EveryCutAndEveryFlippedByteIsHarmless) {
  ASSERT_TRUE(cache().store(path_, sample()));
  const auto whole = text();
  for (std::size_t cut = 0; cut + 2 < whole.size(); ++cut) {
    overwrite(whole.substr(0, cut));
    EXPECT_FALSE(cache().load(path_)) << cut;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    auto broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0x15);
    overwrite(broken);
    // A digit may have become another one: then it is a tuning, within its bounds.
    if (auto entry = cache().load(path_)) {
      EXPECT_TRUE(check_tuning(entry->found.tuning)) << at;
    }
  }
  // And is replaced.
  ASSERT_TRUE(cache().store(path_, sample()));
  EXPECT_TRUE(cache().load(path_));
}

TEST_F(TuningFiles, OtherVersionsAndValuesOutOfBoundsAreIgnored) {
  ASSERT_TRUE(cache().store(path_, sample()));
  const auto good = text();
  auto with = [&](const std::string& old, const std::string& fresh) {
    auto changed = good;
    changed.replace(changed.find(old), old.size(), fresh);
    overwrite(changed);
    return cache().load(path_).has_value();
  };
  EXPECT_TRUE(with("32768", "16384"));
  EXPECT_FALSE(with("\"format\": 1", "\"format\": 2"));
  EXPECT_FALSE(with("\"format\": 1", "\"format\": \"1\""));
  EXPECT_FALSE(with("32768", "99999999999"));
  EXPECT_FALSE(with("32768", "-1"));
  EXPECT_FALSE(with("32768", "1e3"));
  EXPECT_FALSE(with("32768", "null"));
  EXPECT_FALSE(with("\"host\": \"a\"", "\"host\": \"c\""));
  overwrite("[]");
  EXPECT_FALSE(cache().load(path_));
  overwrite(std::string(1 << 20, ' '));
  EXPECT_FALSE(cache().load(path_));
}

TEST_F(TuningFiles, WritersAtOnceLeaveOneWholeFile) {
  constexpr int kWriters = 4;
  std::vector<pid_t> writers;
  for (int i = 0; i < kWriters; ++i) {
    auto pid = fork();
    if (pid == 0) {
      bool good = true;
      for (std::uint64_t turn = 0; turn < 100; ++turn)
        good = cache().store(path_, sample(1024 * (turn % 8))).has_value() && good;
      _exit(good ? 0 : 1);
    }
    writers.push_back(pid);
  }
  ASSERT_TRUE(cache().store(path_, sample()));
  for (int look = 0; look < 500; ++look) EXPECT_TRUE(cache().load(path_));
  for (auto writer : writers) {
    int status = -1;
    EXPECT_EQ(waitpid(writer, &status, 0), writer);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(cache().load(path_));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(TuningFiles, AFolderThatCannotBeWrittenIsAnErrorOnlyForWriters) {
  const auto blocked = folder_ + "/file";
  std::ofstream(blocked) << "in the way";
  TuningCache below(blocked + "/folder");
  EXPECT_FALSE(below.load(path_));
  EXPECT_TRUE(below.list().empty());
  EXPECT_FALSE(below.store(path_, sample()));
  EXPECT_FALSE(below.try_lock());
  TuningCache nowhere("");
  EXPECT_FALSE(nowhere.load(path_));
  EXPECT_FALSE(nowhere.store(path_, sample()));
}

TEST_F(TuningFiles, AreListedAndForgotten) {
  ASSERT_TRUE(cache().store(path_, sample()));
  ASSERT_TRUE(cache().store(TuningPath::between("a", "b", "tcp"), sample()));
  ASSERT_TRUE(cache().store(TuningPath::between("a", "c", "tcp"), sample()));
  std::ofstream(folder_ + "/shm-0123456789abcdef.json") << "nonsense";
  EXPECT_EQ(cache().list().size(), 3U);
  EXPECT_EQ(cache().forget("tcp").value(), 2);
  ASSERT_EQ(cache().list().size(), 1U);
  EXPECT_EQ(cache().list()[0].path, path_);
  EXPECT_EQ(cache().forget().value(), 2);
  EXPECT_TRUE(cache().list().empty());
}

TEST_F(TuningFiles, WhatIsNotOfTheCacheIsNotForgotten) {
  ASSERT_TRUE(cache().store(path_, sample()));
  std::ofstream(file().string() + ".aB3xYz") << "half";
  const std::vector<std::string> others = {"package.json",
                                           "notes.json.bak",
                                           "my.jsonl",
                                           "shm-1.json",
                                           "-0123456789abcdef.json",
                                           "shm-0123456789abcdeg.json",
                                           "shm-0123456789abcdef.json.bak"};
  for (const auto& name : others) std::ofstream(folder_ + "/" + name) << "precious";
  fs::create_directory(folder_ + "/dir.json");
  fs::create_directory(folder_ + "/shm-0123456789abcdef.json");
  EXPECT_EQ(cache().forget().value(), 2);
  EXPECT_FALSE(cache().load(path_));
  for (const auto& name : others) EXPECT_TRUE(fs::exists(folder_ + "/" + name)) << name;
  EXPECT_TRUE(fs::exists(folder_ + "/dir.json"));
}

TEST_F(TuningFiles, TimesThatCannotBeAreIgnored) {
  ASSERT_TRUE(cache().store(path_, sample()));
  const auto good = text();
  for (const std::string time : {"0", "-1", "1e308", "1e-300", "0.5"}) {
    auto changed = good;
    changed.replace(changed.find("500"), 3, time);
    overwrite(changed);
    EXPECT_FALSE(cache().load(path_)) << time;
  }
}

TEST_F(TuningFiles, OneCalibratesAtATime) {
  auto first = cache().try_lock();
  ASSERT_TRUE(first);
  auto second = cache().try_lock();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
  first->reset();
  EXPECT_TRUE(cache().try_lock());
}

TEST_F(TuningFiles, TheFolderIsWhereTheUserSays) {
  const char* names[] = {"FERRY_TUNING", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::string> before;
  for (const auto* name : names) before.emplace_back(getenv(name) ? getenv(name) : "");
  setenv("HOME", "/home/me", 1);
  setenv("XDG_CACHE_HOME", "/caches", 1);
  setenv("FERRY_TUNING", "/here", 1);
  EXPECT_EQ(TuningCache::default_folder(), "/here");
  setenv("FERRY_TUNING", "off", 1);
  EXPECT_EQ(TuningCache::default_folder(), "");
  unsetenv("FERRY_TUNING");
  EXPECT_EQ(TuningCache::default_folder(), "/caches/tensorferry");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(TuningCache::default_folder(), "/home/me/.cache/tensorferry");
  unsetenv("HOME");
  EXPECT_EQ(TuningCache::default_folder(), "");
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].empty()) {
      unsetenv(names[i]);
    } else {
      setenv(names[i], before[i].c_str(), 1);
    }
  }
}

}  // namespace
}  // namespace ferry::mail
