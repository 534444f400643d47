#include "ferry/mail/wait_spin.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "ferry/mail/tuning_cache.h"

namespace ferry::mail {
namespace {

using std::chrono::microseconds;
namespace fs = std::filesystem;

// Two devices of one cluster, a channel between them, and a folder for tunings.
class SpinOfWaits : public ::testing::Test {
 protected:
  SpinOfWaits() {
    char name[] = "/tmp/ferry-spin-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~SpinOfWaits() override { fs::remove_all(folder_); }

  void open(const fabric::Options& options) {
    device_.emplace(fabric::Device::open(options).value());
    other_.emplace(fabric::Device::open(options).value());
    channel_ = device_->connect(other_->endpoint()).value();
  }
  void keep(Nanos spin) const {
    Calibration found;
    found.tuning.spin = spin;
    ASSERT_TRUE(TuningCache(folder_).store(TuningPath::of(channel_), found));
  }
  SpinInUse used() {
    WaitSpin spin(folder_);
    spin.add(*device_, channel_);
    return spin.now();
  }
  static fabric::Options plain() {
    fabric::Options options;
    options.provider = "tcp";
    options.secret = "the secret of the spin tests";
    return options;
  }

  std::string folder_;
  std::optional<fabric::Device> device_;
  std::optional<fabric::Device> other_;
  fabric::Channel channel_;
};

TEST_F(SpinOfWaits, IsTheDefaultWhereNothingIsKept) {
  open(plain());
  EXPECT_EQ(used(), (SpinInUse{fabric::Options().spin, SpinSource::kDefault}));
}

TEST_F(SpinOfWaits, IsWhatIsKeptForThePath) {
  open(plain());
  keep(microseconds(17));
  EXPECT_EQ(used(), (SpinInUse{microseconds(17), SpinSource::kKept}));
  EXPECT_EQ(used().to_text(), "17 us (kept)");
}

TEST_F(SpinOfWaits, IsTheUsersEvenIfOneIsKept) {
  auto options = plain();
  options.spin = spin_of_user(30);
  open(options);
  keep(microseconds(17));
  EXPECT_EQ(used(), (SpinInUse{microseconds(30), SpinSource::kUser}));
}

TEST_F(SpinOfWaits, IsTheDefaultBesideAFileThatIsNone) {
  open(plain());
  keep(microseconds(17));
  for (const auto& file : fs::directory_iterator(folder_)) std::ofstream(file.path()) << "{";
  EXPECT_EQ(used().source, SpinSource::kDefault);
}

TEST(SpinOfUser, IsNeverTakenForTheDefault) {
  EXPECT_NE(spin_of_user(50), fabric::Options().spin);
  EXPECT_EQ(spin_of_user(0), Nanos(0));
  EXPECT_EQ(spin_of_user(-1), Nanos(0));
  EXPECT_EQ(spin_of_user(std::nan("")), Nanos(0));
  EXPECT_EQ(spin_of_user(1e300), TuningLimits::kSpin);
}

TEST(SpinOfUser, HasSourcesWithNames) {
  for (const auto source :
       {SpinSource::kDefault, SpinSource::kKept, SpinSource::kMeasured, SpinSource::kUser})
    EXPECT_EQ(spin_source_named(name_of(source)).value(), source);
  EXPECT_FALSE(spin_source_named("guessed"));
}

}  // namespace
}  // namespace ferry::mail
