#include "ferry/bootstrap/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <type_traits>

namespace ferry::bootstrap {
namespace {

std::span<const std::byte> view(std::string_view text) { return std::as_bytes(std::span(text)); }

class SecretFileTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override {
    ::unlink(path().c_str());
    ::rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/secret"; }
  void write(std::string_view text, mode_t mode) {
    std::ofstream(path()) << text;
    ASSERT_EQ(::chmod(path().c_str(), mode), 0);
  }

 private:
  std::string folder_ = ::testing::TempDir() + "/ferry-secret-XXXXXX";
};

// RFC 4231, test cases 1, 2 and 6.
TEST(HmacTest, AgreesWithThePublishedVectors) {
  auto hex = [](const Bytes32& bytes) {
    std::string out;
    for (auto b : bytes) out += fmt::format("{:02x}", std::to_integer<int>(b));
    return out;
  };
  EXPECT_EQ(hex(hmac_sha256(view(std::string(20, '\x0b')), {view("Hi There")})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256(view("Jefe"), {view("what do ya want "), {}, view("for nothing?")})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(view(std::string(131, '\xaa')),
                            {view("Test Using Larger Than Block-Size Key - Hash Key First")})),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacTest, ComparesEveryByteAndTheLength) {
  EXPECT_TRUE(equal_in_constant_time(view("abc"), view("abc")));
  EXPECT_FALSE(equal_in_constant_time(view("abc"), view("abd")));
  EXPECT_FALSE(equal_in_constant_time(view("abc"), view("ab")));
}

TEST(SecretTest, TrimsAndHoldsLimits) {
  auto plain = Secret::from_text("0123456789abcdef");
  auto padded = Secret::from_text("\n 0123456789abcdef\r\n");
  ASSERT_TRUE(plain && padded);
  EXPECT_TRUE(*plain == *padded);
  for (const auto& bad : {std::string(), std::string("   \n"), std::string("0123456789abcde  "),
                          std::string(Secret::kMaxBytes + 1, 'x')}) {
    auto secret = Secret::from_text(bad);
    ASSERT_FALSE(secret);
    EXPECT_EQ(secret.error().code(), Code::kInvalidArgument);
    EXPECT_NE(secret.error().message().find("openssl rand"), std::string::npos);
  }
}

TEST(SecretTest, ErrorsDoNotRepeatTheSecret) {
  auto secret = Secret::from_text("hunter2");
  ASSERT_FALSE(secret);
  EXPECT_EQ(secret.error().message().find("hunter2"), std::string::npos);
}

TEST(SecretTest, CannotBePrinted) { EXPECT_FALSE(fmt::is_formattable<Secret>::value); }

TEST(SecretTest, CopiesAndMovesKeepTheValue) {
  auto a = *Secret::generate();
  auto b = *Secret::generate();
  EXPECT_FALSE(a == b);
  Secret copy = a;
  b = copy;
  EXPECT_TRUE(a == b);
  Secret moved = std::move(copy);
  b = std::move(moved);
  EXPECT_TRUE(a == b);
  EXPECT_EQ(a.mac({view("x")}), b.mac({view("x")}));
}

TEST(SecretTest, RandomBytesDiffer) {
  std::set<Bytes32> seen;
  for (int i = 0; i < 100; ++i) {
    Bytes32 bytes{};
    ASSERT_TRUE(random_bytes(bytes));
    EXPECT_TRUE(seen.insert(bytes).second);
  }
  EXPECT_TRUE(random_bytes({}));
}

TEST_F(SecretFileTest, ReadsAPrivateFile) {
  write("0123456789abcdef\n", 0600);
  EXPECT_TRUE(*Secret::from_file(path()) == *Secret::from_text("0123456789abcdef"));
}

TEST_F(SecretFileTest, AGroupMayReadIt) {
  write("0123456789abcdef\n", 0640);
  EXPECT_TRUE(Secret::from_file(path()));
}

TEST_F(SecretFileTest, RefusesAFileOpenToTheWorld) {
  for (mode_t mode : {0604, 0602, 0644, 0666}) {
    write("0123456789abcdef\n", mode);
    auto secret = Secret::from_file(path());
    ASSERT_FALSE(secret);
    EXPECT_EQ(secret.error().code(), Code::kPermissionDenied);
    EXPECT_NE(secret.error().message().find("chmod 600"), std::string::npos);
  }
}

TEST_F(SecretFileTest, NamesWhatIsWrongWithTheFile) {
  EXPECT_EQ(Secret::from_file(path()).error().code(), Code::kNotFound);
  write("short", 0600);
  auto tiny = Secret::from_file(path());
  ASSERT_FALSE(tiny);
  EXPECT_NE(tiny.error().message().find(path()), std::string::npos);
  write(std::string(10000, 'x'), 0600);
  EXPECT_FALSE(Secret::from_file(path()));
  EXPECT_EQ(Secret::from_file("/").error().code(), Code::kInvalidArgument);
  ::unlink(path().c_str());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(Secret::from_file(path()).error().code(), Code::kInvalidArgument);
}

TEST_F(SecretFileTest, SavesForTheOwnerOnlyAndNeverOverwrites) {
  auto secret = *Secret::generate();
  ASSERT_TRUE(secret.save(path()));
  struct stat facts {};
  ASSERT_EQ(::stat(path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_TRUE(*Secret::from_file(path()) == secret);
  EXPECT_EQ(secret.save(path()).error().code(), Code::kAlreadyExists);
}

}  // namespace
}  // namespace ferry::bootstrap
