#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ferry/ps/scheduler/http_internal.h"
#include "ferry/ps/scheduler/store_internal.h"

namespace ferry::ps {
namespace {

namespace fs = std::filesystem;

template <class T>
T must(Result<T> result) {
  return std::move(result).value();  // throws, which fails the test
}
template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::kOk : result.error().code();
}

Bytes image_of(std::size_t size, std::byte first) {
  Bytes image(size);
  for (std::size_t each = 0; each < size; ++each) image[each] = first ^ std::byte(each % 251);
  return image;
}

class FileStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ferry-ps-store-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = name + "/state";
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  std::string folder_;
  std::string path_;
};

TEST_F(FileStoreTest, GivesBackTheLastImage) {
  {
    auto store = must(Store::open(path_));
    EXPECT_FALSE(must(store->load()).has_value());
    for (const std::size_t size : {1, 5000, 77})
      ASSERT_TRUE(store->save(image_of(size, std::byte(size % 256))));
    EXPECT_EQ(must(store->load()), image_of(77, std::byte{77}));
  }
  EXPECT_EQ(must(must(Store::open(path_))->load()), image_of(77, std::byte{77}));
}

TEST_F(FileStoreTest, AFolderHoldsAFileOfItsOwn) {
  ASSERT_TRUE(must(Store::open(folder_))->save(image_of(10, {})));
  EXPECT_TRUE(fs::exists(folder_ + "/scheduler.state"));
  EXPECT_EQ(must(must(Store::open(folder_))->load()), image_of(10, {}));
}

TEST_F(FileStoreTest, IsOneSchedulersAtATime) {
  auto store = must(Store::open(path_));
  const auto second = Store::open(path_);
  EXPECT_EQ(code_of(second), Code::kFailedPrecondition);
  EXPECT_NE(second.error().message().find(path_), std::string::npos) << second.error().message();
  store.reset();
  must(Store::open(path_));
}

TEST_F(FileStoreTest, NamesWhatIsBrokenAndLeavesIt) {
  auto store = must(Store::open(path_));
  ASSERT_TRUE(store->save(image_of(1000, {})));
  const auto whole = text();
  auto wrong = whole;
  wrong.back() ^= 1;
  auto version = whole;
  version[8] ^= 64;
  for (const auto& bad : {wrong, version, whole.substr(0, whole.size() - 1), whole.substr(0, 20),
                          std::string("what somebody else wrote"), std::string()}) {
    write(bad);
    const auto loaded = store->load();
    EXPECT_EQ(code_of(loaded), Code::kDataLoss) << bad.size();
    EXPECT_NE(loaded.error().message().find(path_), std::string::npos);
    EXPECT_EQ(text(), bad);
  }
}

TEST_F(FileStoreTest, SaysWhereItCannotBe) {
  const auto opened = Store::open(folder_ + "/none/state");
  EXPECT_EQ(code_of(opened), Code::kNotFound);
  EXPECT_NE(opened.error().message().find("none"), std::string::npos);
  auto store = must(Store::open(path_));
  ASSERT_TRUE(store->save(image_of(10, {})));
  fs::rename(folder_, folder_ + "-away");
  EXPECT_EQ(code_of(store->save(image_of(11, {}))), Code::kNotFound);
  fs::rename(folder_ + "-away", folder_);
  EXPECT_EQ(must(store->load()), image_of(10, {}));
}

TEST_F(FileStoreTest, DoesNotFollowLinksThatWerePlanted) {
  const auto precious = folder_ + "/precious";
  std::ofstream(precious) << "precious";
  fs::create_symlink(precious, path_ + ".new");
  ASSERT_TRUE(must(Store::open(path_))->save(image_of(10, {})));
  std::string first;
  std::ifstream(precious) >> first;
  EXPECT_EQ(first, "precious");
  const auto made = folder_ + "/made";
  fs::remove(path_ + ".lock");
  fs::create_symlink(made, path_ + ".lock");
  EXPECT_FALSE(Store::open(path_));
  EXPECT_FALSE(fs::exists(made));
}

TEST(EtcdPlace, NeedsAnAddressAndAKey) {
  for (const auto* where : {"etcd://", "etcd://127.0.0.1:2379", "etcd://127.0.0.1:2379/",
                            "etcd://127.0.0.1/key", "etcd:///key"})
    EXPECT_EQ(code_of(Store::open(where)), Code::kInvalidArgument) << where;
}

TEST(EtcdPlace, NobodyThere) {
  // Port 9 is for discarding what comes, and nobody listens there.
  const auto loaded = must(Store::open("etcd://127.0.0.1:9/key"))->load();
  EXPECT_EQ(code_of(loaded), Code::kUnavailable);
  EXPECT_NE(loaded.error().message().find("127.0.0.1:9"), std::string::npos);
}

TEST(Http, AnswersInAllTheirForms) {
  const auto whole = [](const std::string& text, bool ended = false) {
    const auto answer = must(parse_http(text, ended));
    return answer ? std::to_string(answer->status) + answer->body : "more";
  };
  EXPECT_EQ(whole("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), "200abc");
  EXPECT_EQ(whole("HTTP/1.1 200 OK\r\ncontent-length:3\r\n\r\nab"), "more");
  EXPECT_EQ(whole("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), "404");
  EXPECT_EQ(whole("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n"
                  "0123456789\r\n0\r\n\r\n"),
            "200abc0123456789");
  EXPECT_EQ(whole("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"), "more");
  EXPECT_EQ(whole("HTTP/1.1 200 OK\r\n\r\nabc"), "more");
  EXPECT_EQ(whole("HTTP/1.1 200 OK\r\n\r\nabc", true), "200abc");
  EXPECT_EQ(whole("HTTP/1.1 200"), "more");
}

TEST(Http, WhatIsNoAnswer) {
  const auto code = [](const std::string& text, bool ended = true) {
    return code_of(parse_http(text, ended));
  };
  EXPECT_EQ(code(""), Code::kDataLoss);
  EXPECT_EQ(code("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"), Code::kDataLoss);
  EXPECT_EQ(code("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nab"), Code::kDataLoss);
  EXPECT_EQ(code("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"), Code::kDataLoss);
  EXPECT_EQ(code("HTTP/1.1 2x0 OK\r\n\r\n"), Code::kDataLoss);
  EXPECT_EQ(code("SSH-2.0-OpenSSH_9.2\r\n\r\n"), Code::kDataLoss);
  EXPECT_EQ(code("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false),
            Code::kDataLoss);
  EXPECT_EQ(code(std::string(100'000, 'x'), false), Code::kDataLoss);
}

}  // namespace
}  // namespace ferry::ps
