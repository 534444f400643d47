#include <filesystem>
#include <fstream>

#include "ferry/mail/find_tuning.h"
#include "ferry/mail/mail_opening_internal.h"
#include "ferry/mail/tuning_cache.h"
#include "tests/contract/mail_kit.h"

// Where the numbers of a mailbox come from: options, what is kept, the peer, a calibration.

namespace ferry::contract {
namespace {

using mail::Tuning;
using mail::TuningCache;
using mail::TuningOffer;
using mail::TuningPath;
using mail::TuningUse;

class MailTuning : public MailTest {
 protected:
  void SetUp() override {
    MailTest::SetUp();
    char name[] = "/tmp/ferry-tuning-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override {
    MailTest::TearDown();
    std::filesystem::remove_all(folder_);
  }

  static Tuning unusual() {
    Tuning tuning;
    tuning.eager_threshold = 48 << 10;
    tuning.copy_up_to = 32 << 10;
    tuning.chunk_bytes = 64 << 10;
    tuning.chunks_in_flight = 3;
    tuning.spin = 20us;
    return tuning;
  }
  Tuning usual() { return mail::default_tuning(ab().provider()); }
  std::string at(const char* end) const { return folder_ + "/" + end; }
  static MailRoomOptions room(TuningUse use, std::string folder = "") {
    return {.tuning = use, .tuning_folder = std::move(folder)};
  }
  void keep(const char* end, const Tuning& tuning) {
    must(TuningCache(at(end)).store(TuningPath::of(ab()), {tuning, {}}));
  }
  std::optional<mail::TuningEntry> kept(const char* end) {
    return TuningCache(at(end)).load(TuningPath::of(ab()));
  }
  void expect_mail_to_cross() {
    for (std::size_t bytes : {100U, 40U << 10, 300U << 10}) {
      std::thread other([&] { send_stamped(at_a(), bytes, bytes); });
      expect_next(at_b(), bytes, bytes);
      other.join();
    }
  }

 private:
  std::string folder_;
};

TEST_F(MailTuning, MailboxesUseWhatIsKept) {
  open();
  keep("one", unusual());
  open_rooms(room(TuningUse::kCached, at("one")), room(TuningUse::kMeasure, at("one")));
  open_mail();
  EXPECT_EQ(at_a().tuning(), unusual());
  EXPECT_EQ(at_b().tuning(), unusual());
  expect_mail_to_cross();
  // 40 KiB fits the slots, which are made for the threshold.
  EXPECT_EQ(at_a().stats().announced, 1U);
  EXPECT_EQ(at_a().stats().registered, 1U);
}

TEST_F(MailTuning, OptionsWin) {
  open();
  keep("one", unusual());
  open_rooms(room(TuningUse::kCached, at("one")), room(TuningUse::kCached, at("one")));
  MailboxOptions options;
  options.eager_threshold = 64;
  options.chunks_in_flight = 1;
  options.spin = 0us;
  open_mail(options);
  auto expected = unusual();
  expected.eager_threshold = 64;
  expected.chunks_in_flight = 1;
  expected.spin = 0us;
  EXPECT_EQ(at_a().tuning(), expected);
  EXPECT_EQ(at_b().tuning(), unusual());
  expect_mail_to_cross();
  EXPECT_EQ(at_a().stats().announced, 3U);
}

TEST_F(MailTuning, ASpinSetForTheDeviceWins) {
  auto options = device_options();
  options.spin = 7us;
  open(options, options);
  keep("one", unusual());
  open_rooms(room(TuningUse::kCached, at("one")), room(TuningUse::kCached, at("one")));
  open_mail();
  EXPECT_EQ(at_a().tuning().spin, 7us);
  EXPECT_EQ(at_a().tuning().chunk_bytes, unusual().chunk_bytes);
}

TEST_F(MailTuning, OffMeansTheDefaults) {
  open();
  keep("one", unusual());
  open_rooms(room(TuningUse::kOff, at("one")), room(TuningUse::kOff, at("one")));
  open_mail();
  EXPECT_EQ(at_a().tuning(), usual());
  expect_mail_to_cross();
}

TEST_F(MailTuning, OneEndMayBeOff) {
  open();
  keep("one", unusual());
  for (bool first : {true, false}) {
    for (auto use : {TuningUse::kCached, TuningUse::kMeasure}) {
      auto on = room(use, at(first ? "one" : "empty"));
      auto off = room(TuningUse::kOff);
      mail() = {};
      open_rooms(first ? on : off, first ? off : on);
      open_mail();
      EXPECT_EQ(at_a().tuning(), first ? unusual() : usual());
      EXPECT_EQ(at_b().tuning(), usual());
      expect_mail_to_cross();
    }
  }
  EXPECT_FALSE(kept("empty"));
}

TEST_F(MailTuning, WhatOneEndHasTheOtherTakesOverAndKeeps) {
  open();
  keep("one", unusual());
  open_rooms(room(TuningUse::kMeasure, at("one")), room(TuningUse::kMeasure, at("other")));
  open_mail();
  EXPECT_EQ(at_b().tuning(), unusual());
  ASSERT_TRUE(kept("other"));
  EXPECT_EQ(kept("other")->found.tuning, unusual());
}

TEST_F(MailTuning, NothingIsMeasuredWhereOneEndWouldNot) {
  open();
  open_rooms(room(TuningUse::kCached, at("one")), room(TuningUse::kMeasure, at("other")));
  open_mail();
  EXPECT_EQ(at_a().tuning(), usual());
  EXPECT_EQ(at_b().tuning(), usual());
  EXPECT_FALSE(kept("one"));
  EXPECT_FALSE(kept("other"));
}

TEST_F(MailTuning, FirstUseMeasuresOnce) {
  open();
  open_rooms(room(TuningUse::kMeasure, at("one")), room(TuningUse::kMeasure, at("other")));
  open_mail();
  auto entry = kept("one");
  ASSERT_TRUE(entry);
  ASSERT_TRUE(kept("other"));
  EXPECT_EQ(entry->found, kept("other")->found);
  EXPECT_EQ(entry->found.tuning, at_a().tuning());
  EXPECT_EQ(at_a().tuning(), at_b().tuning());
  EXPECT_NE(entry->found.curve(mail::CurveNames::kEager), nullptr);
  expect_mail_to_cross();
  // The second mailbox finds what the first has left.
  keep("one", unusual());
  keep("other", unusual());
  mail() = {};
  open_mail();
  EXPECT_EQ(at_a().tuning(), unusual());
  expect_mail_to_cross();
}

TEST_F(MailTuning, WhoCannotKeepItDoesNotMeasure) {
  open();
  std::ofstream(at("file")) << "in the way";
  auto nowhere = room(TuningUse::kMeasure, at("file") + "/folder");
  open_rooms(nowhere, nowhere);
  open_mail();
  EXPECT_EQ(at_a().tuning(), usual());
  EXPECT_EQ(at_b().tuning(), usual());
}

TEST_F(MailTuning, OneCalibrationOfAHostAtATime) {
  open();
  auto lock = must(TuningCache(at("one")).try_lock());
  open_rooms(room(TuningUse::kMeasure, at("one")), room(TuningUse::kMeasure, at("one")));
  open_mail();
  EXPECT_EQ(at_a().tuning(), usual());
  EXPECT_FALSE(kept("one"));
}

TEST_F(MailTuning, AFileThatIsBrokenIsNoError) {
  open();
  keep("one", unusual());
  for (const auto& file : std::filesystem::directory_iterator(at("one")))
    std::ofstream(file.path()) << "{\"format\": 1";
  open_rooms(room(TuningUse::kCached, at("one")), room(TuningUse::kCached, at("one")));
  open_mail();
  EXPECT_EQ(at_a().tuning(), usual());
}

TEST_F(MailTuning, ItIsSaidWhereValuesComeFrom) {
  using mail::TuningSource;
  open();
  open_rooms(room(TuningUse::kOff), room(TuningUse::kOff));
  open_mail();
  EXPECT_EQ(at_a().tuning_source(), TuningSource::kDefault);
  keep("one", unusual());
  mail() = {};
  open_rooms(room(TuningUse::kCached, at("one")), room(TuningUse::kMeasure, at("other")));
  open_mail();
  EXPECT_EQ(at_a().tuning_source(), TuningSource::kKept);
  EXPECT_EQ(at_b().tuning_source(), TuningSource::kKept);
}

TEST_F(MailTuning, AMailboxIsRetunedWhileItIsUsed) {
  using mail::TuningSource;
  open();
  open_rooms(room(TuningUse::kOff), room(TuningUse::kOff));
  MailboxOptions set;
  set.eager_threshold = 2000;
  open_mail({}, set);
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < 200; ++i) {
      if (i == 100) must(at_a().retune(unusual(), TuningSource::kMeasured));
      send_stamped(at_a(), 300'000 + i, i);
    }
  });
  for (std::uint64_t i = 0; i < 200; ++i) {
    auto values = unusual();
    values.chunks_in_flight = 1 + i % 7;
    must(at_b().retune(values, TuningSource::kMeasured));
    expect_next(at_b(), 300'000 + i, i);
  }
  sender.join();
  EXPECT_EQ(at_a().tuning(), unusual());
  EXPECT_EQ(at_a().tuning_source(), TuningSource::kMeasured);
  EXPECT_EQ(at_b().tuning().eager_threshold, 2000U);  // what the user has set
  EXPECT_EQ(at_b().tuning().chunk_bytes, unusual().chunk_bytes);
  // From now on the new threshold: the slots hold it.
  auto low = unusual();
  low.eager_threshold = 100;
  must(at_a().retune(low, TuningSource::kMeasured));
  const auto before = at_a().stats().announced;
  std::thread small([&] { send_stamped(at_a(), 200, 1); });
  expect_next(at_b(), 200, 1);
  small.join();
  EXPECT_EQ(at_a().stats().announced, before + 1);
  low.chunk_bytes = 1;
  EXPECT_EQ(code_of(at_a().retune(low, TuningSource::kKept)), Code::kOutOfRange);
  EXPECT_EQ(at_a().tuning_source(), TuningSource::kMeasured);
}

TEST_F(MailTuning, AMessageSaysWhetherItLiesInASlot) {
  open();
  open_rooms(room(TuningUse::kOff), room(TuningUse::kOff));
  open_mail();
  for (const std::size_t bytes : {100U, 300U << 10}) {
    std::thread other([&] { send_stamped(at_a(), bytes, 1); });
    {
      auto message = must(at_b().receive(soon()));
      EXPECT_EQ(message.in_slot(), bytes == 100U);
    }
    other.join();
  }
}

// Without a mailbox, on a channel that is for this.
TEST_F(MailTuning, APathIsMeasuredBesideMailboxes) {
  using mail::FoundTuning;
  using mail::TuningSource;
  open();
  const auto find = [&](TuningUse use_a, TuningUse use_b) {
    Result<FoundTuning> found_a = FoundTuning{};
    std::thread other([&] { found_a = mail::find_tuning(a(), ab(), use_a, at("one"), soon()); });
    auto found_b = mail::find_tuning(b(), ba(), use_b, at("other"), soon());
    other.join();
    EXPECT_EQ(must(found_a).source, must(found_b).source);
    EXPECT_EQ(must(found_a).tuning, must(found_b).tuning);
    return must(found_a);
  };
  EXPECT_EQ(find(TuningUse::kOff, TuningUse::kMeasure).source, TuningSource::kDefault);
  EXPECT_FALSE(kept("one") || kept("other"));
  const auto measured = find(TuningUse::kMeasure, TuningUse::kMeasure);
  EXPECT_EQ(measured.source, TuningSource::kMeasured);
  ASSERT_TRUE(kept("one") && kept("other"));
  EXPECT_EQ(kept("other")->found.tuning, measured.tuning);
  EXPECT_EQ(find(TuningUse::kCached, TuningUse::kMeasure).source, TuningSource::kKept);
  EXPECT_EQ(mail::kept_tuning(ab(), at("one")).tuning, measured.tuning);
  EXPECT_EQ(mail::kept_tuning(ab(), at("none")).source, TuningSource::kDefault);
}

TEST_F(MailTuning, APeersNonsenseIsRefused) {
  open();
  open_rooms(room(TuningUse::kCached, at("one")), room(TuningUse::kCached, at("one")));
  TuningOffer offer;
  offer.state = TuningOffer::State::kHas;
  offer.tuning.eager_threshold = std::uint64_t{1} << 60;
  auto wire = offer.to_wire();
  must(ab().send(wire));
  EXPECT_EQ(code_of(Mailbox::open(room_b(), b(), ba(), {}, soon())), Code::kOutOfRange);
  wire = TuningOffer().to_wire();
  wire[4] = std::byte{77};
  must(ab().send(wire));
  EXPECT_EQ(code_of(Mailbox::open(room_b(), b(), ba(), {}, soon())), Code::kInvalidArgument);
  EXPECT_FALSE(kept("one"));
}

}  // namespace
}  // namespace ferry::contract
